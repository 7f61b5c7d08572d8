"""Rollouts: everything in order, graded while other completions are still being generated, failures in no mean."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from groups import RIGHT, UNSCORED, WRONG, group
from letters import HeldEnvironment, LettersEnvironment, Nothing
from patience import HANG_S

from verigym.envs import Completion, Gate, Prompt, Score, Status, UsageError, load
from verigym.envs.grading import Grader
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.engines.native.generate import sample
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import (
    Dropped,
    Group,
    collect,
    gold_text,
    refuse_accepted_canaries,
    reward_tensors,
    verdict_metrics,
)
from verigym.trainer.tasks.mixture import Source

LONGEST = 16
LETTERS = LettersEnvironment()


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any) -> Codec:
    codec = Codec(tiny_tokenizer)
    # One token in eight ends a completion, so that some end early and some never.
    codec.eos_ids = frozenset(range(1, len(tiny_tokenizer), 8))
    return codec


@pytest.fixture
def tasks() -> list[tuple[Source, Prompt]]:
    return [(source(label), LETTERS.prompt(f"{label} {number}")) for number in range(3) for label in ("a", "b")]


def source(label: str) -> Source:
    return Source(label, LETTERS, 1.0, LETTERS.prompt, ())


def roll(model: Any, codec: Codec, grader: Grader, tasks: Any, **more: Any) -> list[Group]:
    engine = NativeEngine(model, codec, rows_at_a_time=more.pop("rows_at_a_time", 64), dtype="fp32")
    arguments: dict[str, Any] = {"samples": 4, "max_new_tokens": LONGEST, "temperature": 1.0, "key": ("test",), **more}
    return collect(engine, codec, lambda source: grader, tasks, **arguments)


@pytest.mark.parametrize("workers", [0, 1])
def test_every_completion_is_there_in_order_with_its_own_verdict(
    workers: int, tiny_model: Any, codec: Codec, tasks: list[tuple[Source, Prompt]]
) -> None:
    with Grader(LETTERS, workers=workers) as grader:
        groups = roll(tiny_model, codec, grader, tasks)
    assert [found.source for found in groups] == ["a", "b"] * 3
    for found, (_, prompt) in zip(groups, tasks, strict=True):
        assert found.prompt == prompt
        assert found.prompt_ids == codec.encode(prompt)
        assert len(found.generated) == len(found.texts) == len(found.scores) == 4
        assert found.texts == tuple(codec.decode(done.token_ids) for done in found.generated)
        expected = [LETTERS.score(prompt, text).reward for text in found.texts]
        assert [score.reward for score in found.scores] == expected
        assert found.truncated == [done.token_ids[-1] not in codec.eos_ids for done in found.generated]
    assert {score.status for found in groups for score in found.scores} == {Status.CORRECT, Status.INCORRECT}
    assert {cut for found in groups for cut in found.truncated} == {True, False}


def test_smaller_portions_give_the_same_completions(tiny_model: Any, codec: Codec, tasks: list[tuple[Source, Prompt]]) -> None:
    with Grader(LETTERS, workers=0) as grader:
        whole = roll(tiny_model, codec, grader, tasks)
        for rows in (1, 9):
            portions = roll(tiny_model, codec, grader, tasks, rows_at_a_time=rows)
            assert [found.texts for found in portions] == [found.texts for found in whole]
        other = roll(tiny_model, codec, grader, tasks, key=("other",))
    assert all(a.texts != b.texts for a, b in zip(other, whole, strict=True))


def test_the_same_prompt_twice_gives_different_samples(tiny_model: Any, codec: Codec) -> None:
    twice = [(source("a"), LETTERS.prompt("same"))] * 2
    with Grader(LETTERS, workers=0) as grader:
        first, second = roll(tiny_model, codec, grader, twice)
    assert first.texts != second.texts


class Announcing(LettersEnvironment):
    """Says when it has judged for the first time, and keeps what it was given."""

    name = "announcing"

    def __init__(self) -> None:
        super().__init__()
        self.judged = threading.Event()
        self.seen: list[Completion] = []

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        self.seen.append(completion)
        self.judged.set()
        return super().judge(prompt, reference, completion)


def test_grading_begins_while_others_are_generated(tiny_model: Any, codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Announcing()
    tasks = [(source("a"), environment.prompt(str(number))) for number in range(6)]
    forwards: list[bool] = []  # whether there was a verdict before each token

    def look(*given: Any) -> Any:
        # The fifth from the end waits for one: in vain, if nothing is judged before generation has ended.
        wait = len(forwards) == LONGEST - 5
        forwards.append(environment.judged.wait(HANG_S) if wait else environment.judged.is_set())
        return sample(*given)

    monkeypatch.setattr("verigym.trainer.engines.native.generate.sample", look)
    with Grader(environment, workers=0) as grader:
        groups = roll(tiny_model, codec, grader, tasks)
    assert len(forwards) == LONGEST, "some completion should use all tokens, or nothing is generated meanwhile"
    assert not forwards[0]
    assert forwards[LONGEST - 5]
    assert len(environment.seen) == 24
    assert {done.finish_reason for done in environment.seen} == {"stop", "length"}
    given = {done.token_ids for done in environment.seen}
    assert given == {done.token_ids for found in groups for done in found.generated}


def test_a_failure_to_grade_is_nan_and_not_scored() -> None:
    rewards, scored = reward_tensors([group("a", [RIGHT, WRONG]), group("a", [UNSCORED, RIGHT])])
    assert rewards.dtype == torch.float64
    torch.testing.assert_close(rewards, torch.tensor([[1.0, 0.0], [float("nan"), 1.0]]).double(), equal_nan=True)
    assert scored.tolist() == [[True, True], [False, True]]


def test_metrics_of_one_source_are_not_told_twice() -> None:
    metrics = verdict_metrics([group("a", [RIGHT, WRONG, Score.partial(0.5)], tokens=[1, 2, 6], cut=[2])])
    assert metrics == {
        "unscored": 0,
        "judge_exceptions": 0,
        "reward": 0.5,
        "accuracy": pytest.approx(1 / 3),
        "no_answer": 0.0,
        "status/correct": pytest.approx(1 / 3),
        "status/incorrect": pytest.approx(1 / 3),
        "status/partial": pytest.approx(1 / 3),
        "completion_tokens": 3.0,
        "completion_tokens_max": 6,
        "verdict_s": 0.0,
        "verdict_max_s": 0.0,
        "sampled_nll": 1.0,
        "truncated": pytest.approx(1 / 3),
        "groups_without_signal": 0.0,
    }


def test_means_are_over_scored_completions_and_absent_where_there_are_none() -> None:
    metrics = verdict_metrics(
        [
            group("good", [RIGHT, WRONG, UNSCORED, RIGHT]),
            group("good", [WRONG, WRONG, WRONG, UNSCORED]),
            group("broken", [UNSCORED] * 4, tokens=[4] * 4, cut=[0, 1]),
        ]
    )
    assert metrics["unscored"] == 6
    assert metrics["good/unscored"] == 2
    assert metrics["status/error"] == 6 / 12 and metrics["good/status/error"] == 2 / 8 and metrics["broken/status/error"] == 1
    assert "broken/status/correct" not in metrics
    assert metrics["broken/unscored"] == 4
    assert metrics["reward"] == metrics["good/reward"] == pytest.approx(2 / 6)
    assert metrics["accuracy"] == metrics["good/accuracy"] == pytest.approx(2 / 6)
    assert "broken/reward" not in metrics
    assert "broken/accuracy" not in metrics
    assert metrics["completion_tokens"] == pytest.approx((8 * 3 + 4 * 4) / 12)
    assert metrics["broken/completion_tokens"] == 4
    assert metrics["broken/truncated"] == 0.5
    assert metrics["groups_without_signal"] == pytest.approx(2 / 3)
    assert metrics["good/groups_without_signal"] == 0.5
    assert metrics["broken/groups_without_signal"] == 1


def test_rewards_that_differ_by_rounding_are_no_signal() -> None:
    rounded, apart = ([Score.partial(value) for value in pair] for pair in ((0.1 + 0.2, 0.3), (0.1, 0.2)))
    assert verdict_metrics([group("a", rounded), group("a", apart)])["groups_without_signal"] == 0.5


def test_nothing_scored_at_all_has_counts_and_no_means() -> None:
    metrics = verdict_metrics([group("a", [UNSCORED, UNSCORED])])
    assert metrics["unscored"] == 2
    assert "reward" not in metrics
    assert "accuracy" not in metrics


def canary(scores: list[Score]) -> Group:
    made = group("a", scores)
    return replace(made, prompt=LETTERS.prompt("unsolvable", metadata={"canary": "reject"}))


def test_a_canary_that_is_paid_for_stops_the_run() -> None:
    refuse_accepted_canaries([group("a", [RIGHT, WRONG]), canary([WRONG, UNSCORED])])
    with pytest.raises(UsageError, match="cannot be trusted"):
        refuse_accepted_canaries([canary([WRONG, RIGHT])])


def test_a_gold_is_shown_for_people() -> None:
    arithmetic = load("arithmetic")
    assert gold_text(arithmetic.prompt("2+2?", answer="4")) == "4"
    gated = Gate("format", "math").prompt("2+2?", math={"answer": "4"})
    assert gold_text(gated) == "4"
    tests = [{"type": "call", "function": "f", "args": [n], "expected": n} for n in range(100)]
    code = gold_text(load("code").prompt("Write f.", tests=tests))
    assert code is not None and code.startswith('{"tests":[{') and len(code) == 303 and code.endswith("...")
    assert gold_text(LettersEnvironment().prompt("?")) is None


def test_a_generation_that_is_given_up_ends_at_once(tiny_model: Any, codec: Codec, tasks: list[tuple[Source, Prompt]]) -> None:
    asked: list[int] = []

    def give_up() -> bool:
        asked.append(1)
        return len(asked) > 2

    with Grader(LETTERS, workers=0) as grader, pytest.raises(Dropped):
        roll(tiny_model, codec, grader, tasks, give_up=give_up)
    assert len(asked) == 3


def test_verdicts_are_not_waited_for_once_it_is_given_up(tiny_model: Any, codec: Codec, tmp_path: Path) -> None:
    held = HeldEnvironment()
    with Grader(held, workers=1, timeout_s=2 * HANG_S) as grader, pytest.raises(Dropped):
        asked = [(Source("held", held, 1.0, held.prompt, ()), held.prompt(str(tmp_path)))]
        roll(tiny_model, codec, grader, asked, samples=1, give_up=(tmp_path / "begun").exists)
