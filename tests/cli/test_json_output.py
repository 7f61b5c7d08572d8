"""`--json`: every command that prints figures has it, and standard output is then one JSON document and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from commands import Path as Words
from commands import commands, flags
from patience import HANG_S
from scale_runs import write_run
from terminals import environment, verigym

from verigym.cli import main
from verigym.cli.common.json_output import NO_DOCUMENT, Result, json_output, plain
from verigym.cli.common.stopping import InterruptedWithResults
from verigym.envs import Score
from verigym.envs.contract.errors import UsageError
from verigym.exit_codes import ExitCode

WITHOUT = {
    ("init",): "prints no figures: it says which files it wrote",
    ("datasets", "show"): "prints a description as it is written, which is YAML",
    ("suite", "show"): "prints a description as it is written, which is YAML",
    ("watch",): "is a live view; `metrics.jsonl` has its figures",
    ("serve",): "is a server; its `/metrics` has figures",
}
"""Commands without --json, and why."""

ROWS = [
    {"prompt": "2+2?", "answer": "4", "completion": r"\boxed{4}"},
    {"prompt": "2+3?", "answer": "5", "completion": r"\boxed{4}"},
    {"prompt": "2+4?", "answer": "6", "completion": r"\boxed{6}"},
]
CASES = [{"gold": "4", "pred": "4", "expected": True}, {"gold": "4", "pred": "5", "expected": False}]
SUMS = """name: sums
description: Sums.
licence: CC0-1.0
url: https://example.org
files: {train: sums.jsonl}
environment: math
columns: {q: string, a: string}
prompt: "{q}"
reference: {answer: {column: a}}
"""
RECIPE = """output: out
defaults: {device: cpu}
stages:
  - {name: base, kind: scratch, demonstrations: [{environment: arithmetic, options: {digits: 1}}], texts: 20, vocabulary: 300,
     hidden_size: 16, layers: 1, heads: 2, intermediate_size: 16}
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small input for every command."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
        "cases.jsonl": "".join(json.dumps(case) + "\n" for case in CASES),
        "sums.jsonl": '{"q": "1+1?", "a": "2"}\n{"q": "1+2?", "a": "3"}\n',
        "sums.yaml": SUMS,
        "recipe.yaml": RECIPE,
        "turns.json": json.dumps([r"\boxed{4}"]),
        "scores.jsonl": json.dumps({"row": 1, "sample_index": 0, "score": Score.correct().model_dump(mode="json")}) + "\n",
        "program.py": "print(2)\n",
        "tests.json": '[{"type": "stdio", "stdout": "2\\n"}]',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "run").mkdir()
    write_run(tmp_path / "run")
    return tmp_path


