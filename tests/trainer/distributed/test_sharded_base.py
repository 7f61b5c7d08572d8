"""`lora_rank` with `shard: full`: adapters of each process on a base of which it holds its rows, as one process trains them.

Legend of the folders: `one` was trained by one process and `full` by two with `shard: full`; `KINDS` says what else differs.
`one-full` was begun by one process and ended by two, `full-one` the other way round.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from run_together import compute_exactly, run_all
from safetensors.torch import load_file
from together import STEPS, distance, launch, lives, metrics, rewound, samples, settings, weights

from tests.support.needs import require

LORA: dict[str, Any] = {"lora_rank": 4, "lora_alpha": 8.0, "learning_rate": 1e-2}
SHORT: dict[str, Any] = {**LORA, "steps": 2, "eval_every": 0}
ALONE = {"dynamic_sampling": False, "curriculum": False, "replay_share": 0.0}
LAST = ["layers.1.self_attn.q_proj", "layers.1.mlp.down_proj"]
"""So that the backward pass ends before the first layer."""
KINDS: dict[str, dict[str, Any]] = {
    "earlier": LORA,  # with `reference_every`
    "initial": {**SHORT, "reference_every": 0, "lora_targets": LAST, "engine": "transformers"},
    "critic": {**SHORT, **ALONE, "advantage": "gae", "kl_place": "reward", "gradient_checkpointing": True},
}
HALVES: dict[str, dict[str, Any]] = {
    "half": {**SHORT, "dtype": "bf16", "lora_base": "bf16"},
    "wide": {**SHORT, "dtype": "bf16", "gradient_checkpointing": True, "lora_rank": 160, "optimizer": "adamw_8bit"},
}
FULL = {"shard": "full"}
BOUND = 1e-8
"""Largest difference of a weight in float64."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Runs of each kind by one process and by two, and some that another number of processes ended."""
    require("peft")
    require("bitsandbytes")
    root = tmp_path_factory.mktemp("runs")
    one = [settings(root / kind / "one", model_folder, **changes) for kind, changes in KINDS.items()]
    full = [settings(root / kind / "full", model_folder, **changes, **FULL) for kind, changes in KINDS.items()]
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        for name, changes in HALVES.items():
            one.append(settings(root / name / "one/plain", model_folder, **changes))
            full.append(settings(root / name / "full/plain", model_folder, **changes, **FULL))
        run_all(*one)
        full.append(rewound(root / "earlier/one", root / "earlier/one-full", 3, model_folder, **LORA, **FULL))
        done = launch(*full)
        assert done.returncode == 0, done.stderr[-3000:]
        run_all(rewound(root / "earlier/full", root / "earlier/full-one", 3, model_folder, **LORA))
        done = launch(rewound(root / "earlier/full", root / "earlier/full-three", 3, model_folder, **LORA, **FULL), processes=3)
        assert done.returncode == 0, done.stderr[-3000:]
    return root


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_and_logs_are_those_of_one_process(kind: str, runs: Path, model_folder: Path) -> None:
    before = load_file(model_folder / "model.safetensors")
    assert max(float((weights(runs / kind / "full")[name] - before[name]).abs().max()) for name in before) > 1e-3
    assert distance(runs / kind / "full", runs / kind / "one") < BOUND
    for rows in ("train", "eval"):
        mine, theirs = (metrics(runs / kind / name, rows) for name in ("full", "one"))
        for row, expected in zip(mine, theirs, strict=True):
            assert row.pop("kind") == expected.pop("kind")
            assert abs(row.pop("logprob_mismatch", 0.0) - expected.pop("logprob_mismatch", 0.0)) < 1e-6
            assert row == pytest.approx(expected, rel=1e-5, abs=1e-8)
    mine, theirs = ([sample["completion"] for sample in samples(runs / kind / name)] for name in ("full", "one"))
    assert mine == theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-full", "full-one", "full-three"])
def test_a_checkpoint_is_read_by_another_number_of_processes(name: str, runs: Path) -> None:
    assert distance(runs / "earlier" / name, runs / "earlier/one") < BOUND
    assert [row["step"] for row in metrics(runs / "earlier" / name)] == [*range(1, STEPS + 1)]


