"""What a program may import: the packages that are named, and neither verigym nor anything else beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import lack

from verigym.sandbox import Program, Sandbox, SandboxFailure, open_sandbox
from verigym.sandbox.inside.walls import packages
from verigym.sandbox.view import host_view

ROOT = Path(__file__).resolve().parents[2]
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "local": ("local", {"level": 3}),
    "local, level 2": ("local", {"level": 2}),
    "bubblewrap": ("bubblewrap", {}),
}


def install(folder: Path, name: str, files: dict[str, str], requires: tuple[str, ...] = (), **about: str) -> None:
    """Lay a package out as pip does."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    lines = "".join(f"Requires-Dist: {need}\n" for need in requires)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}\nThis\nRequires-Dist: nothing\n"
    listed = {**files, f"{info}/METADATA": head, **{f"{info}/{key}": text for key, text in about.items()}}
    listed[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*listed, f"{info}/RECORD"))
    for path, text in listed.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages of every kind."""
    install(
        tmp_path,
        "plain",
        {"plain/__init__.py": "", "plain/deep/er.py": "", "../../bin/plain": ""},
        ("Needed>=1 ; python_version > '3'",),
    )
    install(tmp_path, "needed", {"needed.py": "", "__pycache__/needed.pyc": ""}, ("extra-one; extra == 'one'", "plain"))
    install(tmp_path, "extra.one", {"shared/space/one/__init__.py": ""})
    install(tmp_path, "asks", {"asks/__init__.py": ""}, ("needed[one, two]", "verigym", "absent"))
    install(tmp_path, "elsewhere", {"elsewhere.pth": "/src"}, **{"direct_url.json": '{"dir_info": {"editable": true}}'})
    install(tmp_path, "with-pth", {"with_pth.py": "", "with_pth.pth": "/src"})
    install(tmp_path, "verigym", {"verigym/__init__.py": ""})
    install(tmp_path, "our-fork", {"verigym/more.py": "", "fork.py": ""})
    (tmp_path / "debian.py").write_text("")
    (tmp_path / "debian-1.egg-info").mkdir()
    (tmp_path / "debian-1.egg-info" / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: debian\nVersion: 1\n")
    (tmp_path / "debian-1.egg-info" / "requires.txt").write_text("with-pth\n\n[more]\nplain\n")
    return tmp_path


def seen(site: Path, *names: str, **options: bool) -> set[str]:
    return {path for path in packages.shown(names, [str(site)], **options)[str(site)] if "dist-info" not in path}


def test_a_package_comes_with_what_it_needs_and_nothing_else(site: Path) -> None:
    assert seen(site, "plain") == {"plain", "needed.py", "__pycache__/needed.pyc"}
    assert seen(site, "Extra_One") == {"shared/space/one"}
    assert seen(site, "asks") == {"asks", "plain", "needed.py", "__pycache__/needed.pyc", "shared/space/one"}
    assert seen(site, "with-pth") == {"with_pth.py"}
    assert seen(site, "debian") == {"debian.py", "debian-1.egg-info", "with_pth.py"}
    shown = packages.shown(["plain"], [str(site)])[str(site)]
    assert [path for path in shown if "dist-info" in path] == ["needed-1.0.dist-info", "plain-1.0.dist-info"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("verigym", "programs never import verigym"),
        ("VeriGym", "programs never import verigym"),
        ("our-fork", "is brought by a .pth file"),
        ("elsewhere", "is brought by a .pth file"),
        ("absent", "'absent' is not installed in .*Names are those that `pip list` has"),
    ],
)
def test_what_cannot_be_shown_is_said_where_it_is_named(site: Path, name: str, why: str) -> None:
    with pytest.raises(packages.NotInstalled, match=why):
        seen(site, name)
    assert seen(site, name, all_there=False) == set()


def test_a_name_is_refused_when_a_sandbox_is_opened() -> None:
    for backend in ("local", "bubblewrap"):
        with pytest.raises(ValueError, match="packages: 'no-such-package' is not installed"):
            open_sandbox(backend, packages=["no-such-package"])
        with pytest.raises(ValueError, match="programs never import verigym"):
            open_sandbox(backend, packages=["verigym"])
        with pytest.raises(ValueError, match="expected true, false, or a list of names"):
            open_sandbox(backend, packages="numpy")


def test_verigym_itself_cannot_be_read_by_asking_for_its_folder() -> None:
    for path in ("envs/code", "src/verigym", "sandbox/view.py"):
        with pytest.raises(ValueError, match="its environments hold solutions"):
            host_view(read_only=[str(ROOT / path)])
    assert str(ROOT) in host_view(read_only=[str(ROOT.parent)]).masked
    docs = host_view(read_only=[str(ROOT), str(ROOT / "docs")]).masked
    assert str(ROOT) not in docs and str(ROOT / "envs") in docs


def opened(kind: str, **options: Any) -> Sandbox:
    backend, more = KINDS[kind]
    box = open_sandbox(backend, workers=1, **more, **options)
    try:
        box.check()
    except SandboxFailure as error:
        lack("bubblewrap" if backend == "bubblewrap" else "sandbox", error)
    return box


IMPORTS = """
import importlib.metadata, os, sys
for name in ("pytest", "_pytest", "pip", "ruff", "mypy", "verigym", "verigym.envs", "numpy"):
    try:
        __import__(name)
        print(name)
    except ModuleNotFoundError:
        pass
