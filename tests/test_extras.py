"""The core alone: what it brings, what works with it, and the sentence of everything that needs an extra."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from core_only import closure, hide_all_but, normal, run
from packaging.requirements import Requirement

from verigym.envs.contract.errors import UsageError
from verigym.envs.extras import EXTRAS, install, missing, need

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = PROJECT["dependencies"]
OPTIONAL = PROJECT["optional-dependencies"]
HEAVY = {"numpy", "pyarrow", "pandas", "datasets", "huggingface-hub", "math-verify", "torch", "transformers"}
RUN = "model: some/model\noutput: run\nsources:\n  - {environment: arithmetic}\n"
PIPELINE = """
output: made
stages:
  - {name: base, kind: scratch, demonstrations: [{environment: arithmetic}]}
  - {name: trained, kind: grpo, model: stage:base, steps: 2, sources: [{environment: arithmetic}]}
"""
FILES = {
    "run.yaml": RUN,
    "pipeline.yaml": PIPELINE,
    "labelled.yaml": "output: made\nmodel: some/model\ndata: [rows.jsonl]\n",
    "steps.yaml": "output: made\nmodel: some/model\nprompts: 2\nsources: [{environment: arithmetic}]\n",
    "rows.jsonl": '{"prompt": "6*7?", "answer": "42", "completion": "\\\\boxed{42}"}\n'
    '{"prompt": "6*8?", "answer": "(x+1)^2", "completion": "\\\\boxed{x^2+2x+1}"}\n',
    "rows.parquet": "PAR1",
    "labelled.jsonl": '{"gold": "42", "pred": "42.0", "expected": true}\n',
}
BENCH = ("bench", "math", "labelled.jsonl", "--gold-column", "gold", "--answer-column", "pred", "--label-column", "expected")
NEEDS = {
    "train": (("train", "--config", "run.yaml"), "torch", "train"),
    "train --dry-run": (("train", "--config", "run.yaml", "--dry-run"), "torch", "train"),
    "quickstart": (("quickstart", "--output", "q"), "torch", "train"),
    "eval": (("eval", "some/model", "--output", "e", "--env", "arithmetic"), "torch", "train"),
    "pipeline run": (("pipeline", "run", "pipeline.yaml"), "torch", "train"),
    "reward-model": (("reward-model", "--config", "labelled.yaml"), "torch", "train"),
    "prm": (("prm", "--config", "labelled.yaml"), "torch", "train"),
    "step-labels": (("step-labels", "--config", "steps.yaml"), "torch", "train"),
    "serve": (("serve", "--env", "math"), "uvicorn", "serve"),
    "grade Parquet": (("grade", "rows.parquet", "--env", "math"), "pyarrow", "data"),
    "grade --data": (("grade", "rows.jsonl", "--data", "gsm8k", "--id-column", "prompt"), "datasets", "data"),
    "grade math_verify": (
        ("grade", "rows.jsonl", "--env", "math", "--option", "math_verify=true"),
        "math_verify",
        "math-verify",
    ),
    "validate": (("validate", "gsm8k"), "datasets", "data"),
    "datasets sample": (("datasets", "sample", "gsm8k", "--split", "test"), "datasets", "data"),
    "datasets sample --tokenizer": (("datasets", "sample", "gsm8k", "--tokenizer", "gpt2"), "transformers", "train"),
    "datasets pin": (("datasets", "pin", "gsm8k", "--out", "pinned.yaml"), "huggingface_hub", "data"),
    "suite check --tokenizer": (("suite", "check", "math", "--tokenizer", "gpt2"), "transformers", "train"),
    "bench --against": ((*BENCH, "--against", "math-verify"), "math_verify", "math-verify"),
    "check language": (("check", "language"), "py3langid", "language"),
    "check retrieval": (("check", "retrieval"), "bm25s", "retrieval"),
    "check reasoning_gym": (("check", "reasoning_gym"), "reasoning_gym", "reasoning-gym"),
}
WORKS = {
    "grade": (("grade", "rows.jsonl", "--env", "math", "--out", "scores.jsonl", "--workers", "1"), "accuracy     1.0000"),
    "check": (("check", "arithmetic"), "passed"),
    "envs": (("envs",), "math"),
    "adapters": (("adapters",), "verigym.adapters.trl"),
    "bench": (BENCH, "math"),
    "datasets list": (("datasets", "list"), "gsm8k"),
    "datasets sample": (("datasets", "sample", "gsm8k"), "its score] 1.0"),
    "suite check": (("suite", "check", "math"), "prompt tokens"),
    "pipeline status": (("pipeline", "status", "pipeline.yaml"), "waiting"),
}
HELP = ("train", "quickstart", "eval", "pairs", "reward-model", "step-labels", "prm", "pipeline", "bench", "datasets", "suite")
COMMANDS = {
    **{name: arguments for name, (arguments, *_) in NEEDS.items()},
    **{f"works: {name}": arguments for name, (arguments, _) in WORKS.items()},
    **{f"help: {name}": (name, "--help") for name in HELP},
}
ALL_IN_ONE = """
import contextlib, io, json, sys
from verigym.cli import main

