"""`shard: full` in two processes does what one does: weights to 1e-8 in float64, the same logs, the same form of final model.

Legend of the folders: `one` was trained by one process, `optimizer` and `full` by two with that `shard`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from adapted import moved
from adapted import settings as adapter_settings
from chats import chatting_model
from run_together import compute_exactly, run_all
from safetensors.torch import load_file, save_file
from together import MASKED, STEPS, distance, launch, lives, metrics, rewound, samples, settings, weights
from torch import distributed

from tests.support.needs import require
from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.distributed.full_shards import (
    INDEX,
    empty_model,
    export_sharded,
    gathered,
    load_sharded,
    load_sharded_with_adapters,
    repeated_layers,
)
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.learner.learner import Learner
from verigym.trainer.logprobs.forward import completion_logprobs
from verigym.trainer.models.lora import adapter_tensors, add_adapter, save_merged

FULL = {"shard": "full"}
HALF = {"dtype": "bf16", "gradient_checkpointing": True, "steps": 2, "eval_every": 0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Runs of one process and of two, and some that were begun by one number of processes and ended by another."""
    root = tmp_path_factory.mktemp("runs")
    settings(root / "one", model_folder)
    settings(root / "one-masked", model_folder, **MASKED)
    checkpointed = {"gradient_checkpointing": True, "engine": "transformers", "steps": 2, "eval_every": 0}
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        run_all(
            root / "one/config.json", root / "one-masked/config.json", settings(root / "half-one/plain", model_folder, **HALF)
        )
        configs = [
            settings(root / "full", model_folder, **FULL),
            settings(root / "full-masked", model_folder, **MASKED, **FULL),
            settings(root / "full-checkpointing", model_folder, **checkpointed, **FULL),
            rewound(root / "one", root / "one-full", 3, model_folder, **FULL),
            settings(root / "half/plain", model_folder, **{**HALF, **FULL}),
            settings(root / "plain", model_folder, steps=2, eval_every=0, **FULL),
        ]
        done = launch(*configs)
        assert done.returncode == 0, done.stderr[-3000:]
        run_all(rewound(root / "full", root / "full-one", 3, model_folder))
        done = launch(rewound(root / "full", root / "full-three", 3, model_folder, **FULL), processes=3)
        assert done.returncode == 0, done.stderr[-3000:]
    return root


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"lora_rank": 4, "lora_base": "4bit", "dtype": "bf16", "gradient_checkpointing": True},
            "shard full cuts weights into rows, and lora_base 4bit stores them in packed blocks; set lora_base to bf16",
        ),
        (
            {"lora_rank": 4, "lora_base": "bf16", "dtype": "bf16", "advantage": "gae"},
            "shard full with dtype bf16 would keep a bfloat16 copy .*; set gradient_checkpointing to true",
        ),
        ({"cuda_graphs": True}, "shard full does not go with cuda_graphs true"),
        ({"engine": "vllm"}, "shard full does not go with engine vllm"),
        ({"dtype": "bf16"}, "shard full with dtype bf16 would keep a bfloat16 copy .*; set gradient_checkpointing to true"),
    ],
)
def test_what_needs_whole_weights_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fields = json.loads(settings(tmp_path, tmp_path, **FULL).read_text())
    with pytest.raises(UsageError, match=message):
        build_config(fields | change, "test")
    build_config(fields, "test")


def test_in_one_process_it_says_that_it_has_no_effect(
    model_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fields = json.loads(settings(tmp_path, model_folder, **MASKED, **FULL).read_text())
    Learner(build_config(fields, "test"))
    assert "shard: full has no effect in one process; start several by torchrun" in caplog.text


def test_the_repeated_layers_are_found_by_their_size() -> None:
    experts = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(9))

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = copy.deepcopy(experts)

    blocks = torch.nn.ModuleList(Block() for _ in range(3))
    model = torch.nn.ModuleDict({"ends": torch.nn.Linear(9, 9), "blocks": blocks})
    assert repeated_layers(model) == list(blocks), "not the experts within one of them"
    with pytest.raises(UsageError, match="needs a model of repeated layers, and Linear has none; set shard to optimizer"):
        repeated_layers(torch.nn.Linear(2, 2))