names = {found.name for found in importlib.metadata.distributions()}
print(sorted(names & {"pytest", "numpy", "mypy", "verigym"}))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_named_can_be_imported(kind: str) -> None:
    said = {}
    for choice in (["pytest"], False):
        box = opened(kind, packages=choice)
        ran = box.run(Program(source=IMPORTS))
        said[str(choice)] = ran.stdout.decode().split("\n")[:-1]
        assert ran.ok, ran
        box.close()
    assert said == {"['pytest']": ["pytest", "_pytest", "['pytest']"], "False": ["[]"]}


LOOK = """
import glob, importlib.metadata, importlib.util, json, os, pkgutil, sys
found = {"path": sys.path[1:], "modules": [], "read": [], "named": []}
for name in ("verigym", "verigym.envs.code.functions", "datasets_cfg", "pip"):
    try:
        __import__(name)
        found["modules"].append(name)
    except ModuleNotFoundError:
        pass
def attempt(path):
    try:
        with open(path, "rb") as file:
            file.read(1)
        found["read"].append(path)
    except OSError:
        pass
places = json.loads(sys.argv[1])
for place in places:
    for path in ("verigym/envs/code/functions.py", "verigym/datasets_cfg/sets/gsm8k.yaml", "envs/code/functions.py"):
        attempt(place + "/" + path)
    for path in glob.glob(place + "/verigym*/*") + glob.glob(place + "/*verigym*"):
        attempt(path)
    sys.path.append(place)
for name in ("verigym", "verigym.envs"):
    try:
        __import__(name)
        found["modules"].append(name)
    except ImportError:
        pass
    except PermissionError:  # where nothing can be mounted, names can be listed
        pass
del sys.path[-len(places):]
for top in {*sys.path, *map(os.path.dirname, sys.path), *map(os.path.dirname, places), sys.prefix, sys.base_prefix}:
    for folder, inner, files in os.walk(top):
        if "/proc" in folder:
            inner.clear()
        for path in (os.path.join(folder, name) for name in files):
            if "/verigym/" in path or "/verigym-0" in path or "__editable__" in path:
                attempt(path)
found["named"] = [name for _, name, _ in pkgutil.iter_modules() if name == "verigym"]
found["named"] += [found_.name for found_ in importlib.metadata.distributions() if found_.name == "verigym"]
import helper
found["helper"] = helper.ANSWER
print(json.dumps(found))
"""
SUPERVISOR = """
import json, sys
import verigym
from verigym.sandbox import Limits, Program, SandboxFailure, open_sandbox
assert "site-packages" in verigym.__file__, verigym.__file__
backend, options, program, places = json.loads(sys.stdin.read())
try:
    box = open_sandbox(backend, workers=1, packages=["helper"], **options)
    ran = box.run(Program(source=program, args=(json.dumps(places),)), limits=Limits(wall_s=300, cpu_s=30))
    print(json.dumps({"level": box.level, **(json.loads(ran.stdout) if ran.ok else {"failed": repr(ran)})}))
except SandboxFailure as error:
    print(json.dumps({"cannot": str(error)}))
"""


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    """This clone as `pip install .` would install it."""
    with tempfile.TemporaryDirectory(prefix="verigym-wheel-") as made:
        # A copy, for building leaves folders behind. Links become what they lead to, as when an archive is unpacked.
        wanted = ("src", "envs", "sandbox", "trainer", "datasets_cfg", "pyproject.toml", "README.md", "LICENSE")
        for name in wanted:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, f"{made}/clone/{name}", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, f"{made}/clone/{name}")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*command, "--wheel-dir", made, f"{made}/clone"], check=True, env={**os.environ, "PIP_NO_INPUT": "1"})
        yield next(Path(made).glob("verigym-*.whl"))


