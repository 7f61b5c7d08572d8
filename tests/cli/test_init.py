"""`verigym init`: the packages that it makes are installed, tested, checked and found, as their README says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from patience import HANG_S

import verigym.envs.registry as registry
from verigym.cli import main
from verigym.scaffold import KINDS, MAX_CHARS, PACKAGE_KINDS, Kind, make_package, names_of

SRC = Path(__file__).parents[2] / "src"


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "VERIGYM"))}
    clean["OMP_NUM_THREADS"] = "1"
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that sees this one's packages and this checkout, for packages to be installed into."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{SRC}\n{sysconfig.get_path('purelib')}\n")
    return folder / "bin/python"


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKAGE_KINDS)
def test_a_package_works_as_it_is_made(kind: Kind, python: Path, tmp_path: Path) -> None:
    name = f"word-{kind}"
    package = f"word_{kind}"
    shown = run(python, "-m", "verigym", "init", name, "--kind", kind, cwd=tmp_path)
    assert "pip install --editable" in shown and f"verigym check {package}" in shown
    folder = tmp_path / name
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--disable-pip-version-check"]
    run(*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", folder, cwd=tmp_path)

    assert "passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "own", cwd=folder)
    run(sys.executable, "-m", "ruff", "check", "--no-cache", ".", cwd=folder)
    run(sys.executable, "-m", "ruff", "format", "--check", "--no-cache", ".", cwd=folder)
    cache = python.parents[1] / "mypy_cache"  # of the three kinds together: most of the time goes into verigym itself
    assert "no issues" in run(sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", cache, cwd=folder)

    report = json.loads(run(python, "-m", "verigym", "check", package, "--json", cwd=tmp_path))
    assert report["passed"] and any("hack" in row["name"] for row in report["rows"])
    about = json.loads(run(python, "-m", "verigym", "envs", package, "--json", cwd=tmp_path))
    place = (about["package"], about["version"], Path(about["file"]))
    assert place == (name, "0.1.0", folder / f"src/{package}/environment.py")
    assert about["interactive"] is (kind != "single") and about["options"] and about["reference"]
    listed = run(python, "-m", "verigym", "envs", cwd=tmp_path)
    assert re.search(rf"^{package} .* {name} 0\.1\.0$", listed, re.MULTILINE), listed

    (example,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert run(python, "-c", example, cwd=tmp_path).splitlines()[-1] == "1.0"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["ab", "z" * MAX_CHARS, "-".join("abcdefghijklmnop")])
def test_whatever_the_name_is_lines_are_formatted(kind: Kind, name: str, tmp_path: Path) -> None:
    _, folder, written = make_package(name, kind, tmp_path / "made")
    assert all(path.is_file() for path in written)
    assert not any(value in path.read_text() for path in written for value in ("$package", "$class_name", "$distribution"))
    width = ["--line-length", "128"] if kind == "file" else []  # a package brings its own settings
    run(sys.executable, "-m", "ruff", "check", "--no-cache", *width, ".", cwd=folder)
    run(sys.executable, "-m", "ruff", "format", "--check", "--no-cache", *width, ".", cwd=folder)


@pytest.mark.slow
def test_one_file_is_an_environment_and_a_pipeline_trains_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tutorial runs the pipeline and the script for TRL."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "word_ladder", None)  # what is imported here goes again
    del sys.modules["word_ladder"]

    def shown_by(folder: Path, *arguments: str, code: int = 0) -> str:
        monkeypatch.chdir(folder)
        assert main([*arguments]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    shown = shown_by(tmp_path, "init", "word-ladder", "--kind", "file")
    assert "cd word-ladder\n  verigym check word_ladder:WordLadderEnvironment\n  verigym pipeline run train.yaml" in shown
    folder = tmp_path / "word-ladder"
    assert sorted(path.name for path in folder.iterdir()) == ["train.yaml", "with_trl.py", "word_ladder.py"]
    assert json.loads(shown_by(folder, "check", "word_ladder:WordLadderEnvironment", "--json"))["passed"]
    assert "nothing is in the way" in shown_by(folder, "pipeline", "run", "train.yaml", "--dry-run")
    refused = shown_by(tmp_path, "init", "other", str(folder), "--kind", "file", code=2)
    assert "train.yaml exists already; name another folder" in refused
    (tmp_path / "notes.txt").touch()
    shown_by(tmp_path, "init", "other", ".", "--kind", "file")


def test_the_ci_file_is_yaml_and_keeps_its_expressions(tmp_path: Path) -> None:
    import yaml

    _, folder, _ = make_package("word-ladder", "single", tmp_path / "made")
    text = (folder / ".github/workflows/ci.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["test"]["steps"]
    assert "${{ matrix.python }}" in text
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == [
        'pip install "$VERIGYM"',
        'pip install --editable ".[dev]"',
        "ruff check",
        "ruff format --check",
        "mypy",
        "pytest",
        "verigym check word_ladder",
    ]


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("word-ladder", ("word-ladder", "word_ladder", "WordLadderEnvironment")),
        ("Word.Ladder__2", ("word-ladder-2", "word_ladder_2", "WordLadder2Environment")),
        ("ladder", ("ladder", "ladder", "LadderEnvironment")),
    ],
)
def test_names(name: str, names: tuple[str, str, str]) -> None:
    found = names_of(name)
    assert (found.distribution, found.package, found.class_name) == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-x"], "no option -x"),
        (["a b"], "'a b' is no name of a package: expected letters, digits, -, _ and ., such as word-ladder"),
        (["../up"], "is no name of a package"),
        (["ünï"], "is no name of a package"),
        (["z" * (MAX_CHARS + 1)], f"expected at most {MAX_CHARS}"),
        (["2048"], "gives the module '2048', which Python cannot import"),
        (["class"], "gives the module 'class', which Python cannot import"),
        (["Number-Guessing"], "an environment is called 'number_guessing' already: verigym.envs.games"),
        (["json"], "a module is called 'json' already"),
        (["pydantic"], "a module is called 'pydantic' already"),
        (["game"], "a module is called 'game' already"),
        (["verigym"], "a module is called 'verigym' already"),
        (["words", "--kind", "gmae"], "no kind of environment is called 'gmae'; did you mean 'game'?"),
        (["words", "full"], "full is not empty; name a folder that does not exist, or an empty one"),
        (["words", "full/file"], "full/file is a file"),
    ],
)
def test_mistakes(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    assert main(["init", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == "" and captured.err.count("\n") == 1
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["full", "full/file"]


def test_an_empty_folder_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my place").mkdir()
    assert main(["init", "words", "my place"]) == 0
    shown = capsys.readouterr().out
    assert "cd 'my place'" in shown and (tmp_path / "my place/src/words/py.typed").read_text() == ""
    assert sorted(line.removeprefix("wrote ") for line in shown.splitlines() if line.startswith("wrote ")) == sorted(
        str(path.relative_to(tmp_path)) for path in (tmp_path / "my place").rglob("*") if path.is_file()
    )


def test_where_an_environment_comes_from() -> None:
    assert registry.package_of("math") == ("verigym", registry.importlib.metadata.version("verigym"))
    assert registry.package_of("words:Backwards") is None


def test_a_module_in_the_present_folder_takes_its_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roman.py").write_text("")
    assert main(["init", "roman"]) == 2
    assert "a module is called 'roman' already" in capsys.readouterr().err
