"""`overlap: one_step`: the next step is sampled from the policy as it was before the update that runs meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment
from runs import LETTERS, rows, run, settings, weights

from verigym.envs.contract.errors import UsageError
from verigym.trainer import loop
from verigym.trainer.batches.ahead import Ahead
from verigym.trainer.batches.builder import Batch, dump_batch, load_batch
from verigym.trainer.checkpoints import store
from verigym.trainer.config.run import build_config
from verigym.trainer.distributed.world import refuse_alone
from verigym.trainer.dry_run.estimate import estimate_run
from verigym.trainer.engines.snapshot import Snapshot
from verigym.trainer.loop import Run, train
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.tasks.mixture import build_source

STEPS = 5
EMPTY = Batch([], [], {"number": 1.0})


def one_step(model: Path, output: Path, **more: Any) -> list[dict[str, Any]]:
    return run(model, output, overlap="one_step", steps=STEPS, **more)


def in_turn(model: Path, output: Path, **more: Any) -> list[float]:
    """The definition, with nothing at the same time: sample from the old policy, then update. Saves the weights at the end."""
    config = build_config(settings(model, output, steps=STEPS, **more), "test")
    sources = [build_source(source, config.seed, 0, LETTERS) for source in config.sources]
    losses = []
    with open_graders(sources, config) as graders:
        work = Run(config, sources, graders)
        batch = work.rollouts(0)
        for step in range(STEPS):
            following = work.rollouts(step + 1).off_policy() if step + 1 < STEPS else None
            metrics, _ = work.learner.update(step, batch.groups)
            losses.append(metrics["loss"])
            batch = following or batch
        work.learner.export(output / "final")
    return losses


@pytest.mark.parametrize("engine", ["native", "transformers"])
@pytest.mark.slow
def test_it_is_the_definition_to_the_last_bit(engine: str, letters_model: Path, tmp_path: Path) -> None:
    found = one_step(letters_model, tmp_path / "a", engine=engine)
    losses = in_turn(letters_model, tmp_path / "b", engine=engine)
    assert [row["loss"] for row in found] == pytest.approx(losses, rel=1e-5), "logs are rounded"
    assert weights(tmp_path / "a/final") == weights(tmp_path / "b/final")
    plain = run(letters_model, tmp_path / "c", engine=engine, steps=2)
    assert plain[0]["loss"] == found[0]["loss"], "the first step is sampled from the first policy either way"
    assert weights(tmp_path / "a/final") != weights(tmp_path / "c/final")


@pytest.mark.parametrize(
    "more",
    [{"lora_rank": 2, "correction": "token_truncated"}, {"loss": "reinforce", "correction": "token_truncated"}],
    ids=["adapters", "reinforce"],
)
@pytest.mark.slow
def test_with_adapters_and_corrections_too(more: dict[str, Any], letters_model: Path, tmp_path: Path) -> None:
    found = one_step(letters_model, tmp_path / "a", **more)
    assert [row["loss"] for row in found] == pytest.approx(in_turn(letters_model, tmp_path / "b", **more), rel=1e-4)
    assert weights(tmp_path / "a/final") == weights(tmp_path / "b/final")
    assert all(row["grad_norm"] > 0 for row in found)


def test_the_ratio_is_to_the_policy_that_sampled(letters_model: Path, tmp_path: Path) -> None:
    """From the second step on, completions come from another policy than the one that is updated."""
    found = one_step(letters_model, tmp_path, learning_rate=0.05)
    assert [row["clip_fraction"] > 0 for row in found] == [False, *[True] * (STEPS - 1)]
    assert ["logprob_mismatch" in row for row in found] == [True, *[False] * (STEPS - 1)]


@pytest.fixture(scope="module")
def whole(letters_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run that was left alone."""
    folder = tmp_path_factory.mktemp("whole")
    one_step(letters_model, folder)
    return folder


@pytest.mark.parametrize("stop_at", [1, 3])
def test_a_run_that_is_stopped_goes_on_with_the_same_bytes(
    stop_at: int, whole: Path, letters_model: Path, tmp_path: Path
) -> None:
    config = build_config(settings(letters_model, tmp_path / "parts", overlap="one_step", steps=STEPS), "test")
    sources = [build_source(source, config.seed, 0, LETTERS) for source in config.sources]

    class Stop:
        """Asks to stop while the step is running, in which the batch of the next is sampled."""

        requested, urgent = False, False

        def begin(self) -> None: ...

        def interrupted(self, what: str) -> KeyboardInterrupt:
            return KeyboardInterrupt(what)

    stop = Stop()
    store.prepare(config.output)
    with open_graders(sources, config) as graders, pytest.raises(KeyboardInterrupt, match=f"after step {stop_at}"):
        work = Run(config, sources, graders)
        update = work.learner.update

        def updated(step: int, groups: Sequence[Any]) -> Any:
            stop.requested = stop.urgent = step + 1 == stop_at
            return update(step, groups)

        work.learner.update = updated  # type: ignore[method-assign]
        work.run(stop)  # type: ignore[arg-type]
    assert threading.active_count() < 20
    train(config, LETTERS)
    kept = ("step", "loss", "reward", "grad_norm", "completion_tokens", "sampled_nll", "letters")
    seen = [[{name: row.get(name) for name in kept} for row in some] for some in (rows(tmp_path / "parts"), rows(whole))]
    assert seen[0] == seen[1]
    assert weights(tmp_path / "parts/final") == weights(whole / "final")


