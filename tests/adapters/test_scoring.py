"""Rows that carry their tasks, and what a trainer is told where there is no reward."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import verigym
from verigym.adapters import Always, Scorer, UnscoredError, open_sources, scoring
from verigym.envs import BaseEnvironment, Completion, EnvironmentFailure, Prompt, Reference, Score, UsageError

MIXTURE: Mapping[str, Any] = {
    "sources": [
        {"environment": "arithmetic", "options": {"digits": 1}, "weight": 2, "name": "short"},
        {"environment": "arithmetic", "options": {"digits": 3}, "name": "long"},
        {"environment": "units", "format": {"boxes": 1}},
    ]
}


class _Nothing(Reference):
    pass


class Away(BaseEnvironment[_Nothing, Any]):
    """Our side fails as often as `fails` says, then pays."""

    name, version, reference_type = "away", "1", _Nothing
    fails, retryable = 10**9, True

    def judge(self, prompt: Prompt, reference: _Nothing, completion: Completion) -> Score:
        if self.fails > 0:
            self.fails -= 1
            raise EnvironmentFailure("unavailable", "the server is away", retryable=self.retryable)
        return Score.correct()


@pytest.fixture(scope="module")
def mixed() -> Iterator[Scorer]:
    with Scorer(MIXTURE, workers=0) as scorer:
        yield scorer


def test_rows_carry_their_tasks_through_any_trainer(mixed: Scorer) -> None:
    rows = [json.loads(json.dumps(row)) for row in mixed.sources.rows(128)]
    assert [sum(row["source"] == label for row in rows) for label in ("short", "long", "units")] == [64, 32, 32]
    for row in rows:
        label, prompt = mixed.task(row)
        assert (label, prompt.key) == (row["source"], row["key"])
        assert [message.model_dump() for message in prompt.messages] == row["prompt"]
        environment = mixed.sources.environments[label]
        gold = environment.gold(prompt)
        assert gold is not None
        for text in (gold, "no", ""):
            ours, theirs = environment.score(prompt, text), mixed.score((label, prompt), text)
            assert (ours.reward, ours.reason, ours.grader) == (theirs.reward, theirs.reason, theirs.grader)


def test_rows_are_the_same_each_time_and_others_with_another_seed(mixed: Scorer) -> None:
    keys = [row["key"] for row in mixed.sources.rows(100)]
    assert keys == [row["key"] for row in mixed.sources.rows(100)]
    assert keys[:40] == [row["key"] for row in mixed.sources.rows(64)][:40]
    assert keys != [row["key"] for row in open_sources(MIXTURE, seed=1).rows(100)]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("{", "holds no JSON"),
        ("[" * 10_000, "holds no JSON"),
        ("7", "holds no task"),
        ({"source": "short"}, "holds no task"),
        ({"source": "shorts", "prompt": {}}, "'shorts', which is none of these; did you mean 'short'"),
        ({"source": ["short"], "prompt": {}}, "none of these"),
        ({"source": "short", "prompt": {}}, "no task of 'short': KeyError: 'references'"),
        ({"source": "short", "prompt": {"references": []}}, "no task of 'short'"),
    ],
)
def test_a_cell_that_holds_no_task_is_told(mixed: Scorer, cell: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixed.task({"verigym": cell})


def test_a_task_that_was_changed_is_refused(mixed: Scorer) -> None:
    row = next(mixed.sources.rows(1))
    changed = row["verigym"].replace(row["prompt"][0]["content"][:5], "Other")
    with pytest.raises(ValueError, match="key"):
        mixed.task({"verigym": changed})


def test_rows_with_columns_of_their_own() -> None:
    with Scorer("math", columns={"answer": "gold"}, workers=0) as scorer:
        task = scorer.task({"gold": "4", "other": 1}, "What is 2+2?")
        assert scorer.reward(scorer.score(task, r"\boxed{4}")) == 1.0
        assert scorer.reward(asyncio.run(scorer.ascore(task, r"\boxed{5}"))) == 0.0
        with pytest.raises(UsageError, match="got no column 'gold'"):
            scorer.task({"answer": "4"}, "What is 2+2?")
        with pytest.raises(UsageError, match="writes no tasks of its own"):
            list(scorer.sources.rows(1))


def test_a_mixture_needs_its_column(mixed: Scorer) -> None:
    with pytest.raises(UsageError, match="has no column 'verigym'.*passed: answer"):
        mixed.task({"answer": "4"}, "What?")
    with pytest.raises(UsageError, match="leave `columns` out"):
        Scorer(MIXTURE, columns={"answer": "gold"}, workers=0)


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("mathh", {}, "is called 'mathh'; did you mean 'math'"),
        (MIXTURE, {"digits": 1}, "options digits"),
        (verigym.load("math"), {"extract": ["boxed"]}, "made already"),
        ({"sources": [{"environment": "units"}, {"environment": "units"}]}, {}, "two are called 'units'"),
        ({"sources": [{"environmnt": "units"}]}, {}, "environmnt"),
        (3, {}, "is not an environment"),
    ],
)
def test_what_cannot_be_opened_is_told(what: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_sources(what, **options)


@pytest.mark.parametrize(
    ("what", "given", "kind"),
    [
        (open_sources("units"), {"split": "test"}, "sources that are made already"),
        (open_sources("units"), {"eval_split": "test", "eval_count": 2, "seed": 1}, "sources that are made already"),
        (open_sources("units"), {"data_dir": "here"}, "sources that are made already"),
        (MIXTURE, {"split": "test"}, "a mixture, whose sources have their own"),
        (MIXTURE, {"eval_split": "test"}, "a mixture, whose sources have their own"),
        (MIXTURE, {"data_dir": "here"}, "a mixture that reads no data set"),
        ("units", {"data_dir": "here"}, "an environment, which reads no files"),
        ("math", {"seed": 1}, "an environment that writes no tasks of its own"),
    ],
)
def test_what_has_no_effect_is_refused(what: Any, given: dict[str, Any], kind: str) -> None:
    with pytest.raises(UsageError, match=f"options {', '.join(given)} are given beside {kind}.*no effect; leave them out"):
        open_sources(what, **given)


def test_a_training_run_s_file_and_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model: m\noutput: o\nsources:\n  - {environment: units}\n  - {dataset: mine.yaml}\n")
    (tmp_path / "mine.yaml").write_text(
        "name: mine\ndescription: Sums.\nlicence: MIT\nurl: https://example.org\nfiles: {train: a.jsonl, test: b.jsonl}\n"
        "environment: math\ncolumns: {q: string, a: string}\nprompt: '{q}'\nquestion: '{q}'\nreference: {answer: {column: a}}\n"
    )
    for name, first in (("a", 1), ("b", 5)):
        lines = [json.dumps({"q": f"{first}+{n}=", "a": str(first + n)}) for n in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    alone = open_sources(tmp_path / "mine.yaml", eval_split="test", eval_count=3, data_dir=tmp_path)
    assert len({row["key"] for row in alone.rows(4)}) == 4
    assert len(list(alone.held_out())) == 3
    (tmp_path / "run.yaml").write_text(
        f"model: m\noutput: o\nsources:\n  - {{environment: units}}\n"
        f"  - {{dataset: {tmp_path}/mine.yaml, name: mine, eval_split: null}}\n"
    )
    (tmp_path / "least.yaml").write_text("sources:\n  - {environment: units, weight: 3}\n  - {environment: arithmetic}\n")
    assert [row["source"] for row in open_sources(tmp_path / "least.yaml").rows(64)].count("units") == 48
    both = open_sources(tmp_path / "run.yaml", data_dir=tmp_path)
    assert {row["source"] for row in both.rows(8)} == {"units", "mine"}


@pytest.mark.parametrize("unscored", [None, "halt", True, float("nan"), float("inf"), [0]])
def test_what_to_tell_has_to_be_chosen(unscored: Any) -> None:
    with Scorer("math", workers=0) as scorer, pytest.raises(UsageError, match="expected 'stop', 'retry' or a number"):
        Always(scorer, unscored)


def test_stop_stops_and_a_number_is_told() -> None:
    with Scorer(Away(), workers=0, retries=0) as scorer:
        task = scorer.task({}, "Hello?")
        with pytest.raises(UnscoredError, match="the server is away"):
            Always(scorer, "stop").reward(task, "hi")
        told = Always(scorer, -0.25).reward(task, "hi")
        assert (told.reward, told.score.reward, told.stand_in) == (-0.25, None, True)
        assert asyncio.run(Always(scorer, 0).areward(task, "hi")).reward == 0.0


@pytest.mark.parametrize("kind", ["reward", "areward"])
def test_retry_tries_again_and_then_stops(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(scoring, "WAITS_S", (0.0, 0.01, 0.0))
    env = Away()
    with Scorer(env, workers=0, retries=0) as scorer:
        task, always = scorer.task({}, "Hello?"), Always(scorer, "retry")

        def reward() -> float:
            return always.reward(task, "hi").reward if kind == "reward" else asyncio.run(always.areward(task, "hi")).reward

        env.fails = 2
        assert reward() == 1.0
        env.fails = 4
        with pytest.raises(UnscoredError):
            reward()
        env.fails, env.retryable = 2, False
        with pytest.raises(UnscoredError):
            reward()
        assert env.fails == 1, "what no further try helps is not tried again"


@pytest.mark.parametrize("stop_after", [0, -1, "64", 1.5, True])
def test_when_to_stop_is_a_whole_number(stop_after: Any) -> None:
    with pytest.raises(UsageError, match=r"stop_after=.*: expected a whole number above 0, or None for never"):
        Scorer("math", stop_after=stop_after, workers=0)


def test_a_run_that_learns_nothing_ends() -> None:
    with Scorer(Away(), workers=0, retries=0, stop_after=3) as scorer:
        always, task = Always(scorer, 0.0), scorer.task({}, "Hello?")
        for _ in range(2):
            assert always.reward(task, "hi").reward == 0.0
        with pytest.raises(UsageError, match="the last 3 completions have got no reward: the server is away"):
            always.reward(task, "hi")


def test_what_no_source_would_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="eval_count is 5 and no source has an eval_split to hold rows out of"):
        open_sources("arithmetic", eval_count=5)
    sources = {"sources": [{"dataset": "gsm8k", "data_dir": str(tmp_path)}]}
    with pytest.raises(UsageError, match="data_dir are given beside a mixture whose data sets all name theirs"):
        open_sources(sources, data_dir=tmp_path)
