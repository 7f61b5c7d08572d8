import importlib.metadata
import sys

import pytest
from sample_envs import ExactEnvironment, ScriptedEnvironment

from verigym.cli import main
from verigym.envs import UsageError, available, load, register, registry


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    yield
    registry._read_entry_points.cache_clear()


def test_load_by_name_with_options():
    register("mine")(ExactEnvironment)
    assert load("mine", strip=False).options.strip is False
    assert available()["mine"] == "sample_envs:ExactEnvironment"
    assert load("math").name == "math"


def test_every_shipped_name_loads():
    for name in registry.ENVIRONMENTS:
        assert load(name).name == name


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(UsageError, match="no environment is called 'maths'; did you mean 'math'?"):
        load("maths")
    with pytest.raises(UsageError, match=r"the nearest of \d+: .*`verigym envs` lists all"):
        load("zzzzzzzz")


def test_an_unknown_option_gets_a_suggestion():
    register("mine")(ExactEnvironment)
    with pytest.raises(UsageError, match="options of 'exact': unknown field 'stripp'; did you mean 'strip'"):
        load("mine", stripp=True)
    with pytest.raises(UsageError, match="field 'strip': .*got 'perhaps'"):
        load("mine", strip="perhaps")


def test_a_name_is_given_once():
    register("mine")(ExactEnvironment)
    register("mine")(ExactEnvironment)  # the same class again, as in a re-run notebook cell
    with pytest.raises(UsageError, match="twice: by sample_envs:ExactEnvironment and by sample_envs:ScriptedEnvironment"):
        register("mine")(ScriptedEnvironment)
    with pytest.raises(UsageError, match="'math' is registered twice: by verigym.envs.math.environment:MathEnvironment and by"):
        register("math")(ExactEnvironment)


def points(monkeypatch, *values):
    found = [importlib.metadata.EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, value in values]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)
    registry._read_entry_points.cache_clear()


def test_entry_points_of_other_packages(monkeypatch):
    points(monkeypatch, ("theirs", "sample_envs:ExactEnvironment"))
    assert load("theirs").name == "exact"
    assert available()["theirs"] == "sample_envs:ExactEnvironment"
    register("theirs")(ScriptedEnvironment)
    with pytest.raises(UsageError, match="'theirs' is registered twice"):
        available()


def test_two_packages_with_one_name(monkeypatch):
    points(monkeypatch, ("theirs", "a:A"), ("theirs", "b:B"))
    with pytest.raises(UsageError, match="'theirs' is registered twice: by a:A and by b:B"):
        available()
    points(monkeypatch, ("math", "a:A"))
    with pytest.raises(UsageError, match="by verigym.envs.math.environment:MathEnvironment and by a:A"):
        load("anything")


def test_a_package_that_is_installed_meanwhile_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert "theirs" not in available()
    info = tmp_path / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\ntheirs = sample_envs:ExactEnvironment\n")
    assert load("theirs").name == "exact"


def test_a_file_and_a_class_are_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = (
        "import os\nfrom verigym.envs.math.environment import MathEnvironment\nclass Own(MathEnvironment):\n    version = '7'\n"
    )
    (tmp_path / "envs_of_this_test.py").write_text(text)
    environment = load("envs_of_this_test:Own", symbolic=False)
    assert (environment.version, environment.options.symbolic) == ("7", False)
    assert load("sample_envs:ExactEnvironment").name == "exact"


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "sample_envs:__name__", "verigym.envs.contract.schema:Score"]
)
def test_only_environments_are_called(name):
    with pytest.raises(UsageError, match=f"environment '{name}' is no class that extends BaseEnvironment"):
        load(name)


def test_a_composition_is_no_class_and_has_its_own_places(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_compositions.py").write_text("import verigym\nboth = verigym.AllOf(['format', 'length'])\n")
    with pytest.raises(UsageError, match="A composition works in Python, and as `format:` or `add:` of a source"):
        load("my_compositions:both")
    with pytest.raises(UsageError, match="is no class; register the class, before it is made"):
        register("own-both")(load("format"))


@pytest.mark.parametrize("name", ["no_such_module_here:Own", "sample_envs:Nothing", "sample_envs:", ":Own", "a.b c:D", "::"])
def test_a_place_without_an_environment(name):
    with pytest.raises(UsageError, match="expected module:Class, in this folder or installed: "):
        load(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pal_of_this_test.py:Pal", r"this names a file: write pal_of_this_test:Pal$"),
        ("below/deep_pal.py:Pal", r"this names a file: write deep_pal:Pal in the folder below$"),
        ("pal_of_this_test:Pall", r"module 'pal_of_this_test' has no 'Pall'; did you mean 'Pal'\?$"),
        ("math_of_this_test:Nothing", r"has no 'Nothing'; it defines no environment$"),
        (
            "lacking_of_this_test:Pal",
            r"lacking_of_this_test\.py:2: ModuleNotFoundError: No module named 'no_such_package_here'$",
        ),
        ("broken_of_this_test:Pal", r"broken_of_this_test\.py:2: SyntaxError: "),
        ("deep_of_this_test:Pal", r"deep_of_this_test\.py:2: JSONDecodeError: "),
    ],
)
def test_a_wrong_place_is_put_right_by_name(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pal = "from verigym.envs.math.environment import MathEnvironment\nclass Pal(MathEnvironment):\n    version = '7'\n"
    (tmp_path / "pal_of_this_test.py").write_text(pal)
    (tmp_path / "below").mkdir()
    (tmp_path / "below/deep_pal.py").write_text(pal)
    (tmp_path / "math_of_this_test.py").write_text("import math\n")
    (tmp_path / "lacking_of_this_test.py").write_text("import math\nimport no_such_package_here\n")
    (tmp_path / "broken_of_this_test.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "deep_of_this_test.py").write_text("import json\njson.loads('{')\n")
    with pytest.raises(UsageError, match=message):
        load(name)


def test_an_init_of_its_own_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_init.py").write_text(
        "from verigym import BaseEnvironment, Options, Reference, Score\n"
        "class Own(BaseEnvironment[Reference, Options]):\n"
        "    name, version, reference_type = 'own', '1', Reference\n"
        "    def __init__(self, path): self.path = path\n"
        "    def judge(self, prompt, reference, completion): return Score.correct()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["check", "own_init:Own"]) == 2
    error = capsys.readouterr().err
    assert "environment 'own_init:Own': its __init__: missing a required argument: 'path'; declare parameters as" in error
