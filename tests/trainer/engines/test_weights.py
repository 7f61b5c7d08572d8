"""What is pushed to an engine is what the policy's own checkpoints would hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from needs import require
from safetensors.torch import load_file

from verigym.trainer.config.run import build_config
from verigym.trainer.engines.weights import policy_weights, write_weights
from verigym.trainer.models.lora import add_adapter, export_policy

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def read(files: list[Path]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for file in files:
        part = load_file(file)
        assert not part.keys() & found.keys()
        found |= part
    return found


def test_they_have_the_names_and_values_of_a_checkpoint(policy: Any, tmp_path: Path) -> None:
    policy.save_pretrained(tmp_path / "saved")
    saved = load_file(tmp_path / "saved/model.safetensors")
    found = dict(policy_weights(policy))
    assert torch.equal(found[HEAD], found[EMBEDDING]), "tied weights come under both names"
    assert found.keys() - saved.keys() <= {HEAD, EMBEDDING}
    assert all(torch.equal(found[name], value) for name, value in saved.items())


@pytest.mark.parametrize("part_bytes", [1, 10_000, 2**30])
def test_files_hold_them_all_at_any_size(part_bytes: int, policy: Any, tmp_path: Path) -> None:
    files = write_weights(policy, tmp_path / "weights", torch.float32, part_bytes)
    assert sorted((tmp_path / "weights").iterdir()) == files
    found = read(files)
    assert found.keys() == dict(policy_weights(policy)).keys()
    assert all(torch.equal(found[name], value) for name, value in policy_weights(policy))
    assert len(files) == {1: len(found), 2**30: 1}.get(part_bytes, len(files))
    if part_bytes == 10_000:
        assert 1 < len(files) < len(found)


def test_files_have_the_engines_dtype(policy: Any, tmp_path: Path) -> None:
    found = read(write_weights(policy, tmp_path / "weights", torch.bfloat16))
    assert {value.dtype for value in found.values()} == {torch.bfloat16}
    assert all(value.dtype == torch.float32 for value in policy.state_dict().values())


@pytest.mark.slow
def test_adapters_are_merged_in_and_the_policy_stays_as_it_is(policy: Any, tiny_tokenizer: Any, tmp_path: Path) -> None:
    require("peft")
    policy.save_pretrained(tmp_path / "base")
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    fields = {"model": "m", "output": "o", "sources": [{"environment": "letters"}], "lora_rank": 4}
    adapted = add_adapter(base, build_config(fields, "test"), 0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if ".lora_B." in name:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    before = {name: value.clone() for name, value in adapted.state_dict().items()}
    found = dict(policy_weights(adapted))
    export_policy(adapted, tmp_path / "exported")
    saved = load_file(tmp_path / "exported/model.safetensors")
    assert all(torch.equal(found[name], value) for name, value in saved.items())
    assert torch.equal(found[HEAD], found[EMBEDDING])
    assert not any("lora" in name or "base_layer" in name or "base_model" in name for name in found)
    name = "model.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(found[name], policy.state_dict()[name]), "the adapter is in it"
    assert all(torch.equal(value, before[name]) for name, value in adapted.state_dict().items())