Check = Callable[[Any], Any]
QUICK: dict[str, tuple[str, Check]] = {
    "score": (
        r"score --env math --prompt 2+2? --reference answer=4 --completion \boxed{4}",
        lambda found: found["reward"] == 1.0,
    ),
    "envs": ("envs", lambda found: {one["name"]: one["package"] for one in found}["math"] == "verigym"),
    "envs NAME": (
        "envs math",
        lambda found: found["file"].endswith("environment.py") and found["reference"]["answer"]["required"],
    ),
    "adapters": ("adapters", lambda found: found["trl"]["module"] == "verigym.adapters.trl"),
    "check": ("check format", lambda found: found["passed"] and all(row["passed"] for row in found["rows"])),
    "play": (
        "play math --tool calculator --prompt 2+2? --reference answer=4 --script turns.json",
        lambda found: (found["answer"], found["score"]["reward"]) == ("4", 1.0),
    ),
    "grade": (
        "grade rows.jsonl --env math --out graded.jsonl --workers 0",
        lambda found: found["accuracy"] == 2 / 3 and found == {**summary("graded.jsonl"), "first_bad": ""},
    ),
    "scale": ("scale run --gpus 2", lambda found: [one["servers"] for one in found["plans"]] == [1]),
    "report": ("report scores.jsonl", lambda found: (found["samples"], found["path"]) == (1, "scores.report.html")),
    "bench math": ("bench math cases.jsonl", lambda found: next(iter(found["groups"]["answers"].values()))["accuracy"] == 1.0),
    "validate": (
        "validate sums.yaml --data-dir . --workers 0",
        lambda found: (found["rows"], found["passed"], found["failures"]) == (2, 2, []),
    ),
    "datasets validate": ("datasets validate sums.yaml --data-dir . --workers 0", lambda found: found["passed"] == 2),
    "datasets list": ("datasets list", lambda found: {one["name"]: one["environment"] for one in found}["gsm8k"] == "math"),
    "datasets sample": (
        "datasets sample sums.yaml --data-dir . --rows 2",
        lambda found: [(one["row"], one["score"]["reward"]) for one in found] == [(1, 1.0), (2, 1.0)],
    ),
    "datasets lengths": (
        "datasets lengths sums.yaml --data-dir .",
        lambda found: (found["unit"], found["prompts"]["rows"], found["unfit"]) == ("characters", 2, 0),
    ),
    "datasets pin": (
        "datasets pin sums.yaml --data-dir . --out pinned.yaml",
        lambda found: len(found["files"]["train"]["sha256"]) == 64 and found["written"] == "pinned.yaml",
    ),
    "suite list": ("suite list", lambda found: "r1" in [one["name"] for one in found]),
    "suite check": (
        "suite check quickstart --golds 1",
        lambda found: abs(sum(one["share"] for one in found["sources"]) - 1) < 1e-9 and found["step"]["prompt_tokens"] > 0,
    ),
    "sandbox doctor": ("sandbox doctor", lambda found: found["level"] in range(5) and found["layers"][0]["name"] == "kernel"),
    "lean doctor": (
        "lean doctor --option lean=/nowhere/lean",
        lambda found: {one["name"]: one["available"] for one in found}["lean"] is False,
    ),
    "lean self-test": ("lean self-test --option lean=/nowhere/lean", lambda found: "lean" in found["error"]),
    "pipeline status": ("pipeline status recipe.yaml", lambda found: found["stages"][0]["state"] == "to do"),
}
SANDBOX: dict[str, tuple[str, Check]] = {
    "sandbox run": ("sandbox run program.py", lambda found: (found["status"], found["stdout"]) == ("ok", "2\n")),
    "sandbox test": ("sandbox test program.py --tests tests.json", lambda found: found["reward"] == 1.0),
    "sandbox self-check": ("sandbox self-check", lambda found: {one["group"] for one in found["probes"]} and "level" in found),
}
WITH_A_GPU = ("gpu-check",)
"""Run in tests/trainer/gpu_check."""
TRAINING = ("train", "eval", "quickstart", "pairs", "reward-model", "step-labels", "prm", "pipeline run", "pipeline plan")
"""Commands that the slow test at the end runs."""