def test_a_batch_survives_as_json(letters_model: Path, tmp_path: Path) -> None:
    config = build_config(settings(letters_model, tmp_path), "test")
    sources = [build_source(source, config.seed, 0, LETTERS) for source in config.sources]
    with open_graders(sources, config) as graders:
        batch = Run(config, sources, graders).rollouts(0).off_policy()
    assert load_batch(dump_batch(batch), LETTERS) == batch
    assert all(group.off_policy for group in batch.groups)
    assert not any(group.off_policy for group in batch.sampled)


def test_what_sampling_raises_ends_the_run(letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loop.collect

    def failing(*arguments: Any, key: tuple[object, ...], **more: Any) -> Any:
        if key[2] == 2:
            raise UsageError("the server is gone")
        return real(*arguments, key=key, **more)

    monkeypatch.setattr(loop, "collect", failing)
    with pytest.raises(UsageError, match="the server is gone"):
        one_step(letters_model, tmp_path)
    assert len(rows(tmp_path)) == 1
    assert not any(thread.name == "verigym-ahead" for thread in threading.enumerate())


def test_an_error_in_the_update_ends_the_sampling(letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, step: int, groups: Any) -> Any:
        raise UsageError("the update failed")

    monkeypatch.setattr(loop.Learner, "update", failing)
    with pytest.raises(UsageError, match="the update failed"):
        one_step(letters_model, tmp_path)
    assert not any(thread.name == "verigym-ahead" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"loss": "reinforce"}, "overlap trains on groups that an earlier policy sampled, to which loss reinforce"),
        ({"loss": "reinforce", "correction": "opsm"}, "which loss reinforce takes no ratio; set a correction"),
        ({"engine": "vllm"}, "set vllm_sleep to false"),
        ({"overlap": "two_steps"}, "'none', 'one_step' or 'free'"),
    ],
)
def test_what_does_not_go_with_it_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        build_config(settings(tmp_path, tmp_path, **{"overlap": "one_step", **more}), "test")


def test_several_processes_are_refused(letters_model: Path, tmp_path: Path) -> None:
    config = build_config(settings(letters_model, tmp_path, overlap="one_step"), "test")
    with pytest.raises(UsageError, match="overlap: one_step works in one process only"):
        refuse_alone(config)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_snapshot_changes_when_it_is_taken(frozen: bool) -> None:
    policy = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    policy[0].requires_grad_(not frozen)
    snapshot = Snapshot(policy)
    copied = snapshot.model
    assert (copied[0].weight is policy[0].weight) is frozen, "what is not trained is shared"
    before = copied[1].weight.clone()
    with torch.no_grad():
        policy[1].weight += 1
        policy[1].running_mean += 1
    assert torch.equal(copied[1].weight, before)
    snapshot.take()
    assert torch.equal(copied[1].weight, policy[1].weight)
    assert torch.equal(copied[1].running_mean, policy[1].running_mean)
    for model in (policy, copied):
        assert [parameter.requires_grad for parameter in model.parameters()] == [not frozen, not frozen, True, True]


def test_a_batch_is_taken_once_and_dropped_when_abandoned() -> None:
    ahead = Ahead()
    assert ahead.take() is None
    ahead.start(lambda give_up: EMPTY)
    ahead.finish()
    assert ahead.batch is EMPTY
    assert (ahead.take(), ahead.take()) == (EMPTY, None)

    def endless(give_up: Any) -> Batch:
        while not give_up():
            torch.zeros(1)
        return EMPTY

    ahead.start(endless)
    ahead.abandon()
    assert ahead.take() is None
    ahead.put(EMPTY)
    assert ahead.take() is EMPTY


def test_the_dry_run_says_what_can_be_gained(letters_model: Path, tmp_path: Path) -> None:
    environments = {"letters": LettersEnvironment()}
    found = {}
    for overlap in ("none", "one_step"):
        config = build_config(settings(letters_model, tmp_path, overlap=overlap, steps=100), "test")
        found[overlap] = estimate_run(config, environments)
    cost = found["one_step"]
    generation, update = cost.step_s(cost.expected)
    assert cost.overlap_gain(cost.expected) == pytest.approx((generation + update) / max(generation, update))
    assert cost.run_s(cost.expected) == pytest.approx(100 * max(generation, update))
    assert cost.memory.copied == 4 * sum(cost.shape.trained)
    assert cost.memory.peak > found["none"].memory.peak
