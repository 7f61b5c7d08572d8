"""The chat templates of twelve families: prompts as transformers writes them, what they open, and where turns end.

The tokenizer is trained here; it has the control tokens of the family, and its generation ends where the family's does.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import pytest
from qwen_like import qwen_like_tokenizer
from tokenizers import AddedToken
from transformers import GenerationConfig

from verigym.envs import Message, UsageError, load
from verigym.envs.extraction.methods import strip_thinking
from verigym.trainer.models.chat_template import variables
from verigym.trainer.models.codec import Codec
from verigym.trainer.stages.examples import Example, to_pairs

pytestmark = pytest.mark.slow


class Family(NamedTuple):
    """A template with the values of its variables, and what is expected of it."""

    template: str
    ends: tuple[str, ...]
    """As generation_config.json lists them; the first is the tokenizer's own."""
    end: str
    """The one that ends a turn."""
    opening: str = ""
    kwargs: dict[str, Any] = {}  # noqa: RUF012
    system: bool = True


CHATML = ("<|im_end|>", "<|endoftext|>")
LLAMA = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
DEEPSEEK = ("<｜end▁of▁sentence｜>",)
GLM = ("<|endoftext|>", "<|user|>", "<|observation|>")
GPT_OSS = ("<|return|>", "<|endoftext|>", "<|call|>")
PHI = ("<|endoftext|>", "<|assistant|>", "<|end|>")
OFF, ON = {"enable_thinking": False}, {"enable_thinking": True}
FAMILIES = (
    Family("qwen2_5", CHATML, "<|im_end|>"),
    Family("qwen3", CHATML, "<|im_end|>"),
    Family("qwen3", CHATML, "<|im_end|>", kwargs=OFF),
    Family("qwen3_5_think", CHATML, "<|im_end|>", "<think>\n"),
    Family("qwen3_5_think", CHATML, "<|im_end|>", kwargs=OFF),
    Family("qwen3_5_nothink", CHATML, "<|im_end|>", "<think>\n", kwargs=ON),
    Family("llama3", LLAMA, "<|eot_id|>"),
    Family("llama3_1", LLAMA, "<|eot_id|>", kwargs={"date_string": "1 May 2025"}),
    Family("llama3_2", LLAMA, "<|eot_id|>", kwargs={"date_string": "1 May 2025"}),
    Family("gemma", ("<eos>", "<end_of_turn>"), "<end_of_turn>", system=False),
    Family("gemma3", ("<eos>", "<end_of_turn>"), "<end_of_turn>"),
    Family("gemma4", ("<eos>", "<turn|>"), "<turn|>", kwargs=ON),
    Family("phi3", PHI, "<|end|>"),
    Family("phi3_5", PHI, "<|end|>"),
    Family("deepseek_r1_distill", DEEPSEEK, DEEPSEEK[0], "<think>\n"),
    Family("deepseekv3", DEEPSEEK, DEEPSEEK[0], "<think>\n"),
    Family("glm4moe", GLM, "<|user|>"),
    Family("glm4moe", GLM, "<|user|>", kwargs=OFF),
    Family("gptoss", GPT_OSS, "<|return|>", kwargs={"reasoning_effort": "low"}),
    Family("cohere", ("<|END_OF_TURN_TOKEN|>",), "<|END_OF_TURN_TOKEN|>"),
    Family("lfm2", CHATML, "<|im_end|>"),
    Family("nemotron_3_nano", CHATML, "<|im_end|>", "<think>\n"),
    Family("nemotron_3_nano", CHATML, "<|im_end|>", kwargs=OFF),
    Family("muse_glimmer", ("<|eot|>",), "<|eot|>", kwargs={"current_date": "1 May 2025"}),
)
DATED = ("gptoss",)
"""Those whose date nobody can set."""
USER = Message(role="user", content="What is 2+2?")
THOUGHT = "<think>\nTwo and two.\n</think>\n\nIt is \\boxed{4}"


def tokenizer_of(family: Family, template: str) -> Any:
    tokenizer = qwen_like_tokenizer([USER.content, THOUGHT], template=template)
    tokenizer.add_tokens([AddedToken(end, special=True, normalized=False) for end in family.ends])
    tokenizer.bos_token, tokenizer.eos_token = "<|endoftext|>", family.ends[0]
    return tokenizer


def codec_of(family: Family, template: str, **more: Any) -> Codec:
    tokenizer = tokenizer_of(family, template)
    ends = GenerationConfig(eos_token_id=[tokenizer.convert_tokens_to_ids(end) for end in family.ends])
    return Codec(tokenizer, ends, {**family.kwargs, **more})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: f"{one.template}-{'-'.join(map(str, one.kwargs.values()))}")
def test_a_family(family: Family, real_templates: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    template = real_templates[family.template]
    codec = codec_of(family, template)
    with caplog.at_level(logging.WARNING):
        before = codec.encode(load("math").prompt([USER], answer="4"))
    assert [record.message for record in caplog.records if "today's date" not in record.message] == []
    assert bool(caplog.records) is (family.template in DATED)

    message = [USER.model_dump()]
    ids = codec.tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True, **family.kwargs)
    assert before == tuple(ids["input_ids"]), "as transformers has it, with one beginning of the sequence"
    assert codec.opening(before) == family.opening
    assert codec.tokenizer.convert_ids_to_tokens(codec.end_id) == family.end

    (pair,) = to_pairs([Example((USER,), THOUGHT)], codec)
    assert pair.prompt_ids == before
    assert pair.token_ids[-1] == codec.end_id
    assert not codec.eos_ids & set(pair.token_ids[:-1])
    assert codec.completion(before, pair.token_ids) == THOUGHT
    learned = codec.tokenizer.decode([*before, *pair.token_ids])
    assert learned.endswith(f"{THOUGHT}{family.end}"), "the thought opens once, whoever opens it"
    unfinished = codec.completion(before, codec.encode_text("It may be \\boxed{5}"))
    assert (strip_thinking(unfinished) is None) is bool(family.opening)

    system = load("math").prompt([Message(role="system", content="Be brief."), USER], answer="4")
    if family.system:
        assert "Be brief." in codec.tokenizer.decode(codec.encode(system))
    else:
        with pytest.raises(UsageError, match="refuses a prompt: System role not supported"):
            codec.encode(system)
    with pytest.raises(UsageError, match="does not use 'enable_thoughts'"):
        codec_of(family, template, enable_thoughts=False)


def test_every_template_says_what_it_takes(real_templates: dict[str, str]) -> None:
    taken = {name: variables(text) - {"messages", "tools", "add_generation_prompt"} for name, text in real_templates.items()}
    assert len(taken) > 60
    assert {name for name, names in taken.items() if "enable_thinking" in names} >= {"qwen3", "glm4moe", "gemma4", "qwen3_8"}
    # What templates only set for themselves is nobody's to set.
    assert not {"content", "reasoning_content", "loop_messages", "ns", "role"} & set().union(*taken.values())