@pytest.mark.slow
def test_the_first_process_writes_the_checkpoint_of_one_process(runs: Path) -> None:
    mine, theirs = (runs / "earlier" / name / "out/checkpoints/step-00000005" for name in ("full", "one"))
    assert sorted(path.name for path in mine.iterdir()) == sorted(path.name for path in theirs.iterdir())
    assert not (mine / "shards").exists()
    for file in ("adapter.safetensors", "reference.safetensors"):
        saved, expected = load_file(mine / file), load_file(theirs / file)
        assert saved.keys() == expected.keys() and all(".lora_" in name for name in saved)
        assert all(saved[name].dtype == tensor.dtype for name, tensor in expected.items())
        assert all(torch.allclose(saved[name], tensor, rtol=0, atol=BOUND) for name, tensor in expected.items())


@pytest.mark.slow
def test_the_final_model_is_the_merged_one(runs: Path) -> None:
    mine, theirs = (runs / "earlier" / name / "out/final" for name in ("full", "one"))
    for folder in (".", "adapter"):
        names, expected = (sorted(path.name for path in (final / folder).iterdir()) for final in (mine, theirs))
        assert names == expected
    for name in ("config.json", "generation_config.json"):
        assert (mine / name).read_text() == (theirs / name).read_text()
    fields, wanted = (json.loads((final / "adapter/adapter_config.json").read_text()) for final in (mine, theirs))
    assert set(fields.pop("target_modules")) == set(wanted.pop("target_modules"))  # peft writes a set, in any order
    assert fields == wanted
    model = transformers.AutoModelForCausalLM.from_pretrained(mine, dtype=torch.float64)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights(runs / "earlier/full").items())


@pytest.mark.slow
@pytest.mark.parametrize("name", HALVES)
def test_in_bfloat16_the_first_step_is_that_of_one_process(name: str, runs: Path) -> None:
    mine, theirs = (metrics(runs / name / number / "plain")[0] for number in ("full", "one"))
    assert mine["completion_tokens"] == theirs["completion_tokens"] and mine["reward"] == theirs["reward"]
    for metric in ("loss", "grad_norm"):
        assert mine[metric] == pytest.approx(theirs[metric], rel=1e-2)
    assert {tensor.dtype for tensor in weights(runs / name / "full/plain").values()} == {torch.float32}


@pytest.mark.slow
def test_stopped_and_killed_it_ends_with_the_same_bytes(runs: Path, model_folder: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, model_folder, **LORA, **FULL)
    stopped = launch(config, SIGNAL="SIGINT:1:1")
    assert stopped.returncode != 0
    assert max(path.name for path in (tmp_path / "out/checkpoints").iterdir()) == "step-00000002"
    done = launch(config, options=["--max-restarts=1"], SIGNAL="SIGKILL:1:3")
    assert done.returncode == 0, done.stderr[-3000:]
    assert lives(tmp_path) == 3, done.stderr[-3000:]
    assert distance(tmp_path, runs / "earlier/full") == 0
    assert metrics(tmp_path) == metrics(runs / "earlier/full")


@pytest.mark.slow
def test_a_process_holds_its_rows_of_the_base_and_all_adapters(tmp_path: Path, tiny_tokenizer: Any) -> None:
    require("peft")
    config = transformers.Qwen3Config(
        vocab_size=len(tiny_tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, tie_word_embeddings=False,
    )  # fmt: skip
    transformers.Qwen3ForCausalLM(config).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    done = launch(tmp_path / "model", tmp_path, script="count_base.py")
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    whole = first["base_whole"]
    assert first["base"] + second["base"] == whole == second["base_whole"]
    assert first["base"] == pytest.approx(whole / 2, rel=0.05)
    assert first["adapters"] == second["adapters"] > 0
    assert first["gathered_at_rest"] == second["gathered_at_rest"] == 0
    assert first["most_layers"] == second["most_layers"] == 2, "the layer that runs and the one that is fetched meanwhile"
    assert first["initial"] and second["initial"], "the adapters' values are those of one process"
    assert [count["dummies"] for count in (first, second)] == [0, 2], "one pass fewer of the reference and of the policy"
    assert first["gradient"] == second["gradient"] > 0
    assert first["base_gradients"] == second["base_gradients"] == 0
