"""Runs a page of the documentation from top to bottom in one folder, as a reader does, and compares what it shows.

Each fenced block follows a comment that says what it is:

`<!-- example: NAME -->`   run: Python from NAME.py, anything else by bash
`<!-- file: PATH -->`      written to PATH
`<!-- output -->`          what the example before it prints on standard output, digits included; `...` stands for any lines
`<!-- figures -->`         the same on either stream, but numbers may differ: they depend on the machine
`<!-- not run: WHY -->`    shown only
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from needs import lack
from warm_python import warm_commands

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?")
PYTHON, BASH = "python", ("", "bash", "console")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    kind: str
    """example, file, output, figures or not run."""
    name: str
    language: str
    text: str


@dataclass(frozen=True)
class Ran:
    """What an example printed."""

    out: str
    err: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page below docs/, in order.

    Raises:
        ValueError: a block does not say what it is.
    """
    found = []
    for match in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        kind, _, name = (match["mark"] or "").partition(": ")
        if kind not in ("example", "file", "output", "figures", "not run") or bool(name) is (kind in ("output", "figures")):
            raise ValueError(
                f"{page}: the block {match['text']!r:.60} follows no comment of tests/support/pages.py: {match['mark']!r}"
            )
        found.append(Block(kind, name, match["language"], match["text"]))
    return found


def run_page(
    page: str,
    folder: Path,
    *,
    extra: Mapping[str, str] | None = None,
    leave_out: tuple[str, ...] = (),
    timeout_s: float = 600,
    warm: bool = False,
) -> dict[str, Ran]:
    """Run the examples of a page in `folder` and check the outputs that it shows; return what each example printed.

    Args:
        page: its path below docs/.
        folder: an empty one, or with what the page supposes.
        extra: environment variables beside those of this process.
        leave_out: examples that are not run, and whose output is not compared.
        timeout_s: wall time of one example.
        warm: `verigym` and Python begin with torch imported; for pages of which many examples train.

    Raises:
        AssertionError: an example fails, or prints something else.
    """
    folders = [*([warm_commands()] if warm else []), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "COLUMNS": "120", "HF_HUB_OFFLINE": "1", **(extra or {})}
    ran: dict[str, Ran] = {}
    last = ""
    for block in blocks(page):
        if block.kind == "file":
            (folder / block.name).write_text(block.text, encoding="utf-8")
        elif block.kind == "example":
            assert block.name not in ran, f"{page}: two examples are called {block.name}"
            last = block.name
            if last not in leave_out:
                ran[last] = _run(page, block, folder, environment, timeout_s)
        elif last in leave_out:
            continue
        elif block.kind == "output":
            assert _shown(block.text, ran[last].out), f"{page}: {last} prints\n{ran[last].out}\nand not\n{block.text}"
        elif block.kind == "figures":
            both = [ran[last].out, ran[last].err]
            assert any(_shown(block.text, one, figures=True) for one in both), (
                f"{page}: {last} prints\n{both}\nand not\n{block.text}"
            )
    return ran


def _run(page: str, block: Block, folder: Path, environment: Mapping[str, str], timeout_s: float) -> Ran:
    if block.language == PYTHON:
        assert block.name not in sys.stdlib_module_names, f"{page}: a file {block.name}.py would hide Python's own module"
        script = folder / f"{block.name}.py"
        script.write_text(block.text, encoding="utf-8")
        command = ["python", script.name]
    else:
        assert block.language in BASH, f"{page}: {block.name} is neither Python nor a command, but {block.language}"
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, f"{page}: {block.name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Ran(done.stdout, done.stderr)


def _shown(expected: str, printed: str, *, figures: bool = False) -> bool:
    """Whether the page's lines are those that were printed, in order and without others but where it has `...`."""
    pattern = ""
    for line in _lines(expected, figures):
        pattern += r"(?:.*\n)*" if line == "..." else f"{re.escape(line)}\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed, figures))) is not None


def _lines(text: str, figures: bool) -> list[str]:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return [re.sub(r" +", " ", NUMBER.sub("#", line)) for line in lines] if figures else lines


@dataclass(frozen=True)
class Trl:
    """TRL in a folder of its own, without its dependencies, which are those of `[train]`; or why it could not be had."""

    folder: Path
    missing: str = ""

    @classmethod
    def installed(cls, folder: Path) -> Trl:
        """Install it by pip."""
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-qq",
            "--no-deps",
            "--no-compile",
            "--target",
            str(folder),
            "trl==1.16.0",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        return cls(folder, (done.stderr.strip().splitlines() or ["pip failed"])[-1] if done.returncode else "")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of an example that imports it."""
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}

    @property
    def leave_out(self) -> tuple[str, ...]:
        """Examples that cannot be run."""
        return ("trl",) if self.missing else ()

    def require(self) -> None:
        """Skip what is left of the test where there is none."""
        if self.missing:
            lack("packages", self.missing)
