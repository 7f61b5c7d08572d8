from __future__ import annotations

from typing import Any

import pytest
from even_task import CarriesOn, EvenEnvironment, solution

from verigym.envs.contract.base import BaseEnvironment
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score
from verigym.envs.grading import Grader
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.models.codec import Codec
from verigym.trainer.reward_models.math_shepherd import roll_out

ENV = EvenEnvironment()
PROMPT = ENV.prompt_at("train", 0, 0)
RIGHT, WRONG = solution("38"), solution("37")


def outcomes(engine: Any, codec: Codec, *texts: str, env: Any = ENV, prompt: Prompt = PROMPT, **settings: Any) -> list[Any]:
    with Grader(env, workers=0) as grader:
        return roll_out(
            engine, codec, grader, [(prompt, text) for text in texts], **{"samples": 4, "max_new_tokens": 40, **settings}
        )


def test_a_step_is_worth_what_can_still_be_reached(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    right, wrong, blank = outcomes(CarriesOn(codec), codec, RIGHT, WRONG, " ")
    assert [span.of(RIGHT) for span in right.spans] == ["I take 38.", "So \\boxed{38}"]
    assert (right.right, right.scored) == ((4, 1), (4, 1))
    assert (wrong.right, wrong.scored) == ((0, 0), (4, 1))
    assert blank.spans == () and blank.labels() == ()
    assert right.labels("hard") == right.labels("soft") == (1.0, 1.0)
    assert wrong.labelled().steps == ("I take 37.", "So \\boxed{37}") and wrong.labelled().labels == (0.0, 0.0)


def test_hard_and_soft_estimates(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    (found,) = outcomes(CarriesOn(codec, slips=2), codec, RIGHT + "\n\nI mean \\boxed{37}")
    # two of four rollouts slip; the third step is the solution as it stands, which is wrong
    assert found.right == (2, 2, 0) and found.scored == (4, 4, 1)
    assert found.labels("hard") == (1.0, 1.0, 0.0)
    assert found.labels("soft") == (0.5, 0.5, 0.0)


def test_a_rollout_that_was_cut_off_is_no_right_one(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    (found,) = outcomes(CarriesOn(codec), codec, RIGHT, max_new_tokens=2)
    assert found.right == (0, 1) and found.scored == (4, 1)


class SometimesBroken(BaseEnvironment[Reference, Any]):
    """Fails on our side where a text boxes `neither`."""

    name = "sometimes_broken"
    version = "1"
    reference_type = Reference

    def judge(self, prompt: Prompt, reference: Reference, completion: Completion) -> Score:
        if "neither" in completion.text:
            raise EnvironmentFailure("backend", "down")
        return Score.correct()


@pytest.mark.parametrize(("slips", "right", "labels"), [(2, (2, 1), (1.0, 1.0)), (1, (0, 1), (None, 1.0))])
def test_what_was_not_scored_is_in_no_share(tiny_tokenizer: Any, slips: int, right: Any, labels: Any) -> None:
    codec, env = Codec(tiny_tokenizer), SometimesBroken()
    (found,) = outcomes(CarriesOn(codec, slips=slips), codec, RIGHT, env=env, prompt=env.prompt("473?"))
    assert found.right == found.scored == right
    assert found.labels("soft") == found.labels("hard") == labels


def test_randomness_is_of_the_solution_and_not_of_its_place(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    first, second, other = CarriesOn(codec), CarriesOn(codec), CarriesOn(codec)
    outcomes(first, codec, RIGHT, WRONG)
    outcomes(second, codec, WRONG, RIGHT)
    outcomes(other, codec, RIGHT, WRONG, seed=1)
    assert len(set(first.keys)) == 8  # two solutions, one step each that is not the last, four samples
    assert set(first.keys) == set(second.keys) and not set(first.keys) & set(other.keys)


def test_it_runs_on_a_real_engine_and_draws_the_same_again(tiny_model: Any, tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    engine = NativeEngine(tiny_model, codec, rows_at_a_time=4, dtype="fp32")
    once = outcomes(engine, codec, RIGHT, WRONG, max_new_tokens=6)
    assert [one.scored for one in once] == [(4, 1), (4, 1)]
    assert outcomes(engine, codec, RIGHT, WRONG, max_new_tokens=6) == once


def test_no_samples_are_refused(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    with pytest.raises(UsageError, match="samples=0"):
        outcomes(CarriesOn(codec), codec, RIGHT, samples=0)
