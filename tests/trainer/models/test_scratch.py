"""The tokenizer and the model made from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer

SIZES: dict[str, Any] = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64}
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def pieces(tokenizer: Any, text: str) -> list[str]:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return [tokenizer.decode([token]) for token in ids]


@given(ANY_TEXT)
@example("")
@example("  two  spaces \t\n\r\n ")
@example("<think>1 , 2 .</think>\\boxed{3}<eos>")
@example("\x00\u0301\u2028\U0001f600")
def test_any_text_comes_back_unchanged(tiny_tokenizer: Any, text: str) -> None:
    ids = tiny_tokenizer.encode(text, add_special_tokens=False)
    assert tiny_tokenizer.decode(ids, skip_special_tokens=False) == text
    assert all(0 <= token < len(tiny_tokenizer) for token in ids)


def test_a_digit_is_always_a_token_of_its_own(tiny_tokenizer: Any) -> None:
    assert pieces(tiny_tokenizer, "12+34=4628") == list("12+34=4628")
    # Even digits that were always seen together.
    often = scratch_tokenizer(["2024 2024 2024"] * 50, vocabulary_size=400)
    assert pieces(often, "2024") == list("2024")


def test_markup_is_one_token_whole(tiny_tokenizer: Any) -> None:
    assert pieces(tiny_tokenizer, "<think>6</think>\\boxed{4}") == ["<think>", "6", "</think>", "\\boxed{", "4", "}"]


def test_the_same_texts_give_the_same_tokenizer() -> None:
    texts = ["Ann has 3 apples.", "Bob gets 4 more.", "12+34=?"]
    a, b = (scratch_tokenizer(texts, vocabulary_size=300) for _ in range(2))
    assert a.get_vocab() == b.get_vocab()
    assert len(a) <= 300
    assert (a.pad_token_id, a.eos_token_id) == (0, 1)


def test_the_chat_template_is_the_text_and_a_line_break(tiny_tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "Be brief. "}, {"role": "user", "content": "2+2=?"}]
    apply = tiny_tokenizer.apply_chat_template
    assert apply(messages, add_generation_prompt=True, tokenize=False) == "Be brief. 2+2=?\n"
    assert apply(messages, tokenize=False) == "Be brief. 2+2=?"


def weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_weights_depend_on_the_seed_alone(tiny_tokenizer: Any) -> None:
    first = weights(scratch_qwen3(tiny_tokenizer, seed=1, **SIZES))
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    again = weights(scratch_qwen3(tiny_tokenizer, seed=1, **SIZES))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, weights(scratch_qwen3(tiny_tokenizer, seed=2, **SIZES)))


def test_the_random_state_is_put_back_when_the_model_cannot_be_made(tiny_tokenizer: Any) -> None:
    before = torch.random.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        scratch_qwen3(tiny_tokenizer, **{**SIZES, "heads": 0})
    assert torch.equal(torch.random.get_rng_state(), before)


def test_transformers_loads_what_was_saved(tiny_tokenizer: Any, tmp_path: Path) -> None:
    model = scratch_qwen3(tiny_tokenizer, seed=1, **SIZES)
    model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert torch.equal(weights(loaded), weights(model))
    assert loaded.generation_config.eos_token_id == tiny_tokenizer.eos_token_id
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "<think>2 + 4</think>\\boxed{46} \u00e9"
    assert tokenizer.encode(text) == tiny_tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.chat_template == tiny_tokenizer.chat_template
