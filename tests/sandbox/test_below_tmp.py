"""A virtual environment, or a Python, below a folder that every run has for itself: /tmp, /var/tmp and /dev/shm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from needs import lack, require

from verigym.sandbox import SandboxFailure, open_sandbox

SOURCE = Path(__file__).resolve().parents[2] / "src" / "verigym"

# The sandbox needs the standard library and, for its options, pydantic, which those Pythons lack: it is imported from here,
# and its folder is not on the path when programs are run. The package's own __init__, which needs more, is left out.
ALONE = (
    f"""
import sys
sys.path.append({str(Path(pydantic.__file__).parents[1])!r})
import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
class Model(BaseModel): pass
sys.path.pop()
"""
    + """
import json, sys, types
package = types.ModuleType("verigym"); package.__path__ = [sys.argv[1]]; sys.modules["verigym"] = package
from verigym.sandbox import Limits, Program, SandboxFailure, TestSuite, open_sandbox
box = open_sandbox(sys.argv[2], packages=sys.argv[4:] or True)
try:
    box.check()
except SandboxFailure as error:
    print(json.dumps({"cannot": str(error)})); sys.exit()
limits = Limits(wall_s=120, cpu_s=5, memory_mb=256)
suite = TestSuite(kind="assert", code="import in_the_venv\\nassert f() == in_the_venv.ANSWER\\n")
out = {"level": box.level}
for name in ("first", "second"):
    ran = box.run(Program(source=sys.argv[3]), limits=limits)
    out[name] = json.loads(ran.stdout) if ran.ok else repr(ran)
if "in_the_venv" in sys.argv[3]:
    out["tested"] = box.test(Program(source="from in_the_venv import ANSWER\\ndef f(): return ANSWER"), suite, limits).passed
print(json.dumps(out))
"""
)
PROGRAM = """
import json, os, sys
def refused(do, *args):
    try:
        do(*args)
    except OSError:
        return True
out = {}
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    out[folder] = os.listdir(folder)
    with open(folder + "/mine", "w") as file:
        file.write("x")
    os.unlink(folder + "/mine")
"""
OF_A_VENV = f"""{PROGRAM}
import in_the_venv
out["answer"] = in_the_venv.ANSWER
package = os.path.dirname(in_the_venv.__file__)
out["wrote"] = [
    name
    for name, do in {{
        "overwrite": lambda: open(in_the_venv.__file__, "a"),
        "add": lambda: open(package + "/more.py", "w"),
        "remove": lambda: os.unlink(in_the_venv.__file__),
        "move": lambda: os.rename(package, package + "2"),
    }}.items()
    if not refused(do)
]
out["beside"] = os.path.exists(os.path.join(package, *[os.pardir] * 5, "secret.txt"))
way = package
out["listed"] = []
while (way := os.path.dirname(way)) != "/":
    if not refused(os.listdir, way):
        out["listed"].append(os.path.basename(way))
print(json.dumps(out))
"""
OF_A_PYTHON = f"""{PROGRAM}
import encodings.idna, importlib.util, json.tool, subprocess
assert "codec" in importlib.util.find_spec("encodings.punycode").loader.get_source("encodings.punycode")
out["child"] = subprocess.run([sys.executable, "-c", "import csv; print(1)"], capture_output=True, text=True).stdout
out["prefixes"] = [sys.prefix, sys.base_prefix]
print(json.dumps(out))
"""
EMPTY: dict[str, Any] = {"/tmp": [], "/var/tmp": [], "/dev/shm": []}


PLACES = [("/tmp", "local"), ("/tmp", "bubblewrap"), ("/var/tmp", "local"), ("/dev/shm", "bubblewrap")]


@pytest.fixture(params=PLACES, ids=" ".join)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A folder of its own and a back end."""
    parent, backend = request.param
    if parent == "/dev/shm":
        require("shm")
    box = open_sandbox(backend)
    try:
        box.check()
    except SandboxFailure as error:
        lack("bubblewrap" if backend == "bubblewrap" else "sandbox", error)
    if box.level < 3 or not os.access(parent, os.W_OK):
        lack("root", f"level {box.level}, or {parent} cannot be written")
    with tempfile.TemporaryDirectory(prefix="verigym-clone-", dir=parent) as made:
        os.chmod(made, 0o755)
        yield Path(made), backend


def ask(python: Path, backend: str, program: str, *packages: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-c", ALONE, SOURCE, backend, program, *packages], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_virtual_environment(place: tuple[Path, str]) -> None:
    folder, backend = place
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (folder / "secret.txt").write_text("what lies beside it is not shown")
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    package = packages / "in_the_venv"
    about = packages / "in_the_venv-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: in-the-venv\nVersion: 1\n")
    (about / "RECORD").write_text("in_the_venv/__init__.py,,\nin_the_venv-1.dist-info/METADATA,,\n")
    package.mkdir()
    (package / "__init__.py").write_text("ANSWER = 42\n")
    found = ask(folder / "venv" / "bin" / "python", backend, OF_A_VENV, "in-the-venv")
    wanted = {**EMPTY, "answer": 42, "wrote": [], "beside": False, "listed": ["site-packages"]}
    assert found == {"level": 3, "first": wanted, "second": wanted, "tested": True}
    assert [path.name for path in package.iterdir() if path.suffix] == ["__init__.py"]


def test_a_python(place: tuple[Path, str]) -> None:
    folder, backend = place
    version = f"python3.{sys.version_info.minor}"
    binary, library = Path(f"/usr/bin/{version}"), Path(f"/usr/lib/{version}")
    if not (binary.exists() and library.exists()):
        lack("elsewhere", f"no {binary} that could be copied")
    (folder / "bin").mkdir()
    (folder / "lib").mkdir()
    shutil.copy(binary, folder / "bin" / version)
    (folder / "lib" / version).symlink_to(library)
    found = ask(folder / "bin" / version, backend, OF_A_PYTHON)
    wanted = {**EMPTY, "child": "1\n", "prefixes": [f"/host{folder}"] * 2}
    assert found == {"level": 3, "first": wanted, "second": wanted}