if __name__ == "__main__":
    found = {}
    for name, arguments in json.load(open(sys.argv[1])).items():
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
        found[name] = [code, out.getvalue(), err.getvalue()]
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a Python with the core's packages and no others."""
    site = tmp_path_factory.mktemp("site")
    variables = {**hide_all_but(CORE, site), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    names = ["numpy", "pyarrow", "datasets", "math_verify", "torch", "requests", "pytest", "sympy", "yaml", "verigym"]
    code = f"import importlib.util as u; print([name for name in {names} if u.find_spec(name)])"
    assert run(variables, site, "-c", code).stdout.strip() == "['sympy', 'yaml', 'verigym']"
    return variables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def said(alone: dict[str, str], folder: Path) -> Any:
    """Exit code, output and errors of every command, by name; all by one process, because a start takes a second."""
    (folder / "all.py").write_text(ALL_IN_ONE)
    (folder / "commands.json").write_text(json.dumps(COMMANDS))
    done = run(alone, folder, "all.py", "commands.json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_core_brings_nothing_heavy() -> None:
    assert closure(CORE) & HEAVY == set()
    assert {"sympy", "mpmath"} <= closure(CORE), "the default verdicts of math need them"


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_what_needs_an_extra_names_it(name: str, said: Any) -> None:
    _, package, extra = NEEDS[name]
    code, _, errors = said[name]
    error = errors.strip().splitlines()[-1]
    assert error.startswith("error: ") and package.replace("_", "-") in error.replace("_", "-"), errors
    assert error.endswith(f"pip install 'verigym[{extra}]'")
    assert (code, "unexpected" in errors) == (2, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_what_needs_none_works(name: str, said: Any) -> None:
    code, out, errors = said[f"works: {name}"]
    assert (code, WORKS[name][1] in out) == (0, True), out + errors


@pytest.mark.slow
@pytest.mark.parametrize("name", HELP)
def test_help_needs_no_extra(name: str, said: Any) -> None:
    code, out, _ = said[f"help: {name}"]
    assert (code, "Usage: " in out) == (0, True)


@pytest.mark.slow
def test_the_scores_are_those_with_every_package(alone: dict[str, str], folder: Path) -> None:
    lines = []
    for variables in (alone, {name: value for name, value in alone.items() if name != "PYTHONPATH"} | _path(alone)):
        out = folder / f"scores{len(lines)}.jsonl"
        done = run(variables, folder, *"-m verigym grade rows.jsonl --env math --workers 1 --out".split(), str(out))
        assert done.returncode == 0, done.stderr
        scores = [json.loads(line) for line in out.read_text().splitlines()]
        lines.append([(row["score"]["reward"], row["score"]["grader"]) for row in scores if "score" in row])
    assert lines[0] == lines[1]
    assert [reward for reward, _ in lines[0]] == [1.0, 1.0]


def _path(alone: dict[str, str]) -> dict[str, str]:
    """Return the path without the folder that hides packages."""
    _, _, rest = alone["PYTHONPATH"].partition(":")
    return {"PYTHONPATH": rest}


def test_make_setup_installs_what_the_tests_need() -> None:
    (extras,) = re.findall(r"--editable '\.\[([a-z,-]+)\]'", (ROOT / "Makefile").read_text())
    assert {"train", "data", "math-verify", "dev"} <= set(extras.split(","))
    assert set(extras.split(",")) <= set(OPTIONAL)


def test_every_extra_of_the_table_holds_the_packages_that_it_is_named_for() -> None:
    owners = importlib.metadata.packages_distributions()
    for extra, packages in EXTRAS.items():
        held = {normal(Requirement(text).name) for text in OPTIONAL[extra]}
        brought = closure(OPTIONAL[extra])
        assert held, extra
        for package in packages:
            for owner in owners.get(package, []):
                assert normal(owner) in brought, f"{package} is not brought by verigym[{extra}]"


def test_every_sentence_names_an_extra_that_there_is() -> None:
    places = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    places += [path for part in ("envs", "trainer", "sandbox", "datasets_cfg", "src") for path in (ROOT / part).rglob("*.py")]
    named = {
        extra
        for path in places
        for found in re.findall(r"verigym\[([a-z,-]+)\]", path.read_text())
        for extra in found.split(",")
    }
    assert named <= set(OPTIONAL)


def test_a_package_that_is_there_in_part_is_to_be_upgraded() -> None:
    lack = missing(ModuleNotFoundError("No module named 'torch.nowhere'", name="torch.nowhere"))
    assert str(lack) == (
        "the package torch is installed, but not as this command needs it (No module named 'torch.nowhere'); "
        "pip install --upgrade 'verigym[train]'"
    )


@pytest.mark.parametrize("name", ["verigym.nowhere", "nowhere", None])
def test_other_failed_imports_are_not_told_as_missing_packages(name: str | None) -> None:
    assert missing(ImportError("no", name=name)) is None


def test_need_says_what_asks() -> None:
    with pytest.raises(UsageError, match=r"Parquet \(x\) needs the package pyarrow \(No module named 'pyarrow.nowhere'\); pip"):
        need("pyarrow.nowhere", "Parquet (x)")
    assert install("pyarrow") == "pip install 'verigym[data]'"
