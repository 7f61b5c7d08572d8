r"""The environment `program_of_thought`: cases, its contract, whose fault a failure is, and a data set that it grades."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from needs import SHARED, needs

from verigym.datasets_cfg.load import load as load_dataset
from verigym.datasets_cfg.load import load_sample
from verigym.envs import Completion, Status, UsageError, load
from verigym.envs.conformance import check_env
from verigym.envs.grading import Grader
from verigym.envs.math.environment import MathEnvironment, MathOptions
from verigym.envs.program_of_thought import ProgramOfThoughtOptions
from verigym.sandbox import SandboxFailure
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.tasks.mixture import build_source

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases/program_of_thought.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = load("program_of_thought", **case.get("options", {}))
    prompt = env.prompt(case["question"], answer=case["gold"])
    score = env.score(prompt, Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop")))
    assert score.status == case["expected"], score.reason
    assert case["reason"] in (score.reason or "")
    assert score.reward == float(case["expected"] == "correct")


def test_there_are_cases_of_each_sort() -> None:
    kinds = [case["kind"] for case in CASES]
    assert {kind: kinds.count(kind) >= 15 for kind in ("accept", "reject", "exploit")} == dict.fromkeys(set(kinds), True)
    assert all((case["expected"] == "correct") == (case["kind"] == "accept") for case in CASES)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"function": "solution"}, {"program": "fenced_or_all"}], ids=["prints", "PAL", "bare"])
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_env(load("program_of_thought", **options)).raise_if_failed()


def test_the_grader_knows_the_version_of_math(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("program_of_thought").grader.startswith(f"program_of_thought@2.{MathEnvironment.version}+")


def test_a_sandbox_that_fails_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    env = load("program_of_thought")

    def fails(*_: Any, **__: Any) -> Any:
        raise SandboxFailure("the worker died")

    monkeypatch.setattr("verigym.envs.code.sandboxed.open_sandbox", fails)
    score = env.score(env.prompt("1 + 1?", answer="2"), "```python\nprint(2)\n```")
    assert score.status is Status.ERROR and score.reward is None and "the worker died" in str(score.error)
    absent = load("program_of_thought", backend_options={"packages": ["no-such-package"]})
    monkeypatch.undo()
    assert absent.score(absent.prompt("1 + 1?", answer="2"), "```python\nprint(2)\n```").reward is None


def test_a_gold_that_cannot_be_read_is_no_verdict() -> None:
    env = load("program_of_thought")
    score = env.score(env.prompt("What?", answer=r"\frac{1}{"), "```python\nprint(3)\n```")
    assert score.status is Status.ERROR and score.error is not None and score.error.kind == "gold_invalid"


def test_components_say_which_programs_ran() -> None:
    env = load("program_of_thought")
    prompt = env.prompt("1 + 1?", answer="2")
    ran = {text: env.score(prompt, f"```python\n{text}\n```").components for text in ("print(3)", "print(", "1 / 0", "x = 1")}
    assert ran == {"print(3)": {"ran": 1.0}, "print(": {"ran": 0.0}, "1 / 0": {"ran": 0.0}, "x = 1": {"ran": 1.0}}


def test_in_worker_processes_as_here() -> None:
    env: Any = load("program_of_thought")
    rows = [case for case in CASES if not case.get("options")][::4]
    items = [
        (env.prompt(row["question"], answer=row["gold"]), Completion(text=row["completion"], finish_reason="stop"))
        for row in rows
    ]
    with Grader(env, workers=2, timeout_s=300) as grader:
        found = [score.status for score in grader.stream(items)]
    assert found == [env.score(*item).status for item in items]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"function": "a b"}, "the name of a function"),
        ({"function": "class"}, "the name of a function"),
        ({"extract": ["hash"]}, "name boxed among the methods"),
        ({"program": "last"}, "program"),
        ({"float_digits": 20}, "float_digits"),
        ({"percant": "gold"}, "percent"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load("program_of_thought", **options)


def test_the_page_has_every_option_of_its_own() -> None:
    page = (Path(__file__).parents[2] / "docs/program_of_thought.md").read_text(encoding="utf-8")
    for name, field in ProgramOfThoughtOptions.model_fields.items():
        if name not in MathOptions.model_fields:
            words = " ".join((field.description or "").split())
            assert any(line.startswith(f"| `{name}` |") and line.endswith(f"| {words} |") for line in page.splitlines()), name


def test_a_data_set_is_graded_by_another_environment() -> None:
    rows = load_sample("gsm8k", environment="program_of_thought", template="program-of-thought")
    prompt = rows[0]
    assert rows.environment.name == "program_of_thought" and prompt.environment == "program_of_thought"
    assert "Write a Python program" in prompt.text and "boxed" not in prompt.text
    assert rows.environment.score(prompt, "```python\nprint(3 * 4)\n```").status is Status.CORRECT
    assert rows.environment.score(prompt, "It is \\boxed{12}.").status is Status.NO_ANSWER
    assert rows.environment.score(prompt, rows.environment.gold(prompt) or "").status is Status.CORRECT


def test_another_environment_must_fit() -> None:
    with pytest.raises(UsageError, match="tests"):
        load_dataset("gsm8k", "train", environment="code", data_dir=".")
    with pytest.raises(UsageError, match="writes its tasks, so 'math' cannot grade them"):
        load_sample("countdown_generated", environment="math")


@needs("shared data")
def test_a_source_of_a_run_names_both() -> None:
    config = SourceConfig(
        dataset="gsm8k",
        environment="program_of_thought",
        template="program-of-thought",
        shots=1,
        data_dir=SHARED / "data",
        options={"limits": {"wall_s": 60.0}},
    )
    source = build_source(config, 0, 2)
    assert source.label == "gsm8k" and source.environment.name == "program_of_thought"
    prompt = source.train(0)
    assert prompt.messages[-2].content.startswith("```python\nprint(") and len(source.held_out) == 2
    gold = source.environment.gold(prompt)
    assert gold is not None and source.environment.score(prompt, gold).status is Status.CORRECT
