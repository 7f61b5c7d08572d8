"""The hostile set on the local back end: as this user, and as an ordinary user where this one is root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import lack

from tests.sandbox.hostile.runner import open_runner
from tests.sandbox.hostile.tasks import TASKS, Case, load_cases
from verigym.sandbox import SandboxFailure

ROOT = Path(__file__).resolve().parents[3]
CASES = {case.id: case for case in load_cases()}
# As another user, what depends on who one is: escapes and limits, but neither compilers nor most of what just waits for one;
# and of the programs that forge verdicts, or are honest, a quarter.
ORDINARY = [
    case.id
    for number, case in enumerate(CASES.values())
    if not case.compiled and not case.id.startswith("X-B") and (case.id.removeprefix("X-")[0] in "BC" or number % 4 == 0)
]
USER = 4242
pytestmark = pytest.mark.slow


def selected(request: pytest.FixtureRequest, function: str) -> list[Case]:
    """The cases of this session's tests, so that `-k` runs no others."""
    items = [item for item in request.session.items if getattr(item, "originalname", "") == function]
    given = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return [CASES[params["identifier"]] for params in given if "identifier" in params]  # other files' tests may have the name


@pytest.fixture(scope="module")
def as_this_user(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    try:
        with open_runner("local") as runner:
            return {case.id: failures for case, failures in runner.run(selected(request, "test_as_this_user"))}
    except SandboxFailure as error:
        lack("sandbox", error)


def interpreter_for(user: int, folder: Path) -> Path | None:
    """Make a virtual environment with our packages around an interpreter of this version that the user may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / name / "site-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(sysconfig.get_path("purelib"))
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    for base in (os.path.realpath(sys.executable), f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
        (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\n")
        python.unlink(missing_ok=True)
        python.symlink_to(base)
        if run_as(user, [str(python), "-c", "import pydantic, pytest, verigym.sandbox"]).returncode == 0:
            return python
    return None


def run_as(user: int, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command as another user, with nothing of ours but where the sources are."""
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command,
            user=user,
            group=user,
            extra_groups=[],
            cwd="/",
            env=env,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 126, "", str(error))


@pytest.fixture(scope="module")
def as_ordinary_user(request: pytest.FixtureRequest) -> Iterator[dict[str, list[str]]]:
    if os.geteuid() != 0:
        lack("root", "the other tests have run as an ordinary user")
    with tempfile.TemporaryDirectory(prefix="pytest-user-") as folder:
        os.chmod(folder, 0o755)
        python = interpreter_for(USER, Path(folder) / "venv")
        if python is None:
            lack(
                "elsewhere",
                f"no Python {sys.version_info.major}.{sys.version_info.minor} that uid {USER} may run with our packages",
            )
        only = ",".join(case.id for case in selected(request, "test_as_an_ordinary_user"))
        done = run_as(USER, [str(python), str(ROOT / "tests/sandbox/hostile/runner.py"), "--json", "--only", only])
        assert done.returncode in (0, 1) and done.stdout, done.stderr[-2000:]
        yield dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("identifier", CASES)
def test_as_this_user(identifier: str, as_this_user: dict[str, list[str]]) -> None:
    assert as_this_user[identifier] == [], CASES[identifier].why


@pytest.mark.parametrize("identifier", ORDINARY)
def test_as_an_ordinary_user(identifier: str, as_ordinary_user: dict[str, list[str]]) -> None:
    assert as_ordinary_user[identifier] == [], CASES[identifier].why


def test_the_cases_are_whole() -> None:
    assert len([name for name in CASES if not name.startswith("X-")]) == 44
    assert len(CASES) >= 44 + 130
    for case in CASES.values():
        assert case.task in TASKS and case.why and case.program
        assert case.expect.partition(":")[0] in ("REJECT", "ACCEPT", "EITHER", "RUN")
    groups = {name.removeprefix("X-")[0] for name in CASES}
    assert groups == set("ABCD")


def test_a_wrong_verdict_is_noticed() -> None:
    reject = Case("B", "", "std2x", "REJECT:time", "python", "", "")
    assert "accepted" in reject.mismatch(1.0, "correct", "passed 3 tests")
    assert "classified" in reject.mismatch(0.0, "incorrect", "ended with exit code 1")
    assert "classified" in reject.mismatch(0.0, "limit", "memory limit 256 MB")
    assert "infrastructure" in reject.mismatch(None, "error", "no worker")
    assert reject.mismatch(0.0, "limit", "time limit 1 s") == ""
    accept = Case("D", "", "std2x", "ACCEPT", "python", "", "")
    assert "not accepted" in accept.mismatch(0.0, "incorrect", "") and accept.mismatch(1.0, "correct", "") == ""
