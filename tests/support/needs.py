"""What tests need of a machine beyond Python, in one table, and the one way to skip where it is not there.

A test names its needs by `@needs("g++")`, or calls `require("g++")` or, where only trying tells, `lack("podman", why)`.
`tests/conftest.py` sums up at the end what was not tested and how to get it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"
"""Real data and references of the maintainers, beside the clone. Not part of the project."""


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
"""Names of programs that are Chromium."""


@dataclass(frozen=True)
class Need:
    """Something that a machine may lack."""

    missing: Callable[[], str]
    """Why it is not there; empty where it is, or where only a test itself can tell."""
    remedy: str
    """How to get it."""


def _tool(name: str, package: str = "") -> Need:
    return Need(lambda: "" if shutil.which(name) else f"{name} is not installed", f"apt install {package or name}")


def _package(name: str, extra: str) -> Need:
    return Need(
        lambda: "" if importlib.util.find_spec(name) else f"the package {name} is not installed", f"pip install '.[{extra}]'"
    )


def _shared(folder: str) -> Need:
    return Need(lambda: "" if (SHARED / folder).is_dir() else f"../shared/{folder} is not there", "the maintainers' ../shared")


def _tried(remedy: str) -> Need:
    return Need(lambda: "", remedy)


def _free_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


NEEDS = {
    "shared data": _shared("data"),
    "shared reference": _shared("reference"),
    "awk": _tool("awk", "mawk"),
    "bash": _tool("bash"),
    "bubblewrap": _tool("bwrap", "bubblewrap"),
    "curl": _tool("curl"),
    "gcc": _tool("gcc"),
    "g++": _tool("g++"),
    "ip": _tool("ip", "iproute2"),
    "make": _tool("make"),
    "node": _tool("node", "nodejs"),
    "python3": _tool("python3"),
    "podman": _tried("apt install podman runc mmdebstrap netavark, as root"),
    "sandbox": _tried("a machine on which `verigym sandbox doctor` gives level 2 or 3"),
    "kernel": _tried("a kernel with Landlock, system call filters, namespaces and control groups"),
    "root": Need(lambda: "" if os.geteuid() == 0 else "only root may do it", "run the tests as root"),
    "cores": Need(lambda: "" if len(os.sched_getaffinity(0)) > 1 else "there is one core only", "a second core"),
    "chromium": Need(
        lambda: "" if any(map(shutil.which, CHROMIUM)) else "no Chromium is installed",
        "apt install chromium",
    ),
    "py3langid": _package("py3langid", "language"),
    "emoji": _package("emoji", "constraints"),
    "syllapy": _package("syllapy", "constraints"),
    "re2": _package("re2", "match"),
    "jsonschema": _package("jsonschema", "format"),
    "chess": _package("chess", "games"),
    "bitsandbytes": _package("bitsandbytes", "quant"),
    "peft": _package("peft", "lora"),
    "reasoning-gym": _package("reasoning_gym", "reasoning-gym"),
    "bm25s": _package("bm25s", "retrieval"),
    "mcp": _package("mcp", "mcp"),
    "fastapi": _package("fastapi", "serve"),
    "httpx": _package("httpx", "client"),
    "schemathesis": _tried("a package index that pip reaches, for schemathesis in an environment of its own"),
    "mkdocs": _package("mkdocs", "docs"),
    "nbclient": _package("nbclient", "docs"),
    "starlette": _package("starlette", "openrlhf"),
    "vllm": _tried("make test-vllm"),
    "adapters": Need(
        lambda: "" if os.environ.get("VERIGYM_TEST_ADAPTERS") else "real runs of the adapters are not asked for",
        "make test-adapters",
    ),
    "ray": Need(
        lambda: "" if os.environ.get("VERIGYM_TEST_RAY") else "grading on Ray is not asked for",
        "make test-ray",
    ),
    "packages": _tried("a package index that pip reaches"),
    "response templates": _tried("pip install 'transformers>=5.15'"),
    "lean": Need(lambda: "" if os.environ.get("LEAN4_BIN") else "no Lean 4 is named by LEAN4_BIN", "LEAN4_BIN=path/to/lean"),
    "shm": Need(lambda: "" if _free_bytes("/dev/shm") > 64 << 20 else "/dev/shm is full or missing", "room in /dev/shm"),
    "elsewhere": _tried("nothing: these are for other machines than this one"),
}


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test that skips where one of these is missing."""
    _known(names)
    return pytest.mark.needs(*names)


def lacking(name: str, missing: bool, why: str) -> pytest.MarkDecorator:
    """Mark a test that skips where the condition says that this is missing."""
    _known([name])
    return pytest.mark.skipif(missing, reason=f"needs {name}: {why}")


def require(*names: str) -> None:
    """Skip the test that is running, or the module that is read, where one of these is missing."""
    _known(names)
    for name in names:
        why = NEEDS[name].missing()
        if why:
            lack(name, why)


def lack(name: str, why: object) -> NoReturn:
    """Skip, because trying showed that this is missing."""
    _known([name])
    pytest.skip(f"needs {name}: {why}", allow_module_level=True)


def summary(reasons: Iterable[str], passed: int) -> list[str]:
    """Return the three lines that say what was not tested and how to get it; none where all was tested."""
    counts = Counter(match[1] for reason in reasons if (match := re.match(r"(?:Skipped: )?needs ([^:]+): ", reason)))
    if not counts:
        return []
    wanting = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common())
    remedies = dict.fromkeys(NEEDS[name].remedy for name, _ in counts.most_common())
    return [
        f"not tested here: {counts.total():,} of {counts.total() + passed:,} tests, for want of {wanting}",
        f"to test them too: {'; '.join(remedies)}",
        "each one with its reason: .venv/bin/python -m pytest -rs",
    ]


def _known(names: Iterable[str]) -> None:
    unknown = sorted(set(names) - set(NEEDS))
    if unknown:
        raise pytest.UsageError(f"no need is called {unknown}; the table in tests/support/needs.py has {sorted(NEEDS)}")
