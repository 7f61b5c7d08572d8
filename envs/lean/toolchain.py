"""Finds Lean: the binary, the compiled libraries of a project, and a fingerprint of both for verdicts.

No code of a project is run: `lake-manifest.json` gives the folders of its libraries, which `lake build` must have compiled.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import canonical_json, sha256_hex

VARIABLE = "LEAN4_BIN"
INSTALL = (
    "curl -sSf https://elan.lean-lang.org/elan-init.sh | sh -s -- -y",
    "lake +leanprover-community/mathlib4:lean-toolchain new proofs math && cd proofs",
    "lake exe cache get && lake build",
)
"""What to type for Lean and a project with Mathlib."""
_ADVICE = (
    f"Install it with `{INSTALL[0]}`, or name a binary with the option `lean` or the variable {VARIABLE}; "
    "`verigym lean doctor` shows what is found"
)
_ELAN = "~/.elan/bin/lean"
_ASK_S = 300.0
_VERSION = re.compile(r"Lean \(version (?P<version>[^,\s)]+)")
_COMMIT = re.compile(r"commit (?P<commit>[0-9a-f]{6,40})")
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-(?:rc(\d+)|pre|nightly))?")
_DESCRIBING = ("lean-toolchain", "lake-manifest.json", "lakefile.toml", "lakefile.lean")


@dataclass(frozen=True)
class Toolchain:
    """A Lean installation that can be started, and the libraries that its files may import."""

    lean: str
    """The binary itself, not elan's shim."""
    version: str
    commit: str
    lean_path: tuple[str, ...] = ()
    """Folders of compiled libraries besides the toolchain's own."""
    readable: tuple[str, ...] = ()
    """Paths that must be readable in the sandbox: the toolchain and the libraries."""
    key: str = ""
    """Hash of the binary and the files that describe the project, used as a key for cached verdicts."""

    @property
    def title(self) -> str:
        """Version and commit, for a person."""
        return f"Lean {self.version}" + (f" ({self.commit[:10]})" if self.commit else "")


def find_toolchain(
    lean: str = "", project: str = "", lean_path: Sequence[str] = (), toolchain_paths: Sequence[str] = ()
) -> Toolchain:
    """Return the Lean to use. The search runs once for the same arguments.

    Args:
        lean: path of the binary. If empty: the path in the variable LEAN4_BIN, else `lean` on PATH, else elan's `lean`.
        project: folder with a `lakefile`, whose packages may be imported; empty for none. If `lean` is elan's, the project's
            file `lean-toolchain` decides which version runs.
        lean_path: folders of compiled libraries, instead of those that the project's manifest names.
        toolchain_paths: more files and folders that this Lean must be able to read, such as the runtime that a wrapper starts.

    Raises:
        EnvironmentFailure: there is no Lean, it is not Lean 4, or the project is not built; the message says what to do.
    """
    given = lean or os.environ.get(VARIABLE, "") or shutil.which("lean") or os.path.expanduser(_ELAN)
    return _resolved(given, project, tuple(lean_path), tuple(toolchain_paths))


@functools.lru_cache(maxsize=16)
def _resolved(given: str, project: str, lean_path: tuple[str, ...], toolchain_paths: tuple[str, ...]) -> Toolchain:
    if not os.access(given, os.X_OK) or os.path.isdir(given):
        raise _unavailable(f"there is no Lean at {given}. {_ADVICE}")
    folder = Path(project).expanduser().resolve() if project else None
    if folder is not None and not folder.is_dir():
        raise _unavailable(f"there is no project folder {project}; make one with `{INSTALL[1]}`")
    lean, readable = _real(os.path.abspath(given), folder)
    line = _ask(lean, "--version", folder)
    version, commit = _VERSION.search(line), _COMMIT.search(line)
    if version is None or not version["version"].startswith("4."):
        raise _unavailable(f"{given} is no Lean 4: it says {line[:100]!r}. {_ADVICE}")
    libraries = lean_path or (tuple(_libraries(folder)) if folder else ())
    for path in (*libraries, *toolchain_paths):
        if not os.path.exists(path):
            raise _unavailable(f"there is no {path}, which lean_path or toolchain_paths names")
    stamp = os.stat(lean)
    described = {name: sha256_hex(text) for name, text in _description(folder)}
    own = [*map(_stamp, libraries[:1] if folder and not lean_path else libraries)]
    key = sha256_hex(canonical_json([line, stamp.st_size, stamp.st_mtime_ns, described, list(libraries), own]))
    roots = [os.path.realpath(path) for path in (*readable, *libraries, *toolchain_paths)]
    return Toolchain(
        lean=lean,
        version=version["version"],
        commit=commit["commit"] if commit else "",
        lean_path=tuple(os.path.realpath(path) for path in libraries),
        readable=tuple(_outermost(roots)),
        key=key,
    )


