"""The codec: where a completion ends, what surrounds a prompt, and texts that no tokenizer takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import GenerationConfig

from verigym.envs import Message, Prompt, load
from verigym.trainer.models.codec import Codec


def prompt(text: str, system: str = "") -> Prompt:
    messages = [Message(role="user", content=text)]
    if system:
        messages.insert(0, Message(role="system", content=system))
    return load("format").prompt(messages)


@pytest.mark.parametrize(("given_ids", "expected"), [(None, {1}), (5, {1, 5}), ([5, 7], {1, 5, 7}), ([1], {1})])
def test_every_end_of_the_model_and_of_the_tokenizer_counts(given_ids: Any, expected: set[int], tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer, GenerationConfig(eos_token_id=given_ids))
    assert codec.eos_ids == expected
    assert Codec(tiny_tokenizer).eos_ids == {1}


def test_padding_falls_back_to_an_end_token(tiny_tokenizer: Any) -> None:
    assert Codec(tiny_tokenizer).pad_id == 0
    without = copy.deepcopy(tiny_tokenizer)
    without.pad_token = None
    assert Codec(without, GenerationConfig(eos_token_id=[9, 7])).pad_id == 1
    without.eos_token = None
    assert Codec(without, GenerationConfig(eos_token_id=[9, 7])).pad_id == 7
    codec = Codec(without)
    assert (codec.eos_ids, codec.pad_id) == (frozenset(), 0)


def test_only_the_last_end_token_is_taken_off(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer, GenerationConfig(eos_token_id=[1, tiny_tokenizer.convert_tokens_to_ids("}")]))
    box = codec.encode_text("\\boxed{46}")
    assert codec.decode(box) == "\\boxed{46"
    assert codec.decode([*box, 1]) == "\\boxed{46}"
    assert codec.decode([*box, 1, 1]) == "\\boxed{46}<eos>"
    assert codec.decode([]) == ""
    assert codec.decode([1]) == ""


def test_a_prompt_goes_through_the_chat_template(tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    ids = codec.encode(prompt("2+2=?", "Be brief. "))
    assert tiny_tokenizer.decode(ids) == "Be brief. 2+2=?\n"


def test_a_tokenizer_without_a_template_gets_the_text_and_a_line_break(tiny_tokenizer: Any) -> None:
    plain = copy.deepcopy(tiny_tokenizer)
    plain.chat_template = None
    assert plain.decode(Codec(plain).encode(prompt("2+2=?", "Be brief."))) == "Be brief.\n2+2=?\n"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_completion_comes_back(tiny_tokenizer: Any, text: str) -> None:
    codec = Codec(tiny_tokenizer)
    assert codec.decode([*codec.encode_text(text), 1]) == text


def test_lone_surrogates_become_replacement_characters(tiny_tokenizer: Any) -> None:
    plain = copy.deepcopy(tiny_tokenizer)
    plain.chat_template = None
    for tokenizer in (tiny_tokenizer, plain):
        assert tokenizer.decode(Codec(tokenizer).encode(prompt("a\ud800b \udfff"))) == "a\ufffdb \ufffd\n"
    codec = Codec(tiny_tokenizer)
    assert codec.decode(codec.encode_text("a\ud800b")) == "a\ufffdb"
    assert codec.decode(codec.encode_text("\ud83d\ude00")) == "\U0001f600"
