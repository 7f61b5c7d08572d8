"""Options of the back ends are typed: read alike from Python, YAML and the command line, or refused with what was expected."""

import builtins
import re
import typing
from pathlib import Path
from typing import Any

import pytest

import verigym.sandbox
from verigym.cli import main
from verigym.envs import UsageError, load
from verigym.sandbox import BACKENDS, LocalSandbox, open_sandbox, typed_options
from verigym.sandbox.arguments import Expected
from verigym.sandbox.backends import backend_class

PAGE = Path(__file__).parents[2] / "docs/sandbox.md"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"packages": "false"}, {"packages": False}),
        ({"packages": "0"}, {"packages": False}),
        ({"packages": "no"}, {"packages": False}),
        ({"packages": "true"}, {"packages": True}),
        ({"packages": False}, {"packages": False}),
        ({"packages": ["numpy"]}, {"packages": ["numpy"]}),
        ({"level": "2", "workers": "3", "allow_unsafe": "true"}, {"level": 2, "workers": 3, "allow_unsafe": True}),
        ({"level": None}, {"level": None}),
        ({}, {}),
    ],
)
def test_values_are_read_as_what_the_option_is(given: dict[str, Any], read: dict[str, Any]) -> None:
    assert typed_options("local", given) == read


WRONG = [
    ("local", {"packages": "null"}, "packages='null': expected true, false, or a list of names"),
    ("local", {"packages": "foo"}, "packages='foo': expected true, false, or a list of names"),
    ("local", {"packages": None}, "packages=None: expected true, false, or a list of names"),
    ("local", {"packages": [1]}, r"packages=\[1\]: expected true, false, or a list of names"),
    ("local", {"level": 9}, "level=9: expected 1, 2 or 3"),
    ("local", {"level": "best"}, "level='best': expected 1, 2 or 3"),
    ("local", {"workers": "foo"}, "workers='foo': expected a whole number of at least 1"),
    ("local", {"workers": 0}, "workers=0: expected a whole number of at least 1"),
    ("local", {"workers": True}, "workers=True: expected a whole number of at least 1"),
    ("local", {"workers": 1.5}, "workers=1.5: expected a whole number of at least 1"),
    ("local", {"allow_unsafe": "foo"}, "allow_unsafe='foo': expected true or false"),
    ("local", {"read_only": "/usr"}, "read_only='/usr': expected a list of paths"),
    ("local", {"worker": 2}, "no option is called 'worker'; did you mean 'workers'"),
    ("local", {"worker": 2, "level": 9}, "no option is called 'worker'; did you mean 'workers'"),
    ("bubblewrap", {"level": 3}, "no option is called 'level'; known: allow_unsafe, packages, program"),
    ("docker", {"cpus": float("nan")}, "cpus=nan: expected a number above 0, or null"),
    ("docker", {"image": ""}, "image='': expected a text"),
]


@pytest.mark.parametrize(("backend", "given", "message"), WRONG)
def test_a_wrong_option_is_refused_by_every_way_in(backend: str, given: dict[str, Any], message: str) -> None:
    said = f"options of the sandbox back end {backend!r}: {message}"
    with pytest.raises(ValueError, match=said):
        open_sandbox(backend, **given)
    with pytest.raises(ValueError, match=said):
        backend_class(backend)(**given)
    for environment in ("code", "program_of_thought", "functions"):
        if "allow_unsafe" not in given:
            with pytest.raises(UsageError, match=said):
                load(environment, backend=backend, backend_options=given)


def test_every_option_says_what_it_expects_and_what_it_does() -> None:
    for backend in BACKENDS:
        for name, field in backend_class(backend).options_type.model_fields.items():
            assert any(isinstance(item, Expected) for item in field.metadata) and field.description, (backend, name)


class OwnSandbox(LocalSandbox):
    """A back end that only its entry in the table makes known."""

    name = "own"


def test_a_back_end_is_one_entry_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "own", f"{__name__}:OwnSandbox")
    assert type(open_sandbox("own", workers=1)) is OwnSandbox
    assert verigym.sandbox.OwnSandbox is OwnSandbox  # type: ignore[attr-defined]
    assert load("code", backend="own").grader != load("code").grader
    assert main(["sandbox", "run", __file__, "--backend", "owm"]) == 2
    with pytest.raises(UsageError, match="no sandbox back end is called 'owm'; did you mean 'own'"):
        load("code", backend="owm")


def test_allow_unsafe_has_one_place_in_an_environment() -> None:
    with pytest.raises(UsageError, match="allow_unsafe is an option of the environment itself; set it there"):
        load("code", backend_options={"allow_unsafe": True})


def test_an_environment_is_the_same_grader_however_its_options_are_spelt() -> None:
    spelt = [load("code", backend_options=given).grader for given in ({"packages": "no"}, {"packages": False})]
    assert spelt[0] == spelt[1] != load("code").grader


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        ("packages=false", 1, "No module named 'pytest'"),
        ("packages=no", 1, "No module named 'pytest'"),
        ('packages=["pytest"]', 0, "ok"),
        ("packages=foo", 2, "packages='foo': expected true, false, or a list of names"),
        ("workers=foo", 2, "workers='foo': expected a whole number of at least 1"),
        ("worker=1", 2, "no option is called 'worker'; did you mean 'workers'"),
    ],
)
def test_options_on_the_command_line(
    option: str, code: int, said: str, box: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import pytest", encoding="utf-8")
    assert main(["sandbox", "run", str(program), "--backend-option", option]) == code
    assert said in capsys.readouterr().err


def test_a_text_is_a_program_in_python(box: LocalSandbox) -> None:
    assert box.run("print(input())", "grün").stdout.decode() == "grün\n"
    with box.session("def f(n): return n + 1") as session:
        assert session.call("f", [1]).value == 2  # type: ignore[union-attr]
    for given in (3, None, b"print()"):
        with pytest.raises(TypeError, match="expected a Program, or the source of a Python program as a text; got"):
            box.run(given)  # type: ignore[arg-type]


def test_every_name_on_the_page_exists() -> None:
    page = PAGE.read_text(encoding="utf-8")
    imported = {
        name for line in re.findall(r"^from verigym\.sandbox import (.+)$", page, re.MULTILINE) for name in line.split(", ")
    }
    named = set(re.findall(r"`([A-Z]\w*[a-z]\w*)(?:\(\.\.\.\))?`", page))
    assert {"Limits", "open_sandbox", "LocalSandbox", "RunResult"} <= imported | named
    places = (verigym.sandbox, builtins, typing)
    assert not {name for name in imported | named if not any(hasattr(place, name) for place in places)}
    assert imported <= set(verigym.sandbox.__all__)


def test_the_page_names_every_option_of_every_back_end() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lacking = {name for kind in BACKENDS for name in backend_class(kind).options_type.model_fields if f"`{name}`" not in page}
    assert not lacking
