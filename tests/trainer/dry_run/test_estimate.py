"""The price of a run: measured on the model itself, refused where it cannot fit, and nothing written."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from chats import ChatEnvironment, chatting_model
from letters import LettersEnvironment

from verigym.cli import main
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score
from verigym.trainer.advantages.gae import whole_reward
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.credit.rows import Credit
from verigym.trainer.dry_run import estimate, measure
from verigym.trainer.dry_run.estimate import estimate_run, free_bytes, model_shape, refuse_what_does_not_fit
from verigym.trainer.dry_run.formulas import Kept, Lengths, memory
from verigym.trainer.dry_run.kept import SavedBytes, measure_kept
from verigym.trainer.dry_run.speed import DecodingCosts, decoding_costs
from verigym.trainer.engines.native.llama_step import LlamaStep
from verigym.trainer.learner.learner import Learner
from verigym.trainer.learner.update import forward_options
from verigym.trainer.logprobs.forward import ForwardOptions, checkpointing
from verigym.trainer.logprobs.shared_prefix import micro_batch_passes
from verigym.trainer.loop import Run
from verigym.trainer.models.kv_cache import call_with_cache
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.tasks.mixture import build_source

GIB = 2**30


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def config(model: Path, output: Path, **fields: Any) -> TrainConfig:
    base: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "letters"}],
        "steps": 30,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_prompt_tokens": 40,
        "max_new_tokens": 60,
        "eval_prompts": 5,
        "eval_every": 10,
        "workers": 0,
        "device": "cpu",
    }
    return build_config(base | fields, "test")


def test_a_run_is_priced_and_nothing_is_written(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for budget in ("MEASURE_S", "LENGTHS_S"):  # on a busy machine fewer prompts would be measured
        monkeypatch.setattr(measure, budget, 1e9)
    output, said = tmp_path / "out", list[str]()
    cost = estimate_run(config(model_folder, output), {"letters": LettersEnvironment()}, said.append)
    assert [line[:6] for line in said] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert said[2:] == [
        "3 of 4: 16 completions at the same time, 6 tokens of each",
        "4 of 4: a step with 16 completions of up to 60 tokens, to see how long they become",
    ]
    assert not output.exists()
    assert cost.held_out == 5
    assert 4 <= cost.expected.prompts <= cost.most.prompts == 4 * 40
    # One token in eight ends a completion.
    assert cost.expected.completions / 16 == pytest.approx(8, abs=6)
    assert cost.most.completions == 16 * 60
    assert 0 < cost.ended <= 1
    assert 0 < sum(cost.step_s(cost.expected)) < sum(cost.step_s(cost.most))
    steps, one = 30 * sum(cost.step_s(cost.most)), cost.evaluation_s(cost.most)
    assert cost.run_s(cost.most) == pytest.approx(steps + 4 * one)
    assert cost.memory.activations > cost.shape.layers * 4 * 100, "some floats a token and layer at least"
    assert cost.memory.peak < cost.most_memory.peak
    assert cost.memory.process > 2**26, "Python and torch"
    assert not cost.proposals, "a run that is small does not need to be smaller"


def test_decoding_is_measured_with_few_rows_and_with_all_of_the_run(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, float]] = []

    def watched(samples: Sequence[tuple[int, int, float]]) -> DecodingCosts:
        seen[:] = samples
        return decoding_costs(samples)

    monkeypatch.setattr(measure, "decoding_costs", watched)
    cost = estimate_run(config(model_folder, tmp_path, group_size=8), {"letters": LettersEnvironment()})
    assert {rows for rows, _, _ in seen} >= {1, 2} and max(rows for rows, _, _ in seen) > 8, "32 at most"
    assert max(position for _, position, _ in seen) > measure.BATCH_TOKENS, "completions of whole steps, too"
    assert cost.speed.decoding == decoding_costs(seen)


PRESET: dict[str, Any] = {"preset": "passk"}
GDPO: dict[str, Any] = {"sources": [{"environment": "letters", "advantage": "gdpo", "reward_weights": {"a": 1.0}}]}


@pytest.mark.parametrize(
    "fields",
    [
        {"truncated": "mask", "max_new_tokens": 1},
        PRESET,
        {"dynamic_sampling": True, "replay_share": 0.25, "overlong_cache": 4},
        GDPO,
        {"step_rewards": True, "sources": [{"environment": "arithmetic", "add": {"process": {"weight": 0.5}}}]},
        {"engine": "vllm-server", "vllm_urls": ["http://127.0.0.1:9"], "advantage": "reinforce++"},
        {"engine": "vllm"},
    ],
    ids=str,
)
def test_the_measured_updates_happen(
    fields: dict[str, Any], model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, float]] = []
    update = Learner.update

    def watched(self: Learner, *args: Any) -> Any:
        found = update(self, *args)
        seen.append(found[0])
        return found

    monkeypatch.setattr(Learner, "update", watched)
    cost = estimate_run(config(model_folder, tmp_path / "out", **fields), {"letters": LettersEnvironment()})
    assert len(seen) == 3
    for metrics in seen[:2]:
        assert metrics["rows_with_gradient"] == metrics["trained_rows"] == 4
    assert seen[2]["rows_with_gradient"] == seen[2]["trained_rows"] >= 8
    assert cost.memory.activations > 0


def test_the_estimate_is_that_of_the_run_within_a_factor(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, gradients and moments to the byte, activations and seconds within a factor of 2.

    The seconds are those of this process's processor time, which others on the machine leave alone.
    """
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=time.process_time, monotonic=time.monotonic))
    settings = config(model_folder, tmp_path, prompts_per_step=8, micro_batch_tokens=120, eval_every=0, threads=1)
    sources = [build_source(source, 0, 5, {"letters": LettersEnvironment()}) for source in settings.sources]
    ratios = []
    for _ in range(4):  # estimate and run see the same machine, but not in the same moment
        cost = estimate_run(settings, {"letters": LettersEnvironment()})
        with open_graders(sources, settings) as graders:
            run = Run(settings, sources, graders)
            run.learner.credit = {label: Credit(whole_reward) for label in run.learner.credit}
            saved = SavedBytes(run.learner.model)
            start = time.process_time()
            for step in range(3):
                groups = run.rollouts(step).groups
                rights = [replace(group, scores=(Score.correct(),) * len(group.scores)) for group in groups]
                with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
                    run.learner.update(step, rights)
            seconds = (time.process_time() - start) / 3
        parameters = list(run.learner.model.parameters())
        moments = [state[name] for state in run.learner.optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
        weights = sum(parameter.nbytes for parameter in parameters)
        assert cost.memory.weights == cost.memory.gradients == weights
        assert cost.memory.optimizer == sum(moment.nbytes for moment in moments)
        assert cost.memory.activations / 2 < saved.peak <= 1.2 * cost.memory.activations
        assert saved.peak <= cost.most_memory.activations
        ratios.append(sum(cost.step_s(cost.expected)) / seconds)
        if 1 / 2 < ratios[-1] < 2:
            return
    pytest.fail(f"estimated over real seconds of a step: {ratios}")


def test_one_completion_a_prompt_is_priced(model_folder: Path, tmp_path: Path) -> None:
    own: dict[str, Any] = {"sources": [{"environment": "letters", "advantage": "reinforce++"}]}
    for fields in ({}, own):
        made = config(model_folder, tmp_path / "out", advantage="reinforce++", group_size=1, **fields)
        cost = estimate_run(made, {"letters": LettersEnvironment()})
        assert cost.memory.activations > cost.shape.layers * 4 * 100
        assert cost.most.completions == 4 * 60


def test_the_price_has_the_critic(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, float]] = []
    update = Learner.update

    def watched(self: Learner, *args: Any) -> Any:
        found = update(self, *args)
        seen.append(found[0])
        return found

    monkeypatch.setattr(Learner, "update", watched)
    made = (config(model_folder, tmp_path, preset=name, group_size=2) for name in ("grpo", "ppo"))
    without, with_it = (estimate_run(settings, {"letters": LettersEnvironment()}) for settings in made)
    assert ["value_loss" in metrics for metrics in seen] == [False] * 3 + [True] * 3
    assert without.memory.critic == 0
    assert with_it.memory.critic == 16 * with_it.shape.parameters
    assert with_it.memory.checkpoints > 1.5 * without.memory.checkpoints
    weights_bytes = 4 * with_it.shape.parameters
    assert with_it.memory.activations < 1.5 * without.memory.activations + weights_bytes, (
        "the critic's weights are no activations"
    )
    assert not any(tmp_path.iterdir())