def summary(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{out}.summary.json").read_text(encoding="utf-8"))
    return found


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return standard output, which must be one JSON document on one line without numbers that JSON does not have."""
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and out.endswith("\n"), out[:1000]

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(out, parse_constant=refuse)


def test_every_command_has_it_or_a_reason() -> None:
    lacking = {path for path, command in commands().items() if "--json" not in flags(command)}
    assert lacking == set(WITHOUT)


def test_every_command_with_it_is_run() -> None:
    run: set[Words] = {tuple(name.split()) for name in (*QUICK, *SANDBOX, *TRAINING, *WITH_A_GPU) if not name.endswith("NAME")}
    assert run == set(commands()) - set(WITHOUT)


@pytest.mark.parametrize("name", QUICK)
def test_one_document(name: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, right = QUICK[name]
    code = main([*arguments.split(), "--json"])
    found = document(capsys)
    assert right(found), found
    assert code == (1 if name.startswith("lean") else code)
    assert code in (0, 1)


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("name", ["sandbox run", "sandbox test"])
def test_one_document_of_a_program(name: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, right = SANDBOX[name]
    assert main([*arguments.split(), "--json"]) == 0
    assert right(found := document(capsys)), found


@pytest.mark.slow
@pytest.mark.usefixtures("box")
def test_one_document_of_the_panel(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, right = SANDBOX["sandbox self-check"]
    assert main([*arguments.split(), "--json"]) in (0, 1)
    assert right(found := document(capsys)), found


def test_what_a_person_reads_goes_to_standard_error(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["grade", "rows.jsonl", "--env", "math", "--workers", "0", "--overwrite"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out.splitlines()
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    told = captured.err.splitlines()
    assert [line for line in shown if not line.startswith(("seconds", "scores"))] == [
        line for line in told if not line.startswith(("seconds", "scores"))
    ]


LOUD = '''
import os
import subprocess

from verigym import BaseEnvironment, Options, Reference, Score


class Loud(BaseEnvironment[Reference, Options]):
    """Writes to standard output wherever it can."""

    name, version, reference_type = "loud", "1", Reference

    def judge(self, prompt, reference, completion):
        print("LOUD")
        os.write(1, b"LOUD")
        subprocess.run(["echo", "LOUD"], check=True)
        return Score.correct()
'''


@pytest.mark.slow
def test_what_others_write_is_not_in_it(work: Path) -> None:
    (work / "loud.py").write_text(LOUD)
    command = verigym("grade", "rows.jsonl", "--env", "loud:Loud", "--workers", "0", "--json")
    done = subprocess.run(command, cwd=work, env=environment(), capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0 and json.loads(done.stdout)["n"] == 3, done.stdout + done.stderr
    assert done.stdout.count("\n") == 1 and done.stderr.count("LOUD") == 9


@pytest.mark.slow
def test_a_reader_that_is_gone(work: Path) -> None:
    command = f"{' '.join(verigym('envs', '--json'))} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_comparison(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out, more in (("new.jsonl", []), ("old.jsonl", ["--option", "extract=last"])):
        assert main(["grade", "rows.jsonl", "--env", "math", "--workers", "0", "--out", out, *more]) == 0
    capsys.readouterr()
    assert main(["grade", "new.jsonl", "--diff", "old.jsonl", "--json"]) == 0
    found = document(capsys)["diff"]
    assert (found["both"], found["changed"], found["only_new"]) == (3, 0, 0)
    assert {(one["old"], one["new"]): one["n"] for one in found["verdicts"]} == {
        ("correct", "correct"): 2,
        ("incorrect", "incorrect"): 1,
    }


def test_a_file_of_bad_rows_gives_a_document_too(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.jsonl").write_text('{"prompt": 3, "answer": "4", "completion": "x"}\n')
    assert main(["grade", "bad.jsonl", "--env", "math", "--workers", "0", "--json"]) == ExitCode.NONE_SCORED
    found = document(capsys)
    assert (found["n"], found["bad_rows"]) == (0, 1) and found["first_bad"]


def test_a_mistake_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "mth", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ")


def test_two_forms_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "list", "--json", "--markdown"]) == 2
    assert capsys.readouterr().out == ""


class Colour(Enum):
    RED = "red"


@dataclass
class Inner:
    path: Path
    share: float


def test_values_that_json_lacks() -> None:
    given = {
        Colour.RED: [Inner(Path("a/b"), 1 / 3), float("nan"), float("inf")],
        1: {"b", "a"},
        "code": ExitCode.FAILED,
        "none": None,
        "yes": True,
        "score": Score.correct(),
    }
    found = plain(given)
    score = found.pop("score")
    assert found == {
        "red": [{"path": "a/b", "share": 1 / 3}, None, None],
        "1": ["a", "b"],
        "code": 1,
        "none": None,
        "yes": True,
    }
    assert type(found["code"]) is int and score["status"] == "correct"
    json.dumps(found, allow_nan=False)


def test_an_interrupted_command_prints_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    @json_output
    def stopped(as_json: bool = False) -> Result:
        print("for people")
        raise InterruptedWithResults("stopped", {"n": 2})

    with pytest.raises(InterruptedWithResults):
        stopped(as_json=True)
    captured = capsys.readouterr()
    assert (json.loads(captured.out), captured.err) == ({"n": 2}, "for people\n")


def test_no_document_of_other_processes_and_of_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    @json_output
    def other(mistake: bool, as_json: bool = False) -> Result:
        if mistake:
            raise UsageError("no")
        return Result(ExitCode.OK, NO_DOCUMENT)

    assert other(False, as_json=True) == 0
    with pytest.raises(UsageError):
        other(True, as_json=True)
    assert capsys.readouterr().out == ""
    assert sys.stdout is not sys.stderr


@pytest.mark.slow
def test_one_document_of_everything_that_trains(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from verigym.trainer.stages import quickstart as small

    def run(arguments: str, code: int = 0) -> Any:
        assert main([*arguments.split(), "--json"]) == code, capsys.readouterr().err
        return document(capsys)

    planned = run("pipeline plan recipe.yaml")
    assert [(stage["name"], stage["state"], stage["problem"]) for stage in planned["stages"]] == [("base", "to do", "")]
    made = run("pipeline run recipe.yaml")
    assert made["stages"][0]["state"] == "done"
    model = made["stages"][0]["product"]

    Path("run.yaml").write_text(
        f"model: {model}\noutput: run\nsources: [{{environment: arithmetic, options: {{digits: 1}}}}]\nsteps: 1\n"
        "prompts_per_step: 2\ngroup_size: 2\nmax_new_tokens: 4\nworkers: 0\neval_prompts: 2\ndevice: cpu\nloggers: []\n"
    )
    priced = run("train --config run.yaml --dry-run")
    assert priced["memory_bytes"]["peak"] > 0 and priced["most"]["run_s"] >= 0
    trained = run("train --config run.yaml")
    last = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert trained["metrics"]["train"] == [row for row in last if row["kind"] == "train"][-1]
    assert Path(trained["final"]).is_dir() and trained["metrics"]["eval"]["step"] == 1

    evaluated = run(f"eval {model} --output evaluated --env arithmetic --prompts 2 --max-new-tokens 4 --set device=cpu")
    report = json.loads(Path(evaluated["report"]).read_text())
    assert {name: evaluated[name] for name in report} == report

    texts = ("a kind word", "a rude word", "a kind tale", "a rude tale")
    graded = [{"prompt": f"Tell {n}.", "completion": text, "reward": n % 2} for n in range(6) for text in texts]
    graded = [{**row, "reward": float("kind" in row["completion"])} for row in graded]
    Path("graded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in graded))
    Path("pairs.yaml").write_text("output: paired\ndata: [graded.jsonl]\n")
    paired = run("pairs --config pairs.yaml")
    assert paired["figures"]["pairs"] > 0

    quick = f"model: {model}\nsteps: 1\nbatch_size: 2\nheld_out_share: 0.3\ndevice: cpu\nloggers: []\n"
    Path("reward.yaml").write_text(f"output: reward\ndata: [{paired['product']}]\n{quick}")
    assert run("reward-model --config reward.yaml")["figures"]["steps"] == 1

    steps = [{"prompt": f"Tell {n}.", "steps": ["a kind word", "a rude word"], "right": [1, 0], "scored": [1, 1],
              "split": "lines"} for n in range(6)]  # fmt: skip
    Path("steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps))
    Path("prm.yaml").write_text(f"output: prm\ndata: [steps.jsonl]\n{quick}")
    assert run("prm --config prm.yaml")["figures"]["steps"] == 1

    Path("labels.yaml").write_text(
        f"output: labels\nmodel: {model}\nsources: [{{environment: arithmetic}}]\nprompts: 2\nrollouts: 2\nmax_new_tokens: 4\n"
        "device: cpu\nworkers: 0\n"
    )
    assert Path(run("step-labels --config labels.yaml")["product"]).exists()

    sizes = small.Sizes(
        cold_start_steps=1, cold_start_batch=2, grpo_steps=1, prompts_per_step=2, group_size=2, eval_prompts=2, eval_every=1
    )
    monkeypatch.setattr(small, "Sizes", lambda: sizes)
    found = run("quickstart --output first --threads 1")
    assert Path(found["curves"]).exists() and 0 <= found["grpo"] <= 1
