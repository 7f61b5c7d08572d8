"""The system message of a source: before every prompt of it, once, and never where nobody reads it."""

from __future__ import annotations

from typing import Any

import pytest
from qwen_like import CHATML, qwen_like_tokenizer

from verigym.envs import UsageError
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.evaluation.tasks import held_out, own_texts
from verigym.trainer.models.codec import Codec
from verigym.trainer.stages.examples import demonstrations, to_pairs
from verigym.trainer.tasks.mixture import build_source

SYSTEM = "Answer in one sentence."


def config(**fields: Any) -> SourceConfig:
    return SourceConfig(**{"environment": "arithmetic", "system": SYSTEM, **fields})


def test_it_stands_before_each_prompt_in_training_and_evaluation() -> None:
    plain, instructed = (build_source(config(system=text), 0, 3) for text in (None, SYSTEM))
    for index in range(3):
        before, after = plain.train(index), instructed.train(index)
        assert (after.messages[0].role, after.messages[0].content) == ("system", SYSTEM)
        assert after.messages[1:] == before.messages
        assert after.references == before.references and after.metadata == before.metadata
        assert after.key != before.key
    assert {prompt.messages[0].content for prompt in instructed.held_out} == {SYSTEM}
    assert [prompt.key for prompt in held_out(config(), 3).held_out] == [prompt.key for prompt in instructed.held_out]
    assert all(SYSTEM not in text.whole for text in own_texts(config(), instructed)), "nobody was trained on it"


def test_with_a_template_tools_and_an_added_reward() -> None:
    more = {
        "template": "maths",
        "tools": {"calculator": {}},
        "add": {"process": {"weight": 0.1, "options": {"kind": "arithmetic"}}},
    }
    source = build_source(config(**more), 0, 1)
    prompt = source.train(0)
    assert [message.role for message in prompt.messages] == ["system", "user"]
    assert prompt.messages[0].content == SYSTEM and "\\boxed{}" in prompt.messages[1].content
    assert prompt.environment == source.environment.name and prompt.metadata["tools"]


def test_before_demonstrations_too() -> None:
    (example,) = demonstrations([config()], "train", 1, 0)
    codec = Codec(qwen_like_tokenizer([SYSTEM]))
    (pair,) = to_pairs([example], codec)
    assert codec.tokenizer.decode(pair.prompt_ids).startswith(f"<|im_start|>system\n{SYSTEM}<|im_end|>")
    (plain,) = demonstrations([config(system=None, template="r1-zero")], "train", 1, 0)
    assert codec.tokenizer.decode(codec.encode(plain.prompt)) == plain.prompt.text, "as reinforcement learning asks it"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"template": "think"}, "have a system message already, from template 'think': 'You solve problems"),
        ({"template": "r1-zero"}, "template 'r1-zero' writes plain text for base models"),
    ],
)
def test_it_is_refused_where_it_would_double_or_do_nothing(fields: dict[str, Any], message: str) -> None:
    for build in (lambda: build_source(config(**fields), 0, 1), lambda: demonstrations([config(**fields)], "train", 1, 0)):
        with pytest.raises(UsageError, match=f"source 'arithmetic': system: .*{message}"):
            build()


def test_a_chat_template_without_a_place_for_it_refuses_it() -> None:
    silent = CHATML.replace("{% else %}", "{% elif message.role == 'user' %}")
    prompt = build_source(config(), 0, 1).train(0)
    with pytest.raises(UsageError, match="leaves out messages of the role system; .* leave out the source's `system`"):
        Codec(qwen_like_tokenizer(["a"], template=silent)).encode(prompt)
