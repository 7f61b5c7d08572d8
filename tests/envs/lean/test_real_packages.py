"""The real lean-interact and lean-dojo, as pip installs them into environments of their own, as far as they go without a Lean.

lean-interact talks to a stand-in for `lake` and the REPL: its types take our requests, and its errors are those that we expect.
lean-dojo asks GitHub before it does anything, so what is looked at is what it takes, and that we survive it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import lack, lacking

ROOT = Path(__file__).resolve().parents[3]
SUPPORT = Path(__file__).parent / "support"
SECONDS = 600

pytestmark = [pytest.mark.slow, lacking("elsewhere", sys.version_info >= (3, 13), "lean-dojo has no release for this Python")]


def installed(folder: Path, package: str) -> Path:
    """Return the Python of a new environment with the package; skip where pip cannot install it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, timeout=SECONDS)
    python = folder / "bin/python"
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        lack("packages", f"pip did not install {package} within {SECONDS} s")
    if done.returncode:
        lack("packages", f"pip cannot install {package}: {done.stderr.strip().rpartition(chr(10))[2][:200]}")
    return python


def variables(folder: Path, python: Path) -> dict[str, str]:
    """Return an environment in which `lake` is the stand-in."""
    (folder / "bin").mkdir()
    lake = folder / "bin/lake"
    lake.write_text(f'#!/bin/sh\nexec "{python}" "{SUPPORT / "fake_lake.py"}" "$@"\n')
    lake.chmod(0o755)
    own = {"PYTHONPATH": str(ROOT / "src"), "FAKE_REPL_LOG": str(folder / "requests.jsonl"), "CACHE_DIR": str(folder / "cache")}
    return {**os.environ, **own, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_lean_interact(tmp_path: Path) -> None:
    python = installed(tmp_path / "venv", "lean-interact")
    repl = tmp_path / "repl"
    repl.mkdir()
    (repl / "lean-toolchain").write_text("leanprover/lean4:v4.28.0\n")
    command = [str(python), str(SUPPORT / "ask_interact.py"), str(repl)]
    done = subprocess.run(command, env=variables(tmp_path, python), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    wrong, placeholder = "error: unknown identifier 'wrong'", "axiom:sorryAx"
    assert told["found"] == {
        "right": None,
        "right after a header": None,
        "wrong": wrong,
        "placeholder": placeholder,
        "hangs": None,
        "right after it hung": None,
        "dies": None,
        "wrong after it died": wrong,
        "leaves once it has answered": None,
        "right after it left": None,
        "wrong after that": wrong,
        "no JSON": None,
        "placeholder after that": placeholder,
        "the header does not load": None,
    }
    assert told["failure"].startswith("unavailable: lean: lean-interact does not start: Local REPL path")
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert requests[0]["cmd"] == "-- nothing is imported" and "env" not in requests[0]
    assert requests[1]["cmd"].startswith("theorem target : 1 + 1 = 2 :=") and requests[1]["env"] == 0
    hung = next(request for request in requests if "hang" in request["cmd"])
    assert hung["env"] == 4, "two headers and two proofs came before, and its own header once more"


def test_lean_dojo(tmp_path: Path) -> None:
    python = installed(tmp_path / "venv", "lean-dojo")
    script = (
        "import inspect, json, lean_dojo as d\n"
        "print(json.dumps([list(inspect.signature(f).parameters) for f in (d.LeanGitRepo, d.Theorem, d.check_proof)]))"
    )
    environment = variables(tmp_path, python)
    done = subprocess.run([python, "-c", script], env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [["url", "commit"], ["repo", "file_path", "full_name"], ["thm", "proof"]]

    asking = (
        "import json\n"
        "from verigym.envs.lean.backends.dojo import DojoOptions, DojoScreen\n"
        "from verigym.envs.lean.task import LeanReference\n"
        "from verigym.envs.lean.toolchain import Toolchain\n"
        f"told = dict(url={str(tmp_path / 'no_repository')!r}, commit='0123456', files={{'target': 'A.lean'}})\n"
        "screen = DojoScreen(Toolchain('/bin/sh', '4.28.0', ''), DojoOptions(unsandboxed=True, **told))\n"
        "print(json.dumps(screen.reject(LeanReference(name='target', statement='theorem target : 1 + 1 = 2'), 'rfl')))"
    )
    done = subprocess.run([python, "-c", asking], env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "null", "it gives no answer, and rejects nothing"
