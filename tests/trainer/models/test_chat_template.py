"""Chat templates: which variables they take, which messages they write, where turns begin and end."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from qwen_like import CHATML, THINKING_CHATML, qwen_like_tokenizer
from transformers import GenerationConfig

from verigym.envs import Message, Prompt, UsageError, load
from verigym.trainer.models.chat_template import variables
from verigym.trainer.models.codec import Codec

TURN = "<|im_start|>assistant\n"


def codec(template: str = CHATML, ends: list[str] | None = None, **kwargs: Any) -> Codec:
    tokenizer = qwen_like_tokenizer(["What is 2+2? The answer is 4."], template=template)
    given = GenerationConfig(eos_token_id=tokenizer.convert_tokens_to_ids(ends)) if ends else None
    return Codec(tokenizer, given, kwargs)


def prompt(*turns: tuple[str, str]) -> Prompt:
    return load("format").prompt([Message(role=role, content=text) for role, text in turns])  # type: ignore[arg-type]


ASKED = prompt(("user", "2+2=?"))


def shown(codec: Codec, asked: Prompt = ASKED) -> str:
    return str(codec.tokenizer.decode(codec.encode(asked)))


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("{{ messages }}{% if x is defined %}{{ x }}{% endif %}", {"messages", "x"}),
        ("{% if not x is defined %}{% set x = 1 %}{% endif %}{{ x }}", {"x"}),
        ("{%- set x = x if x is defined else 1 %}{{ x }}", {"x"}),
        ("{% set x = 1 %}{% if x is defined %}{{ x }}{% endif %}", set()),
        ("{% for x in messages %}{{ x.y }}{% break %}{% endfor %}", {"messages"}),
        ("{% macro show(x) %}{{ x }}{% endmacro %}{{ show(y) }}", {"y"}),
        ("{% generation %}{{ x | default(1) }}{%- endgeneration -%}", {"x"}),
        ("{# x #}{{ 'x' }}", set()),
    ],
)
def test_variables_are_those_that_a_caller_can_set(template: str, names: set[str]) -> None:
    assert variables(template) == names


def test_a_variable_reaches_the_template() -> None:
    assert shown(codec(THINKING_CHATML)).endswith(f"{TURN}<think>\n")
    assert shown(codec(THINKING_CHATML, enable_thinking=False)).endswith(f"{TURN}<think>\n\n</think>\n\n")


@pytest.mark.parametrize(
    ("template", "kwargs", "message"),
    [
        (CHATML, {"enable_thinking": False}, "does not use 'enable_thinking'; it takes none"),
        (THINKING_CHATML, {"enable_thinkin": False}, "does not use 'enable_thinkin'; did you mean 'enable_thinking'"),
        (THINKING_CHATML, {"add_generation_prompt": False}, "'add_generation_prompt' is set by verigym or the tokenizer"),
        (THINKING_CHATML, {"messages": []}, "'messages' is set by verigym or the tokenizer"),
        (THINKING_CHATML, {"eos_token": "x"}, "'eos_token' is set by verigym or the tokenizer"),
        (None, {"enable_thinking": False}, "has no chat template"),
        ("{% if %}", {"x": 1}, "is not valid"),
    ],
)
def test_a_variable_without_effect_is_refused(template: Any, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"chat_template_kwargs: .*{message}"):
        codec(template, **kwargs)


def test_plain_prompts_and_variables_exclude_each_other() -> None:
    plain = ASKED.model_copy(update={"metadata": {"plain": True, "template": "r1-zero"}})
    assert codec(THINKING_CHATML).encode(plain)
    with pytest.raises(UsageError, match="chat_template_kwargs has no effect on a prompt from template 'r1-zero'"):
        codec(THINKING_CHATML, enable_thinking=False).encode(plain)


SILENT = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
LISTS = (
    "{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endfor %}"
)
FORBIDS = "{% if messages[0].role == 'system' %}{{ raise_exception('No system role') }}{% endif %}" + SILENT


def test_a_message_that_the_template_would_drop_is_refused() -> None:
    instructed = prompt(("system", "Be brief."), ("user", "2+2=?"))
    assert "Be brief." in shown(codec(), instructed)
    for template, message in (
        (SILENT, "leaves out messages of the role system; .* leave out the source's `system`"),
        (FORBIDS, "refuses a prompt: No system role; this one has a system message"),
    ):
        assert "2+2" in shown(codec(template))
        with pytest.raises(UsageError, match=message):
            codec(template).encode(instructed)
    with pytest.raises(UsageError, match="leaves out messages of the role user$"):
        codec(LISTS).encode(ASKED)


def test_the_opening_is_put_before_what_graders_read_and_taken_off_what_is_learned() -> None:
    opening = codec(THINKING_CHATML)
    before = opening.encode(ASKED)
    written = (*opening.encode_text("It is 4.\n</think>\n\n4"), opening.end_id)
    assert opening.opening(before) == "<think>\n"
    assert opening.completion(before, written) == "<think>\nIt is 4.\n</think>\n\n4"
    for text in ("<think>\nIt is 4.\n</think>\n\n4", "<think>It is 4.\n</think>\n\n4", "It is 4.\n</think>\n\n4"):
        assert opening.encode_completion(before, text) == written[:-1]
    closed = codec(THINKING_CHATML, enable_thinking=False)
    assert closed.opening(closed.encode(ASKED)) == ""
    assert closed.completion(closed.encode(ASKED), written[:3]) == closed.decode(written[:3])
    asks_about_tags = prompt(("user", "What is <think>"))
    assert codec().opening(codec().encode(asks_about_tags)) == "", "the template goes on after the data"


MORE_ENDS = CHATML.replace("<|im_end|>", "<|vision_end|>")
NO_ENDS = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
GLM = NO_ENDS.replace("'<|' + m.role + '|>'", "('<|vision_start|>' if m.role == 'user' else '<|vision_end|>')")
LAST_ONLY = (
    "{% for m in messages %}{{ '<|im_start|>' + m.content + ('<|im_end|>' if m.role == 'assistant' and loop.last else "
    "'<|image_pad|>') }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "ends", "end"),
    [
        (CHATML, None, "<|im_end|>"),
        (MORE_ENDS, ["<|vision_end|>", "<|endoftext|>"], "<|vision_end|>"),
        (GLM, ["<|vision_start|>"], "<|vision_start|>"),
        (LAST_ONLY, None, "<|im_end|>"),
        (NO_ENDS, ["<|endoftext|>"], "<|im_end|>"),
        (None, ["<|endoftext|>"], "<|im_end|>"),
    ],
)
def test_examples_end_as_the_template_ends_a_turn(
    template: Any, ends: list[str] | None, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In order: the tokenizer's own token; another one, as Gemma's; the next turn's first token, as GLM's; the last turn's
    alone, as gpt-oss'; and the tokenizer's where the template has none."""
    found = codec(template, ends)
    assert found.end_id in found.eos_ids
    assert found.tokenizer.convert_ids_to_tokens(found.end_id) == end
    with caplog.at_level(logging.WARNING):
        found.encode(ASKED)
    assert not caplog.records


def test_a_turn_that_ends_where_generation_does_not_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    base = codec(MORE_ENDS)
    with caplog.at_level(logging.WARNING):
        base.encode(ASKED)
        base.encode(ASKED)
    (record,) = caplog.records
    assert "ends turns with '<|vision_end|>', at which generation does not end" in record.message
    assert str(base.tokenizer.convert_tokens_to_ids("<|vision_end|>")) in record.message
    assert base.end_id == base.tokenizer.eos_token_id


def test_a_template_that_writes_the_date_is_warned_of_until_the_date_is_fixed(caplog: pytest.LogCaptureFixture) -> None:
    dated = "{% if date_string is not defined %}{% set date_string = strftime_now('%Y') %}{% endif %}{{ date_string }}" + CHATML
    with caplog.at_level(logging.WARNING):
        codec(dated, date_string="26 Jul 2024").encode(ASKED)
        assert not caplog.records
        codec(dated).encode(ASKED)
    assert "may write today's date into prompts" in caplog.text
    assert "such as {date_string: 26 Jul 2024}" in caplog.text