@pytest.fixture(scope="module", params=["in a virtual environment", "in the Python itself"])
def installed(request: pytest.FixtureRequest, wheel: Path) -> Iterator[tuple[Path, Path]]:
    """An interpreter, and the folder of packages in which verigym is installed for it, not editable."""
    with tempfile.TemporaryDirectory(prefix="installed-", dir="/var/tmp") as made:
        os.chmod(made, 0o755)
        folder = Path(made)
        version = f"python3.{sys.version_info.minor}"
        if request.param == "in a virtual environment":
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
            pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
            subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
            python = folder / "bin" / "python"
        else:  # where a prefix is shown whole, and packages below it: what pip would do, done by hand
            python = folder / "bin" / version
            python.parent.mkdir()
            shutil.copy(os.path.realpath(sys.executable), python)
            library = Path(sys.base_prefix) / "lib" / version
            if not (library / "os.py").exists():
                lack("elsewhere", f"no library of Python at {library}")
            ignored = shutil.ignore_patterns(
                "site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "__pycache__"
            )
            shutil.copytree(library, folder / "lib" / version, ignore=ignored)
            for shared in Path(sys.base_prefix).glob("lib/libpython*"):
                shutil.copy(shared, folder / "lib" / shared.name, follow_symlinks=False)
            (folder / "lib" / version / "site-packages").mkdir()
            zipfile.ZipFile(wheel).extractall(folder / "lib" / version / "site-packages")
        packages_in = folder / "lib" / version / "site-packages"
        install(packages_in, "helper", {"helper.py": "ANSWER = 42\n"})
        yield python, packages_in


@pytest.mark.slow  # builds a wheel and installs it
@pytest.mark.parametrize("kind", KINDS)
def test_verigym_that_is_installed_cannot_be_read(kind: str, installed: tuple[Path, Path]) -> None:
    python, site = installed
    backend, options = KINDS[kind]
    opened(kind).close()
    # What verigym itself imports: found by this path, which is no folder of that Python's packages.
    others = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    places = [str(site), f"/host{site}", *(path for path in sys.path if path.endswith("site-packages")), str(ROOT)]
    asked = json.dumps([backend, options, LOOK, places])
    environment = {**os.environ, "PYTHONPATH": others, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-c", SUPERVISOR], input=asked, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if "cannot" in found:
        lack("sandbox", found["cannot"])
    assert found.pop("path"), found
    found.pop("level")
    assert found == {"modules": [], "read": [], "named": [], "helper": 42}
