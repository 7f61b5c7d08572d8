"""deploy/Dockerfile and deploy/compose.yaml, built and run by Podman on a base of Debian packages. Minutes, and root."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import lack, needs, require

require("fastapi", "httpx")

from tests.sandbox.docker.podman import MountNamespace, Unavailable, with_own_storage  # noqa: E402
from verigym.client import Client, RetryPolicy  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
TOKEN = "a-token-of-the-tests-0123"
BASE, IMAGE = "localhost/verigym-base:latest", "localhost/verigym-serve:latest"
BUILD = "--isolation chroot --format docker -v {wheels}:/wheels:ro"
# No network of their own and no systemd for timers: what the machines of the tests lack.
OVERRIDE = """
services:
  verigym:
    network_mode: host
    ports: !reset []
    healthcheck: {{disable: true}}
    command: ["--config", "/etc/verigym/serve.yaml", "--port", "{port}"]
"""


def run(*command: str | Path, timeout: float = 900, **variables: str) -> subprocess.CompletedProcess[str]:
    given, environment = list(map(str, command)), {**os.environ, **variables}
    return subprocess.run(given, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)


class Compose:
    """podman-compose on the project's file, with storage of its own below one folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.podman = folder / "podman"
        self.namespace = MountNamespace()
        command = shlex.join(self.namespace.command(*with_own_storage(folder), folder=ROOT))
        self.podman.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        self.podman.chmod(0o755)
        self.override = folder / "override.yaml"
        self.override.write_text(OVERRIDE.format(port=port))

    def __call__(self, *arguments: str) -> str:
        files = ["-f", ROOT / "deploy/compose.yaml", "-f", self.override]
        command = [self.folder / "venv/bin/podman-compose", "--podman-path", self.podman, "--in-pod=false", *files, *arguments]
        done = run(
            *command,
            VERIGYM_TOKEN=TOKEN,
            VERIGYM_BASE=BASE,
            VERIGYM_IMAGE=IMAGE,
            VERIGYM_PIP_ARGS="--no-index --find-links /wheels",
            TMPDIR=str(self.folder),
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout + done.stderr


def packages(folder: Path) -> None:
    """Fetch podman-compose, and the wheels that the image is made of, for the Python of its base."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["serve"]]
    pins = ["-c", ROOT / "constraints.txt", "-c", ROOT / "lock.txt"]
    target = ["--python-version", "3.11", "--only-binary=:all:", "-d", folder / "wheels"]
    pip: list[str | Path] = [sys.executable, "-m", "pip", "-q", "--retries", "1"]
    commands: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", "--without-pip", folder / "venv"],
        [*pip, "--python", folder / "venv/bin/python", "install", "podman-compose"],
        [*pip, "download", *target, *pins, *wanted, *project["build-system"]["requires"], "wheel"],
    ]
    for command in commands:
        done = run(*command)
        if done.returncode:
            lack("packages", f"pip cannot fetch what the image needs: {done.stderr.strip()[-300:]}")


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    missing = [tool for tool in ("podman", "runc", "mmdebstrap") if shutil.which(tool) is None]
    if missing:
        lack("podman", f"not installed: {', '.join(missing)}")
    memory = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 4 << 30 else None
    folder = Path(tempfile.mkdtemp(prefix="verigym-compose-", dir=memory))
    try:
        started = Compose(folder, 8700 + os.getpid() % 1000)
    except Unavailable as error:
        shutil.rmtree(folder)
        lack("podman", error)
    try:
        packages(folder)
        made = run(*started.namespace.command(HERE / "base.sh", folder / "base.tar", folder=HERE), TMPDIR=str(folder))
        if made.returncode:
            lack("podman", f"the base image could not be made: {made.stderr.strip()[-300:]}")
        imported = run(started.podman, "import", folder / "base.tar", BASE, TMPDIR=str(folder))
        if imported.returncode:
            lack("podman", f"the base image could not be imported: {imported.stderr.strip()[-300:]}")
        (folder / "base.tar").unlink()
        yield started
    finally:
        run(started.podman, "rm", "--all", "--force", "--time", "0")
        started.namespace.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@needs("root")
def test_the_image_is_built_serves_and_drains(compose: Compose) -> None:
    compose("--podman-build-args", BUILD.format(wheels=compose.folder / "wheels"), "build")
    compose("up", "--detach", "--no-build")
    (container,) = run(compose.podman, "ps", "--quiet").stdout.split()
    try:
        with Client(f"http://127.0.0.1:{compose.port}", token=TOKEN, retries=RetryPolicy(patience_s=120)) as client:
            assert client.score("math", "\\boxed{4}", prompt="2+2?", reference={"answer": "4"}).reward == 1.0
            until = time.monotonic() + 120
            while not client.ready() and time.monotonic() < until:  # the second worker may still be starting
                time.sleep(0.2)
            assert client.ready()
            assert {one.name for one in client.environments()} == {"math", "arithmetic", "number_guessing"}
        tried = "import os; print(os.getuid()); open('/opt/verigym/own', 'w')"
        inside = run(compose.podman, "exec", container, "python3", "-c", tried)
        assert inside.stdout == "10001\n" and "Read-only file system" in inside.stderr
        health = run(compose.podman, "inspect", "--type", "image", "--format", "{{json .HealthCheck}}", IMAGE).stdout
        assert "/healthz" in health
        assert run(compose.podman, "stop", "--time", "60", container).returncode == 0  # killed after it: 137 below
        ended = run(compose.podman, "inspect", "--format", "{{.State.ExitCode}}", container).stdout
        assert ended.strip() == "0"
        log = run(compose.podman, "logs", container)
        assert "a token is demanded" in log.stdout and TOKEN not in log.stdout + log.stderr
    finally:
        compose("down")