def _unavailable(message: str) -> EnvironmentFailure:
    return EnvironmentFailure("unavailable", f"lean: {message}")


def _real(given: str, project: Path | None) -> tuple[str, list[str]]:
    """Return the binary and the folder that it needs: the toolchain's, which elan's shim knows, or the one that it lies in."""
    prefix = _ask(given, "--print-prefix", project, fails="")
    inner = os.path.join(prefix, "bin", "lean")
    if os.path.isabs(prefix) and prefix != "/" and os.access(inner, os.X_OK):
        return os.path.realpath(inner), [os.path.realpath(prefix)]
    real = os.path.realpath(given)
    above = os.path.dirname(os.path.dirname(real))
    return real, [above if os.path.basename(os.path.dirname(real)) == "bin" and above != "/" else real]


def _ask(lean: str, question: str, project: Path | None, *, fails: str | None = None) -> str:
    """Return the one line that the binary answers.

    Raises:
        EnvironmentFailure: it does not answer, and `fails` gives nothing to return instead.
    """
    try:
        process = subprocess.run(
            [lean, question], cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or f"no answer within {_ASK_S:g} s"
    else:
        answer = process.stdout.decode("utf-8", "replace").strip()
        # What it says about itself counts: there are builds that end these two questions with an exit code of no meaning.
        if answer:
            return answer
        why = process.stderr.decode("utf-8", "replace").strip()[:300] or f"exit code {process.returncode}"
    if fails is not None:
        return fails
    raise _unavailable(f"`{lean} {question}` fails: {why}. {_ADVICE}")


def _libraries(project: Path) -> Iterator[str]:
    """Yield the folders of compiled libraries of a project and its packages, its own first.

    Raises:
        EnvironmentFailure: the manifest cannot be read, or a package is not built.
    """
    own = _built(project)
    if own is not None:
        yield own
    manifest = project / "lake-manifest.json"
    if not manifest.exists():
        return
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        packages_dir = project / (content.get("packagesDir") or ".lake/packages")
        packages = [
            project / package["dir"] if package.get("dir") else packages_dir / package["name"] / (package.get("subDir") or "")
            for package in content["packages"]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _unavailable(f"{manifest} cannot be read ({type(error).__name__}); run `lake update`") from None
    for package in packages:
        built = _built(package)
        # Some packages hold programs only and are never built.
        if built is not None:
            yield built
    if packages and not any(map(_built, packages)):
        raise _unavailable(f"no package of {project} is built; run `{INSTALL[2]}` there")


def _built(package: Path) -> str | None:
    for inside in (".lake/build/lib/lean", ".lake/build/lib", "build/lib"):
        if (package / inside).is_dir():
            return str(package / inside)
    return None


def _description(project: Path | None) -> Iterator[tuple[str, str]]:
    for name in _DESCRIBING if project else ():
        path = (project or Path()) / name
        if path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="surrogateescape")


def _stamp(folder: str) -> list[tuple[str, int, int]]:
    """Sizes and times of the compiled files of a folder that no manifest pins."""
    files = [(str(path), path.stat()) for path in sorted(Path(folder).rglob("*.olean"))[:5000]]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in files]


def _outermost(paths: Sequence[str]) -> list[str]:
    unique = list(dict.fromkeys(paths))
    return [path for path in unique if not any(path.startswith(f"{other}/") for other in unique if other != path)]


def numbers(version: str) -> tuple[int, ...] | None:
    """Return (4, 28, 0, n) for a version such as `4.28.0` or a name such as `leanprover/lean4:v4.28.0-rc1`; else None.

    `n` makes versions compare in order of time: it is 0 for `pre`, 1 for the release candidate `rc1`, and a large number for a
    release.
    """
    match = _NUMBERS.fullmatch(version.rpartition(":")[2].strip())
    if match is None:
        return None
    last = 10**6 if "-" not in match[0] else int(match[4] or 0)
    return (int(match[1]), int(match[2]), int(match[3]), last)


def fits(wanted: str | None, toolchain: Toolchain) -> bool:
    """Return whether a task that names the toolchain `wanted` may be judged by `toolchain`."""
    if not wanted:
        return True
    numbered = numbers(wanted)
    return numbered == numbers(toolchain.version) if numbered else wanted.strip() == toolchain.version