def test_the_outline_is_that_of_the_model(model_folder: Path, tiny_model: Any) -> None:
    shape = model_shape(str(model_folder), AdapterFields())
    settings = tiny_model.config
    assert shape.parameters == sum(parameter.numel() for parameter in tiny_model.parameters())
    assert shape.layers == settings.num_hidden_layers
    assert (shape.kv_heads, shape.head_size) == (settings.num_key_value_heads, settings.head_dim)
    with torch.no_grad():
        _, cache = call_with_cache(tiny_model, input_ids=torch.tensor([[1, 2, 3]]))
    measured = sum(tensor.nbytes for layer in cache.layers for tensor in (layer.keys, layer.values)) / 3
    assert measured == shape.layers * 2 * shape.kv_heads * shape.head_size * 4


def test_the_outline_counts_adapters_and_what_four_bits_shrink(model_folder: Path, tiny_model: Any) -> None:
    shape = model_shape(str(model_folder), AdapterFields(lora_rank=4))
    blocks = [parameter for name, parameter in tiny_model.named_parameters() if name.endswith("_proj.weight")]
    assert shape.linear == sum(parameter.numel() for parameter in blocks)
    assert sorted(shape.trained) == sorted(4 * side for parameter in blocks for side in parameter.shape)
    assert shape.parameters == model_shape(str(model_folder), AdapterFields()).parameters
    with pytest.raises(UsageError, match="lora_targets: "):
        model_shape(str(model_folder), AdapterFields(lora_rank=4, lora_targets=("absent",)))


