"""Environments that compare completions train like others: whole groups, nobody's failure in a mean, the same after a stop."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment, Nothing
from patience import HANG_S
from runs import settings, weights

from verigym.envs import Completion, EnvironmentFailure, Prompt, Score
from verigym.envs.grading import Grader
from verigym.trainer.config.run import build_config
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.engines.native.generate import sample
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import collect, reward_tensors, verdict_metrics
from verigym.trainer.tasks.mixture import Source

LONGEST = 16


class RankEnvironment(LettersEnvironment):
    """The share of the others that a text is greater than; texts that begin with `missing` have no verdict."""

    name = "rank"
    grades_groups = True

    def __init__(self, missing: str = "") -> None:
        super().__init__()
        self.missing = missing
        self.groups: list[list[Completion]] = []
        self.judged = threading.Event()

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        raise EnvironmentFailure("gold_invalid", "rank compares a group")

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        group = [Completion.of(completion) for completion in completions]
        self.groups.append(group)
        self.judged.set()
        return [self._rank(one, group) for one in group]

    def _rank(self, one: Completion, group: Sequence[Completion]) -> Score:
        if one.text and one.text[0] in self.missing:
            return Score.failed("backend", "its comparison failed")
        beaten = sum(one.text > other.text for other in group)
        return Score.partial(beaten / (len(group) - 1))


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any) -> Codec:
    codec = Codec(tiny_tokenizer)
    codec.eos_ids = frozenset(range(1, len(tiny_tokenizer), 8))  # so that some end early and some never
    return codec


def roll(model: Any, codec: Codec, environment: LettersEnvironment, prompts: int, **engine: Any) -> list[Any]:
    source = Source("a", environment, 1.0, environment.prompt, ())
    with Grader(environment, workers=0) as grader:
        return collect(
            NativeEngine(model, codec, **{"rows_at_a_time": 64, "dtype": "fp32", **engine}),
            codec,
            lambda source: grader,
            [(source, environment.prompt(str(number))) for number in range(prompts)],
            samples=4,
            key=("test",),
            max_new_tokens=LONGEST,
            temperature=1.0,
        )


def test_each_group_is_judged_once_in_the_order_of_its_samples(tiny_model: Any, codec: Codec) -> None:
    environment = RankEnvironment()
    groups = roll(tiny_model, codec, environment, 5)
    assert sorted(tuple(one.text for one in group) for group in environment.groups) == sorted(g.texts for g in groups)
    for group in groups:
        expected = [sum(text > other for other in group.texts) / 3 for text in group.texts]
        assert [score.reward for score in group.scores] == expected
    given = {done.token_ids for group in groups for done in group.generated}
    assert {one.token_ids for group in environment.groups for one in group} == given


def test_a_completion_without_a_verdict_is_in_no_mean(tiny_model: Any, codec: Codec) -> None:
    texts = [text for group in roll(tiny_model, codec, RankEnvironment(), 5) for text in group.texts]
    first = sorted(text[:1] for text in texts if text)
    missing = "".join(set(first[: len(first) // 3]))
    groups = roll(tiny_model, codec, RankEnvironment(missing), 5)
    rewards_PG, scored_PG = reward_tensors(groups)
    assert scored_PG.tolist() == [[text[:1] not in missing or not text for text in group.texts] for group in groups]
    assert 0 < int((~scored_PG).sum()) == verdict_metrics(groups)["unscored"] < 20
    assert not torch.isnan(rewards_PG[scored_PG]).any()


def test_a_group_is_judged_while_others_are_generated(tiny_model: Any, codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = RankEnvironment()
    calls: list[bool] = []

    def look(*given: Any) -> Any:
        # The last token of the last portion waits for a verdict: in vain, if none is given before generation has ended.
        calls.append(environment.judged.wait(HANG_S) if len(calls) > LONGEST else environment.judged.is_set())
        return sample(*given)

    monkeypatch.setattr("verigym.trainer.engines.native.generate.sample", look)
    roll(tiny_model, codec, environment, 4, rows_at_a_time=4)
    assert len(calls) > LONGEST and not calls[0] and calls[-1]


def test_a_run_that_compares_learns_and_goes_on_after_a_stop(letters_model: Path, tmp_path: Path) -> None:
    def run(name: str, steps: int) -> Path:
        train(
            build_config(settings(letters_model, tmp_path / name, sources=[{"environment": "rank"}], steps=steps), "test"),
            {"rank": RankEnvironment()},
        )
        return tmp_path / name / "final"

    whole = run("whole", 3)
    assert weights(whole) != weights(letters_model)
    run("parts", 2)
    assert weights(run("parts", 3)) == weights(whole)
