#!/usr/bin/env bash
# Makes a base image for deploy/Dockerfile out of Debian packages, as a tar: python3 with venv. No registry is asked.
# usage: base.sh OUT.tar
set -euo pipefail

# The mirror that this machine uses, where it runs the same release.
suite=bookworm
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" 'Component: main' 2>/dev/null | head -n 1) || true
mmdebstrap --quiet --mode=root --variant=extract --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --include=bash,coreutils,dash,base-files,libc-bin,python3,python3-venv,ca-certificates,media-types \
  --customize-hook='rm -rf "$1"/usr/share/doc "$1"/usr/share/man "$1"/usr/share/locale "$1"/var/lib/apt/lists/*_*' \
  "$suite" "$1" ${mirror:+"deb $mirror $suite main"}
