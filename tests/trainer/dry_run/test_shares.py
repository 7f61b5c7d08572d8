"""Parameters of published models from their shapes alone, and the memory of each of several processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from verigym.cli import main
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.estimate import model_shape
from verigym.trainer.dry_run.formulas import ModelShape
from verigym.trainer.dry_run.shares import plan_memory, process_memory

QWEN25: dict[str, Any] = {"vocab_size": 151936, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6}
PUBLISHED: dict[str, tuple[Any, int, float]] = {
    # config.json of the model; the number of parameters that follows from it by hand; the model card's, in billions
    "Qwen2.5-0.5B": (
        transformers.Qwen2Config(
            **QWEN25, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
            num_key_value_heads=2, tie_word_embeddings=True,
        ),
        494_032_768,
        0.49,
    ),
    "Qwen2.5-1.5B": (
        transformers.Qwen2Config(
            **QWEN25, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
            num_key_value_heads=2, tie_word_embeddings=True,
        ),
        1_543_714_304,
        1.54,
    ),
    "Qwen2.5-7B": (
        transformers.Qwen2Config(
            **QWEN25 | {"vocab_size": 152064}, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
            num_attention_heads=28, num_key_value_heads=4, tie_word_embeddings=False,
        ),
        7_615_616_512,
        7.62,
    ),
    "Llama-3.1-8B": (
        transformers.LlamaConfig(
            vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
            num_key_value_heads=8, max_position_embeddings=131072, tie_word_embeddings=False,
        ),
        8_030_261_248,
        8.03,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelShape]:
    found = {}
    for name, (config, _, _) in PUBLISHED.items():
        folder = tmp_path_factory.mktemp(name)
        config.save_pretrained(folder)
        found[name] = model_shape(str(folder), AdapterFields())
    return found


def run(model: str | Path = "m", **fields: Any) -> TrainConfig:
    base: dict[str, Any] = {"model": str(model), "output": Path("o"), "sources": (SourceConfig(environment="arithmetic"),)}
    return TrainConfig(**base | fields)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_model_card(name: str, shapes: dict[str, ModelShape]) -> None:
    _, exact, card = PUBLISHED[name]
    assert shapes[name].parameters == exact
    assert round(exact / 1e9, 2) == card
    layers = PUBLISHED[name][0].num_hidden_layers
    assert shapes[name].ends + layers * shapes[name].layer == exact


def test_seven_billion_in_fp32_by_hand(shapes: dict[str, ModelShape]) -> None:
    shape = shapes["Qwen2.5-7B"]
    size, ends, layer = 7_615_616_512, 2 * 152064 * 3584 + 3584, 233_057_792
    assert (shape.ends, shape.layer) == (ends, layer)
    alone = process_memory(shape, run(kl_coef=0.1), 1)
    assert (alone.weights, alone.gradients, alone.optimizer, alone.reference) == (4 * size, 4 * size, 8 * size, 4 * size)
    eight = process_memory(shape, run(kl_coef=0.1), 8)
    assert (eight.weights, eight.gradients) == (4 * size + size // 2, 4 * size + size // 2)
    assert (eight.optimizer, eight.reference) == (size, size // 2)
    full = process_memory(shape, run(kl_coef=0.1, shard="full"), 8)
    assert full.weights == full.gradients == size // 2 + 4 * (ends + 2 * layer)
    assert (full.optimizer, full.reference) == (size, size // 2)
    assert (full.standing // 10**9, eight.standing // 10**9, alone.standing // 10**9) == (31, 79, 152), "gigabytes"
    assert full.checkpoints == eight.checkpoints == alone.checkpoints


def test_what_is_not_divided(shapes: dict[str, ModelShape]) -> None:
    shape, size = shapes["Qwen2.5-0.5B"], 494_032_768
    critic = process_memory(shape, run(advantage="gae"), 4)
    assert critic.critic == 8 * size + 4 * size
    assert process_memory(shape, run(advantage="gae", shard="full"), 4).critic == 4 * size, (
        "its layers run when the policy's do not"
    )
    adapted = ModelShape(**{**shape.__dict__, "trained": (1000,)})
    needs = process_memory(adapted, run(lora_rank=8), 4)
    assert (needs.weights, needs.gradients, needs.optimizer) == (4 * size + 4000, 4000, 8000), "each process holds all of it"
    ends, layer = shape.ends, shape.layer
    needs = process_memory(adapted, run(lora_rank=8, shard="full"), 4)
    assert (needs.weights, needs.gradients, needs.optimizer) == (size + 4 * (ends + 2 * layer) + 4000, 4000, 8000)
    small = {"shard": "full", "dtype": "bf16", "gradient_checkpointing": True, "lora_rank": 8}
    wide = process_memory(adapted, run(**small), 4)
    assert wide.weights == size + 4 * (ends + 2 * layer) + 2 * (ends + layer) + 6000
    assert process_memory(adapted, run(**small, lora_base="bf16"), 4).weights == size // 2 + 2 * (ends + 2 * layer) + 6000
    assert process_memory(adapted, run(**small, advantage="gae"), 4).critic == 4 * size
    half = process_memory(shape, run(shard="full", dtype="bf16", gradient_checkpointing=True), 4)
    whole = process_memory(shape, run(shard="full"), 4)
    assert half.weights - whole.weights == 2 * (shape.ends + shape.layer), "bfloat16 copies of what runs"


def test_a_process_decodes_its_share_of_the_prompts(shapes: dict[str, ModelShape]) -> None:
    shape = shapes["Qwen2.5-0.5B"]
    one, four = (process_memory(shape, run(prompts_per_step=16, group_size=8), n).kv_cache for n in (1, 4))
    assert one == 4 * four
    assert (
        process_memory(shape, run(prompts_per_step=5), 4).kv_cache
        == 2 * process_memory(shape, run(prompts_per_step=1), 1).kv_cache
    )


def test_the_command_needs_no_weights(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    PUBLISHED["Qwen2.5-7B"][0].save_pretrained(tmp_path / "model")
    path = tmp_path / "run.yaml"
    path.write_text(
        f"model: {tmp_path / 'model'}\noutput: {tmp_path / 'out'}\nsources: [{{environment: arithmetic}}]\nshard: full\n"
    )
    assert main(["train", "--config", str(path), "--dry-run", "--processes", "8", "--json"]) == 0
    out, _ = capfd.readouterr()
    figures = json.loads(out)
    expected = plan_memory(run(tmp_path / "model", output=tmp_path / "out", shard="full"), 8)[1]
    assert expected.items() <= figures.items()
    assert main(["train", "--config", str(path), "--processes", "8"]) == 2
    assert "--processes is about --dry-run; start a run of several processes by torchrun" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
