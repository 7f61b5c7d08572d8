"""Steps: characters of a text that was sampled token by token become numbers of tokens."""

from __future__ import annotations

from typing import Any

import pytest
from groups import UNSCORED, group

from verigym.envs import Score
from verigym.envs.composition.terms import Term
from verigym.envs.contract.schema import StepScore
from verigym.trainer.credit.step_rewards import steps_of, token_advantages, tokens_until
from verigym.trainer.engines.base import Generated
from verigym.trainer.models.codec import Codec


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any) -> Codec:
    return Codec(tiny_tokenizer)


WHOLE = Term("", 1.0, 0.0, 1.0, True)


def judged(*steps: tuple[int, float]) -> Score:
    found = tuple(StepScore(start=0, end=end, reward=reward) for end, reward in steps)
    return Score.partial(0.5).model_copy(update={"steps": found})


@pytest.mark.parametrize("text", ["2+4=6\n12", "days, weeks and days", "naïve 数学 🙂 end", ""])
def test_so_many_tokens_write_so_many_characters_and_one_fewer_do_not(text: str, codec: Codec) -> None:
    ids = (*codec.encode_text(text), min(codec.eos_ids))
    for characters in range(1, len(text) + 1):
        count = tokens_until(codec, ids, characters)
        assert len(codec.decode(ids[:count])) >= characters
        assert count == 1 or len(codec.decode(ids[: count - 1])) < characters
    assert tokens_until(codec, ids, 0) == 1
    assert tokens_until(codec, ids, len(text) + 9) == len(ids), "an end beyond the text is the end"


def test_sampled_tokens_need_not_be_those_of_the_text(codec: Codec) -> None:
    joined = codec.encode_text("days")
    single = tuple(token for letter in "days" for token in codec.encode_text(letter))
    assert len(single) == 4 != len(joined)
    assert tokens_until(codec, single, 2) == 2


def test_steps_within_one_token_are_one_with_the_least_reward(codec: Codec) -> None:
    done = Generated(tuple(token for letter in "12345" for token in codec.encode_text(letter)), (0.0,) * 5, "stop")
    assert steps_of(judged((2, 0.5), (4, 1.0)), WHOLE, codec, done) == ([0.5, 1.0], [2, 4])
    assert steps_of(judged((0, 0.5), (1, 0.25), (1, 0.75), (9, 1.0)), WHOLE, codec, done) == ([0.25, 1.0], [1, 5])
    assert steps_of(Score.partial(0.4), WHOLE, codec, done) == ([0.4], [5])


def test_unscored_completions_get_nothing_and_groups_without_steps_none(codec: Codec) -> None:
    found = token_advantages(group("a", [judged((1, 0.0)), judged((1, 1.0)), UNSCORED], text="one"), [WHOLE], [9.0] * 3, codec)
    assert found is not None
    assert [len(row) for row in found] == [3, 3, 3]
    assert found[2] == (0.0, 0.0, 0.0)
    assert found[0][0] < 0 < found[1][0]
    assert token_advantages(group("a", [Score.correct(), UNSCORED]), [WHOLE], [9.0] * 2, codec) is None