def test_what_is_kept_for_the_backward_pass_is_counted_once() -> None:
    layer = torch.nn.Linear(4, 4, bias=False)
    saved = SavedBytes(layer)
    inputs = torch.randn(2, 4, requires_grad=True)
    for _ in range(2):  # the second pass starts anew: what the first kept is gone
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            hidden = layer(inputs)
            out = (hidden * hidden).sum()
        out.backward()
    assert saved.peak == 2 * (2 * 4 * 4), "the input of the layer and that of the square; not the weights"


def test_copies_of_weights_that_autocast_makes_are_no_activations() -> None:
    layer = torch.nn.Linear(64, 48, bias=False)
    saved = SavedBytes(layer)
    inputs = torch.randn(2, 64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack), torch.autocast("cpu", dtype=torch.bfloat16):
        layer(inputs).sum().backward()
    assert saved.peak == 2 * 64 * 2, "the input in bfloat16, and not 48 x 64 numbers"


@pytest.mark.parametrize("fields", [{}, {"shared_prefix": False}, {"gradient_checkpointing": True}], ids=str)
def test_what_a_batch_keeps_follows_from_what_a_few_rows_kept(
    fields: dict[str, Any], model_folder: Path, tmp_path: Path
) -> None:
    settings = config(model_folder, tmp_path, eval_every=0, **fields)
    learner = Learner(settings)
    how = ForwardOptions(**forward_options(settings, learner.codec.pad_id, settings.dtype))
    kept = measure_kept([learner.model], how, 2**62)
    assert kept.checkpointed < kept.token / 3 and 0 < kept.copied < kept.token
    prompts, texts = [[1] * 37] * 6, [[2] * 11] * 6
    saved = SavedBytes(learner.model)
    with (
        checkpointing(learner.model, settings.gradient_checkpointing),
        torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack),
    ):
        passes = [run(None) for _, run in micro_batch_passes(learner.model, prompts, texts, range(6), how)]
    shared = not fields
    tokens, copies = (37 + 6 * 10, 6 * 37) if shared else (6 * 47, 0)
    token = kept.checkpointed if settings.gradient_checkpointing else kept.token
    assert len(passes) == 1
    assert saved.peak == pytest.approx(tokens * token + copies * kept.copied, rel=0.1)


def test_what_is_not_in_the_models_weights_is_counted_while_sampling(tiny_model: Any) -> None:
    """The layers' matrices are small, and copied; the head is one, too."""
    inside = [parameter for name, parameter in tiny_model.named_parameters() if name.endswith("_proj.weight")]
    head = tiny_model.get_output_embeddings().weight
    assert LlamaStep(tiny_model, 8).copied_bytes == sum(parameter.nbytes for parameter in [*inside, head])


