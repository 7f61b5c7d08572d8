"""The wheel and the source distribution: whole, equal, and usable without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from needs import lack
from patience import HANG_S

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "VERIGYM"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def build(source: Path, kind: str, out: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source, cwd=out)
    (built,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, because a build leaves things behind in the folder that it builds."""
    junk = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "runs")
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("tree") / "verigym", symlinks=True, ignore=junk))


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tree, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tree, "sdist", tmp_path_factory.mktemp("sdist"))


def files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def wanted(tree: Path) -> set[str]:
    """Every file of every package: what the checkout has is what is installed."""
    found = set()
    for folder, below, names in os.walk(tree / "src/verigym", followlinks=True):
        place = Path(folder).relative_to(tree / "src")
        below[:] = [name for name in below if name != "__pycache__"]
        if "__init__.py" in names or all(name.endswith((".yaml", ".template")) for name in names):
            found.update(str(place / name) for name in names)
    return found


def test_the_wheel_holds_every_file_and_no_other(tree: Path, wheel: Path) -> None:
    found = files(wheel)
    code = {name for name in found if ".dist-info/" not in name}
    assert code == wanted(tree)
    assert {"verigym/py.typed", "verigym/trainer/monitoring/report.html.j2", "verigym/datasets_cfg/sets/gsm8k.yaml"} <= code
    assert {f"verigym/report/page/{name}" for name in ("page.html", "main.js", "style.css", "uplot.LICENSE")} <= code
    assert {"verigym/datasets_cfg/suites/r1.yaml", "verigym/datasets_cfg/templates/r1-zero.yaml"} <= code
    info = {name.partition(".dist-info/")[2] for name in found - code}
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"} <= info


def test_the_sdist_gives_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        # Python 3.11.2 has no filters; later ones ask for one.
        archive.extractall(tmp_path / "source", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = (tmp_path / "source").iterdir()
    (tmp_path / "out").mkdir()
    again = build(source, "wheel", tmp_path / "out")
    assert again.name == wheel.name
    assert files(again) == files(wheel)
    with zipfile.ZipFile(wheel) as a, zipfile.ZipFile(again) as b:
        different = [name for name in files(wheel) if a.read(name) != b.read(name)]
    assert different == []


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel, which sees this one's dependencies but not its editable install."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    # A path in a .pth file is put on sys.path; .pth files inside it, such as that of the editable install, are not read.
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_installed_one_is_imported_and_works(installed: Path, tmp_path: Path) -> None:
    code = """
import importlib.resources, verigym, verigym.trainer.loop
print(verigym.__file__)
print(verigym.trainer.loop.__file__)
env = verigym.load("math")
print(env.score(env.prompt("What is 2+2?", answer="4"), r"It is \\boxed{4}.").reward)
print(importlib.resources.files("verigym.trainer.monitoring").joinpath("report.html.j2").is_file())
sets = importlib.resources.files("verigym.datasets_cfg").joinpath("sets")
print(sorted(file.name for file in sets.iterdir() if file.name.endswith(".yaml")))
"""
    lines = run(installed / "bin/python", "-c", code, cwd=tmp_path).splitlines()
    assert all(Path(line).is_relative_to(installed) for line in lines[:2]), lines
    assert lines[2:] == ["1.0", "True", str(sorted(path.name for path in (ROOT / "datasets_cfg/sets").glob("*.yaml")))]


def test_the_installed_command_lists_checks_and_grades(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin/verigym"
    names = {line.split()[0] for line in run(command, "envs", cwd=tmp_path).splitlines()}
    assert {"math", "format", "arithmetic"} <= names
    (tmp_path / "in.jsonl").write_text('{"prompt": "2+2?", "answer": "4", "completion": "\\\\boxed{4}"}\n')
    run(command, "grade", "in.jsonl", "--env", "math", "--out", "out.jsonl", "--workers", "1", cwd=tmp_path)
    assert '"reward":1.0' in (tmp_path / "out.jsonl").read_text().replace(": ", ":")


def test_pip_installs_a_small_core_that_grades(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=tmp_path)
    (site,) = folder.glob("lib/python3*/site-packages")
    # The versions that are tested, but not their dependencies: what the core needs is for pip to find out.
    pins = [argument for name in ("constraints.txt", "lock.txt") for argument in ("--constraint", ROOT / name)]
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "-qq", "--retries", "1", *pins, wheel]
    done = subprocess.run([*map(str, pip)], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    if done.returncode:
        lack("packages", f"pip cannot install the core: {done.stderr.strip().rpartition(chr(10))[2][:200]}")
    names = {path.name.split("-")[0].lower() for path in site.glob("*.dist-info")}
    assert {"verigym", "sympy", "pydantic"} <= names
    assert not names & {"numpy", "pyarrow", "pandas", "datasets", "huggingface_hub", "math_verify", "torch", "transformers"}
    size = sum(path.stat().st_blocks * 512 for path in site.rglob("*") if not path.is_symlink())
    assert 50e6 < size < 150e6, f"{size / 1e6:.0f} MB"
    command = folder / "bin/verigym"
    (tmp_path / "in.jsonl").write_text('{"prompt": "?", "answer": "(x+1)^2", "completion": "\\\\boxed{x^2+2x+1}"}\n')
    assert "correct 1" in run(
        command, "grade", "in.jsonl", "--env", "math", "--out", "out.jsonl", "--workers", "1", cwd=tmp_path
    )
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    grade = [command, "grade", "in.parquet", "--env", "math", "--out", "other.jsonl"]
    done = subprocess.run([*map(str, grade)], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stderr.endswith("; pip install 'verigym[data]'\n")) == (2, True), done.stderr


def test_its_types_are_seen(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text('import verigym\nreveal_type(verigym.load("math").name)\nverigym.load(3)\n')
    mypy = [sys.executable, "-m", "mypy", "--python-executable", str(installed / "bin/python"), "user.py"]
    done = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert 'Revealed type is "str"' in done.stdout.replace("builtins.", ""), done.stdout
    assert '"load" has incompatible type "int"; expected "str"' in done.stdout


def test_nothing_is_left_in_the_checkout(wheel: Path, sdist: Path) -> None:
    assert not (ROOT / "build").exists()
    assert not (ROOT / "dist").exists()
    assert wheel.exists() and sdist.exists()
