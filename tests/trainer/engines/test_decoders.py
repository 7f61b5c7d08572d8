"""The quick decoder gives the logits of the model's own modules, whatever rows come and go; other models get the plain one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from verigym.trainer.engines.native import decoders
from verigym.trainer.engines.native.decoders import PlainDecoder, SharedDecoder, build_decoder, decodable
from verigym.trainer.logprobs.forward import autocast
from verigym.trainer.rng import keyed_random, keyed_uniforms

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPE = {**LLAMA3, "original_max_position_embeddings": 16}


def made(model: Any) -> Any:
    """Give every parameter values that matter, biases and norms too."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_((keyed_uniforms(parameter.numel(), name) - 0.5).reshape(parameter.shape) + ("norm" in name))
    return model.eval()


def models(tiny_model: Any) -> dict[str, Any]:
    return {
        "qwen3": copy.deepcopy(tiny_model),
        "qwen2 with biases and shared key heads": made(Qwen2ForCausalLM(Qwen2Config(**SIZES))),
        "llama with scaled positions": made(LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=ROPE))),
        "llama with every bias": made(LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True))),
    }


def test_logits_are_the_modules_own_while_rows_come_and_go(tiny_model: Any, assert_same: Any) -> None:
    for name, model in models(tiny_model).items():
        model = model.double()
        assert decodable(model), name
        decoder = build_decoder(model, 40, 20, 0)
        assert isinstance(decoder, SharedDecoder)
        random = keyed_random("rows", 1)
        prompts = [[5, 6, 7, 8, 9], [10, 11], [12], [13, 14, 15]]
        live = [[*prompts[p]] for p in (0, 0, 0, 1, 2, 2)]
        logits = decoder.add([(p, prompts[p]) for p in (0, 0, 0, 1, 2, 2)])
        for step in range(10):
            for row, ids in zip(logits, live, strict=True):
                with torch.no_grad():
                    assert_same(row.detach(), model(torch.tensor([ids])).logits[0, -1])
            if step in (1, 2, 5):
                gone = {1: [0, 3], 2: [1, 3], 5: [0, 1]}[step]
                live = [live[number] for number in decoder.remove(gone)]
            tokens = [random.randrange(1, 50) for _ in live]
            with torch.no_grad():
                logits = decoder.step(torch.tensor(tokens))
            live = [[*ids, token] for ids, token in zip(live, tokens, strict=True)]
            if step in (1, 4):  # one prompt that is new, and one that is there or was there
                with torch.no_grad():
                    logits = torch.cat([logits, decoder.add([(3, prompts[3]), (0, prompts[0])])])
                live += [[*prompts[3]], [*prompts[0]]]


def test_a_prompt_is_held_once_and_only_as_long_as_it_has_rows(tiny_model: Any) -> None:
    decoder = SharedDecoder(tiny_model, 40, 0)
    with torch.no_grad():
        decoder.add([(p, [5, 6, 7]) for p in (0, 0, 0, 1)])
    assert decoder.cache._prompts[0].shape[1] == 2
    assert decoder.cache.layout.names == [0, 1]
    decoder.remove([0, 1, 2])
    assert decoder.cache.layout.names == [1]


def test_weights_are_those_of_the_moment(tiny_model: Any) -> None:
    model = copy.deepcopy(tiny_model)
    rows = [(0, [5, 6, 7])]
    with torch.no_grad():
        for factor in (1.0, 0.5):
            for parameter in model.parameters():
                parameter.mul_(factor)
            quick, plain = build_decoder(model, 8, 4, 0), PlainDecoder(model, 0, 4)
            quick.add(rows), plain.add(rows)
            torch.testing.assert_close(quick.step(torch.tensor([4])), plain.step(torch.tensor([4])), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", ["windows", "kind", "positions", "half precision"])
def test_what_is_not_known_is_decoded_plainly(what: str, tiny_model: Any) -> None:
    if what == "windows":
        model: Any = MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4))
    elif what == "positions":
        rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
        model = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope))
    else:
        model = copy.deepcopy(tiny_model)
    if what == "kind":
        model.config.model_type = "another"
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=what == "half precision"):
        assert isinstance(build_decoder(model.eval(), 8, 4, 0), PlainDecoder)


def test_a_model_that_only_looks_known_is_found_out(tiny_model: Any) -> None:
    model = copy.deepcopy(tiny_model)
    model.model.layers[0].register_forward_hook(lambda module, given, out: out * 1.5)
    assert not decodable(model)


@pytest.fixture
def like_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under autocast to bf16 CUDA multiplies with float32 results where asked to, and its log-softmax is float32."""
    multiply, log_softmax = torch.bmm, torch.Tensor.log_softmax

    def bmm(a: torch.Tensor, b: torch.Tensor, *, out_dtype: torch.dtype | None = None) -> torch.Tensor:
        if out_dtype is None:
            return multiply(a, b)
        with torch.autocast("cpu", enabled=False):
            return multiply(a.to(out_dtype), b.to(out_dtype))

    monkeypatch.setattr(torch, "bmm", bmm)
    monkeypatch.setattr(torch.Tensor, "log_softmax", lambda self, dim: log_softmax(self.float(), dim))


def test_bf16_rounds_more_and_is_decodable_all_the_same(like_cuda: None, tiny_model: Any) -> None:
    with autocast(tiny_model.device, "bf16"):
        assert decodable(tiny_model)


def test_bf16_hides_no_wrong_layer(like_cuda: None, tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference that rounding to bf16 would explain, and rounding to float32 does not."""
    found = []
    for strict in (decoders.STRICT, 1.0):
        model = copy.deepcopy(tiny_model)
        model.model.layers[0].register_forward_hook(lambda module, given, out: out * 1.2)
        monkeypatch.setattr(decoders, "STRICT", strict)
        with autocast(model.device, "bf16"):
            found.append(decodable(model))
    assert found == [False, True]