def test_what_does_not_fit_is_refused_with_what_to_change(model_folder: Path, tmp_path: Path) -> None:
    settings = config(model_folder, tmp_path)
    big_model = replace(model_shape(str(model_folder), settings), parameters=10**9, trained=(10**9,))
    needs = memory(big_model, settings, Lengths.most(big_model, settings), Kept(1000.0, 100.0), 16)
    refuse_what_does_not_fit(replace(needs, checkpoints=0), 2**60, settings)
    refuse_what_does_not_fit(replace(needs, checkpoints=0), None, settings)
    with pytest.raises(
        UsageError, match=r"need 14.90 GiB, 8.00 GiB are free; set lora_rank .such as 16., take a smaller model"
    ):
        refuse_what_does_not_fit(needs, 8 * GIB, settings)
    with pytest.raises(UsageError, match=r"need 14.90 GiB, 7.00 GiB are free; take a smaller model or a larger machine"):
        adapters = settings.model_copy(update={"lora_rank": 8})
        refuse_what_does_not_fit(replace(needs, process=GIB), 8 * GIB, adapters)
    big = replace(needs, kv_cache=20 * GIB)
    with pytest.raises(UsageError, match="with generation it needs .* lower generation_rows or max_new_tokens"):
        refuse_what_does_not_fit(big, 20 * GIB, settings)
    big = replace(needs, activations=20 * GIB)
    with pytest.raises(UsageError, match="with the update it needs .* lower micro_batch_tokens"):
        refuse_what_does_not_fit(big, 20 * GIB, settings)
    with pytest.raises(UsageError, match="output: the checkpoints need .* lower keep_checkpoints"):
        refuse_what_does_not_fit(replace(needs, checkpoints=2**60), 2**60, settings)


def test_a_model_that_cannot_fit_is_refused_before_it_is_loaded(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "free_bytes", lambda device: 1000)
    monkeypatch.setattr(estimate, "measure", lambda *args: pytest.fail("it was loaded"))
    with pytest.raises(UsageError, match="this run does not fit"):
        estimate_run(config(model_folder, tmp_path), {"letters": LettersEnvironment()})


def test_free_memory_respects_the_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "CGROUP", tmp_path)
    cpu = torch.device("cpu")
    whole = free_bytes(cpu)
    assert whole is not None and whole > 0
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert free_bytes(cpu) == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes(cpu) == pytest.approx(whole, rel=0.5)


def test_the_command_prints_a_table_and_trains_nothing(
    model_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        f"model: {model_folder}\noutput: {tmp_path / 'out'}\nsources: [{{environment: arithmetic}}]\n"
        "prompts_per_step: 2\ngroup_size: 2\nmax_new_tokens: 4\nmax_prompt_tokens: 100\n"
        "eval_every: 0\nworkers: 0\ndevice: cpu\n"
    )
    assert main(["train", "--config", str(path), "--dry-run"]) == 0
    out, err = capfd.readouterr()
    assert "measuring 4 of 4: a step with 4 completions of up to 4 tokens" in err
    for words in ("weights", "gradients", "AdamW", "KV cache", "free on disk", "completion tokens a step", "the whole run"):
        assert words in out, out
    assert not (tmp_path / "out").exists()
    assert main(["train", "--config", str(path), "--dry-run", "model=./absent"]) == 2
    assert "there is no directory './absent'" in capfd.readouterr().err


def test_what_the_run_would_refuse_is_refused_before_it_is_measured(model_folder: Path, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"advantage": "reinforce++", "dynamic_sampling": True}
    with pytest.raises(UsageError, match="groups of equal rewards that dynamic_sampling drops"):
        estimate_run(config(model_folder, tmp_path / "out", **fields), {"letters": LettersEnvironment()})


def test_episodes_are_priced(tmp_path: Path) -> None:
    model, codec = chatting_model()
    model.save_pretrained(tmp_path / "model")
    codec.tokenizer.save_pretrained(tmp_path / "model")
    chat = {"sources": [{"environment": "chat"}], "max_turns": 3, "max_turn_tokens": 8}
    cost = estimate_run(config(tmp_path / "model", tmp_path / "out", **chat), {"chat": ChatEnvironment()})
    assert cost.expected.completions > 0 and not (tmp_path / "out").exists()


def test_a_setting_of_episodes_without_any_is_refused(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="max_turn_tokens is about episodes, and no source has tools"):
        estimate_run(config(model_folder, tmp_path, max_turn_tokens=4), {"letters": LettersEnvironment()})
