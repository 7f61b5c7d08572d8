"""Runs with adapters: only they move, checkpoints hold only them, and the final model says what the policy says."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from adapted import TEXTS, frozen_bytes
from letters import LettersEnvironment
from needs import require
from safetensors.torch import load_file

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.learner.learner import Learner
from verigym.trainer.logprobs.forward import ForwardOptions, autocast, row_logprobs
from verigym.trainer.logprobs.shared_prefix import shareable
from verigym.trainer.loop import train
from verigym.trainer.models import lora
from verigym.trainer.models.loading import load_model

CPU = torch.device("cpu")
BASES = [("fp32", "fp32"), ("fp32", "bf16"), ("bf16", "bf16"), ("4bit", "bf16")]
"""How the base is held, and what is computed in."""


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def settings(folder: Path, model: Path, **fields: Any) -> Any:
    base: dict[str, Any] = {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [{"environment": "letters"}],
        "seed": 4,
        "steps": 4,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 8,
        "learning_rate": 0.02,
        "warmup_steps": 0,
        "kl_coef": 0.05,
        "updates_per_step": 2,
        "lora_rank": 4,
        "checkpoint_every": 1,
        "eval_every": 0,
        "loggers": [],
        "threads": 1,
        "workers": 0,
        "device": "cpu",
    }
    return build_config(base | fields, "test")


def run(folder: Path, model: Path, **fields: Any) -> list[dict[str, float]]:
    train(settings(folder, model, **fields), {"letters": LettersEnvironment()})
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows if row["kind"] == "train"]


def logps(model: Any, dtype: str = "fp32") -> torch.Tensor:
    prompts, completions = zip(*TEXTS, strict=True)
    with torch.no_grad():
        return row_logprobs(model, prompts, completions, ForwardOptions(pad_id=0, dtype=dtype)).logp_BT


def needs_bitsandbytes(base: str) -> None:
    if base == "4bit":
        require("bitsandbytes")


@pytest.mark.parametrize(("base", "dtype"), BASES, ids=str)
@pytest.mark.slow
def test_a_run_trains_the_adapters_alone(base: str, dtype: str, model_folder: Path, tmp_path: Path) -> None:
    needs_bitsandbytes(base)
    rows = run(tmp_path, model_folder, lora_base=base, dtype=dtype, steps=2)
    assert all(row["grad_norm"] > 0 for row in rows)
    assert rows[-1]["kl"] > 0
    assert all(row["logprob_mismatch"] < (1e-5 if dtype == "fp32" else 0.15) for row in rows), rows

    folder = tmp_path / "out/checkpoints/step-00000002"
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert names == ["adapter.safetensors", "optimizer.pt", "state.json", "work.json"]
    adapter = load_file(folder / "adapter.safetensors")
    assert len(adapter) == 28
    assert all(tensor.dtype == torch.float32 and tensor.any() for tensor in adapter.values())
    state = torch.load(folder / "optimizer.pt", weights_only=True)["state"]
    assert len(state) == 28

    learner = Learner(settings(tmp_path, model_folder, lora_base=base, dtype=dtype), folder)
    policy = learner.model
    assert learner.objective.reference == lora.WithoutAdapter(policy), "no second model for the KL"
    fresh, _ = lora.load_base(settings(tmp_path, model_folder, lora_base=base, dtype=dtype), model_folder, CPU)
    untouched = {f"base_model.model.{name}": values for name, values in frozen_bytes(fresh).items()}
    assert {name.replace(".base_layer", ""): values for name, values in frozen_bytes(policy).items()} == untouched
    assert shareable(policy), "prompts run once a group with any base"


@pytest.mark.parametrize(("base", "dtype"), BASES[::3], ids=str)
@pytest.mark.slow
def test_the_final_model_says_what_the_policy_says(base: str, dtype: str, model_folder: Path, tmp_path: Path) -> None:
    needs_bitsandbytes(base)
    run(tmp_path, model_folder, lora_base=base, dtype=dtype, steps=2)
    config = settings(tmp_path, model_folder, lora_base=base, dtype=dtype)
    policy = Learner(config, tmp_path / "out/checkpoints/step-00000002").model
    final, tokenizer = load_model(tmp_path / "out/final", CPU)
    assert type(final).__name__ == "Qwen3ForCausalLM" and tokenizer.eos_token_id is not None
    assert getattr(final.config, "quantization_config", None) is None
    assert isinstance(final.generation_config.eos_token_id, list), "the tokens that end a completion are kept"
    assert {parameter.dtype for parameter in final.parameters()} == {torch.float32}
    with autocast(CPU, dtype):
        gap = (logps(final, dtype) - logps(policy, dtype)).abs().max()
    assert gap < (1e-5 if dtype == "fp32" else 0.25)
    start, _ = load_model(model_folder, CPU)
    assert (logps(final) - logps(start)).abs().max() > 0.01

    require("peft")
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an attribute of transformers that peft asks for
        beside = peft.PeftModel.from_pretrained(start, tmp_path / "out/final/adapter")
    if base == "fp32":
        assert (logps(beside) - logps(policy)).abs().max() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{}, {"optimizer": "adamw_8bit", "lora_rank": 160}, {"lora_base": "4bit", "dtype": "bf16"}],
    ids=["fp32", "8-bit AdamW", "4 bits"],
)
def test_stopped_it_goes_on_to_the_same_bytes(fields: dict[str, Any], model_folder: Path, tmp_path: Path) -> None:
    if fields:
        require("bitsandbytes")
    (tmp_path / "whole").mkdir(), (tmp_path / "parts").mkdir()
    whole = run(tmp_path / "whole", model_folder, **fields)
    for steps in (1, 3, 4):
        parts = run(tmp_path / "parts", model_folder, steps=steps, **fields)
    assert parts == whole
    for name in ("final/model.safetensors", "checkpoints/step-00000004/adapter.safetensors"):
        assert (tmp_path / "parts/out" / name).read_bytes() == (tmp_path / "whole/out" / name).read_bytes()
    if "optimizer" in fields:
        kept = torch.load(tmp_path / "parts/out/checkpoints/step-00000004/optimizer.pt", weights_only=True)["state"]
        dtypes = {part.dtype for state in kept.values() for part in _tensors(state) if part.numel() > 4096}
        assert dtypes == {torch.uint8}


def _tensors(state: Any) -> list[torch.Tensor]:
    if isinstance(state, dict):
        return [tensor for part in state.values() for tensor in _tensors(part)]
    return [state] if isinstance(state, torch.Tensor) else []


def test_a_base_of_fewer_bits_asks_for_bf16(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lora_base bf16 computes in bfloat16; set dtype to bf16"):
        settings(tmp_path, model_folder, lora_base="bf16")
    with pytest.raises(UsageError, match="no field 'lora_dropout'|lora_dropout"):
        settings(tmp_path, model_folder, lora_dropout=0.1)