def test_a_model_is_made_without_memory_and_read_in_rows(model_folder: Path, tiny_model: Any) -> None:
    empty = empty_model(str(model_folder), torch.float32)
    assert all(parameter.is_meta for parameter in empty.parameters())
    buffers = dict(tiny_model.named_buffers())
    assert buffers.keys() == dict(empty.named_buffers()).keys() and buffers
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in empty.named_buffers())
    assert (empty.lm_head.weight is empty.model.embed_tokens.weight) == tiny_model.config.tie_word_embeddings
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu", "what is made afterwards has memory"


@pytest.fixture
def alone() -> Iterator[World]:
    """A process group of one process, in which a model can be sharded, too."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield SOLO
    distributed.destroy_process_group()


FAMILIES: dict[str, Any] = {
    "gpt2": transformers.GPT2Config(vocab_size=99, n_positions=32, n_embd=16, n_layer=3, n_head=2),
    "llama": transformers.LlamaConfig(
        vocab_size=99, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1
    ),
    "qwen2": transformers.Qwen2Config(
        vocab_size=99, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1
    ),
    "gemma2": transformers.Gemma2Config(
        vocab_size=99, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
        head_dim=8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_other_families_are_read_run_and_written(
    family: str, alone: World, tmp_path: Path, tiny_tokenizer: Any
) -> None:
    plain = transformers.AutoModelForCausalLM.from_config(FAMILIES[family], dtype=torch.float32).eval()
    plain.save_pretrained(tmp_path / "model", max_shard_size=4000)  # several files
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    model, _ = load_sharded(tmp_path / "model", alone, torch.device("cpu"), trained=True)
    prompts, completions = [[1, 2, 3], [4]], [[5, 6], [7, 8, 9]]
    expected, mask = completion_logprobs(plain, prompts, completions, temperature=1.0, pad_id=0)
    (expected * mask).sum().backward()
    with gathered(model):
        found, _ = completion_logprobs(model, prompts, completions, temperature=1.0, pad_id=0)
        (found * mask).sum().backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    gradients = {name: parameter.grad for name, parameter in plain.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad.full_tensor(), gradients[name], rtol=1e-4, atol=1e-5, msg=name)
    export_sharded(model, tmp_path / "again", alone, part_bytes=4000)
    assert (tmp_path / "again" / INDEX).is_file()
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again", dtype=torch.float32)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in plain.state_dict().items())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
def test_adapters_of_other_families_are_trained_and_merged(
    family: str, alone: World, tmp_path: Path, tiny_tokenizer: Any
) -> None:
    require("peft")
    base = transformers.AutoModelForCausalLM.from_config(FAMILIES[family], dtype=torch.float32).eval()
    base.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    config = adapter_settings()
    plain = moved(add_adapter(base, config, seed=3))
    model, _ = load_sharded_with_adapters(config, str(tmp_path / "model"), 3, alone, torch.device("cpu"), None)
    prompts, completions = [[1, 2, 3], [4]], [[5, 6], [7, 8, 9]]
    expected, mask = completion_logprobs(plain, prompts, completions, temperature=1.0, pad_id=0)
    (expected * mask).sum().backward()
    with gathered(moved(model)):
        found, _ = completion_logprobs(model, prompts, completions, temperature=1.0, pad_id=0)
        (found * mask).sum().backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    gradients = {name: parameter.grad for name, parameter in adapter_tensors(plain).items()}
    for name, parameter in adapter_tensors(model).items():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-5, msg=name)
    export_sharded(model, tmp_path / "full", alone, part_bytes=4000)
    assert (tmp_path / "full" / INDEX).is_file()
    save_merged(plain, tmp_path / "one")
    mine, theirs = (
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32) for name in ("full", "one")
    )
    assert all(torch.equal(tensor, mine.state_dict()[name]) for name, tensor in theirs.state_dict().items())


def test_a_model_that_cannot_be_read_in_rows_is_refused(alone: World, tmp_path: Path, tiny_tokenizer: Any) -> None:
    experts = transformers.Qwen3MoeConfig(
        vocab_size=99, hidden_size=16, intermediate_size=24, moe_intermediate_size=8, num_hidden_layers=2, num_experts=4,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8,
    )  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(experts).save_pretrained(tmp_path / "experts")
    folders = {"experts": "those of qwen3_moe are stored in another form than the model's; set shard to optimizer"}
    plain = transformers.AutoModelForCausalLM.from_config(FAMILIES["llama"], dtype=torch.float32)
    for name, message in {
        "absent": "no tensor 'model.norm.weight', which LlamaForCausalLM needs",
        "shape": r"model.norm.weight has the shape \[3\], config.json says \[16\]",
        "files": "reads model.safetensors or model.safetensors.index.json, and .* has neither",
    }.items():
        folders[name] = message
        plain.save_pretrained(tmp_path / name)
        file = tmp_path / name / "model.safetensors"
        tensors = load_file(file)
        tensors["model.norm.weight"] = torch.zeros(3)
        if name == "absent":
            del tensors["model.norm.weight"]
        save_file(tensors, file)
        if name == "files":
            file.unlink()
    for name, message in folders.items():
        tiny_tokenizer.save_pretrained(tmp_path / name)
        with pytest.raises(UsageError, match=message):
            load_sharded(tmp_path / name, alone, torch.device("cpu"), trained=True)


@pytest.mark.slow
def test_the_weights_are_those_of_one_process(runs: Path, model_folder: Path) -> None:
    before = load_file(model_folder / "model.safetensors")
    assert max(float((weights(runs / "full")[name] - before[name]).abs().max()) for name in before) > 1e-3
    assert distance(runs / "full", runs / "one") < 1e-8


@pytest.mark.slow
def test_the_logs_and_the_sampled_tokens_are_those_of_one_process(runs: Path) -> None:
    for kind in ("train", "eval"):
        mine, theirs = metrics(runs / "full", kind), metrics(runs / "one", kind)
        assert len(mine) == len(theirs) > 0
        for row, expected in zip(mine, theirs, strict=True):
            assert row.pop("kind") == expected.pop("kind")
            # The native engine of one process computes some norms in float32; modules decode a sharded model.
            assert abs(row.pop("logprob_mismatch", 0.0) - expected.pop("logprob_mismatch", 0.0)) < 1e-6
            assert row == pytest.approx(expected, rel=1e-5, abs=1e-9)
    mine, theirs = ([sample["completion"] for sample in samples(runs / name)] for name in ("full", "one"))
    assert mine == theirs


@pytest.mark.slow
def test_a_process_without_rows_keeps_step(runs: Path) -> None:
    assert any(row["rows_with_gradient"] == 1 for row in metrics(runs / "one-masked"))
    assert distance(runs / "full-masked", runs / "one-masked") < 1e-8


@pytest.mark.slow
def test_checkpointed_layers_and_the_other_engine_do_the_same(runs: Path) -> None:
    mine, theirs = metrics(runs / "full-checkpointing"), metrics(runs / "one")[:2]
    for row, expected in zip(mine, theirs, strict=True):
        for name in ("loss", "grad_norm", "kl", "reward", "completion_tokens", "clip_fraction"):
            assert row[name] == pytest.approx(expected[name], rel=1e-5, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-full", "full-one", "full-three"])
def test_a_checkpoint_is_read_by_another_number_of_processes(name: str, runs: Path) -> None:
    assert distance(runs / name, runs / "one") < 1e-8
    assert [row["step"] for row in metrics(runs / name)] == [*range(1, STEPS + 1)]


@pytest.mark.slow
def test_in_float32_it_is_so_within_rounding(runs: Path) -> None:
    assert {tensor.dtype for tensor in weights(runs / "plain").values()} == {torch.float32}
    plain, exact = metrics(runs / "plain")[0], metrics(runs / "one")[0]
    for name in ("loss", "grad_norm", "kl"):
        assert plain[name] == pytest.approx(exact[name], rel=1e-3, abs=1e-6)


@pytest.mark.slow
def test_in_bfloat16_the_first_step_is_that_of_one_process(runs: Path) -> None:
    mine, theirs = metrics(runs / "half/plain")[0], metrics(runs / "half-one/plain")[0]
    assert mine["completion_tokens"] == theirs["completion_tokens"] and mine["reward"] == theirs["reward"]
    for name in ("loss", "grad_norm", "kl"):  # rounding moves a token of the next step's
        assert mine[name] == pytest.approx(theirs[name], rel=8 * 2**-8)  # eight roundings; processors sum in different orders


@pytest.mark.slow
def test_the_final_model_is_an_ordinary_folder(runs: Path) -> None:
    mine, theirs = (runs / name / "out/final" for name in ("full", "one"))
    assert sorted(path.name for path in mine.iterdir()) == sorted(path.name for path in theirs.iterdir())
    for name in ("config.json", "generation_config.json"):
        assert (mine / name).read_text() == (theirs / name).read_text()
    model = transformers.AutoModelForCausalLM.from_pretrained(mine, dtype=torch.float64)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights(runs / "full").items())


@pytest.mark.slow
def test_episodes_of_different_lengths_keep_step(tmp_path: Path) -> None:
    model, codec = chatting_model()
    model.save_pretrained(tmp_path / "model")
    codec.tokenizer.save_pretrained(tmp_path / "model")
    fields = {
        **MASKED,
        "sources": [{"environment": "chat"}, {"environment": "letters"}],
        "steps": 2,
        "prompts_per_step": 5,
        "max_turns": 3,
        "max_turn_tokens": 8,
        "max_new_tokens": 24,
        "truncated": "score",
        "workers": 1,
        "samples_per_step": 20,
    }
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        run_all(settings(tmp_path / "one", tmp_path / "model", **fields))
    done = launch(settings(tmp_path / "full", tmp_path / "model", **fields, **FULL))
    assert done.returncode == 0, done.stderr[-3000:]
    assert sum(row["chat/turns"] for row in metrics(tmp_path / "one")) > 2, "some episodes have several turns"
    mine, theirs = ([sample["completion"] for sample in samples(tmp_path / name)] for name in ("full", "one"))
    assert mine == theirs
    assert distance(tmp_path / "full", tmp_path / "one") < 1e-8


@pytest.mark.slow
def test_stopped_and_killed_it_ends_with_the_same_bytes(runs: Path, model_folder: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, model_folder, **FULL)
    stopped = launch(config, SIGNAL="SIGINT:1:1")
    assert stopped.returncode != 0
    assert max(path.name for path in (tmp_path / "out/checkpoints").iterdir()) == "step-00000002"
    done = launch(config, options=["--max-restarts=1"], SIGNAL="SIGKILL:1:3")
    assert done.returncode == 0, done.stderr[-3000:]
    assert lives(tmp_path) == 3, done.stderr[-3000:]
    assert distance(tmp_path, runs / "full") == 0
    assert metrics(tmp_path) == metrics(runs / "full")
    assert samples(tmp_path) == samples(runs / "full")


@pytest.mark.slow
def test_a_process_holds_its_share_and_two_layers_at_most(tmp_path: Path, tiny_tokenizer: Any) -> None:
    config = transformers.Qwen3Config(
        vocab_size=len(tiny_tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, tie_word_embeddings=False,
    )  # fmt: skip
    transformers.Qwen3ForCausalLM(config).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    done = launch(tmp_path / "model", tmp_path, script="count_shards.py")
    assert done.returncode == 0, done.stderr[-3000:]
    counts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for count in counts:
        for kind, share in (("weights", 1), ("gradients", 1), ("moments", 2)):
            assert count[kind] == pytest.approx(share * count["whole"] / 2, rel=0.02), kind
        assert count["gathered_at_rest"] == 0
        assert count["most_layers"] == 2, "the layer that runs and the one that is fetched meanwhile"
        assert 0 < count["most_layer_gradients"] <= count["layer"]
    assert sum(count["weights"] for count in counts) == counts[0]["whole"]
    assert [count["dummies"] for count in counts] == [0, 1], "seven rows of a pass each: four and three"
    assert counts[0]["norm"] == counts[1]["norm"] > 0
