"""The stage `reward-model`: trains a Bradley-Terry model on preference pairs, and compares it with simple baselines."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.trained_options import write_record
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.checkpoints.store import locked
from verigym.trainer.logprobs.forward import micro_batches
from verigym.trainer.reward_models.config import RewardModelConfig, deciding_settings
from verigym.trainer.reward_models.figures import Share, flat, pair_baselines, preferred, share
from verigym.trainer.reward_models.losses import bradley_terry_loss
from verigym.trainer.reward_models.pair_model import PairTokens, RewardModelRun, outputs, tokenized
from verigym.trainer.reward_models.pairs import Preference, read_preferences, split_by_prompt
from verigym.trainer.stages.sft import Batches
from verigym.trainer.stages.step_run import prepare_stage
from verigym.trainer.threads import own_threads

logger = logging.getLogger("verigym.trainer")


@own_threads()
def train_reward_model(config: RewardModelConfig) -> Path:
    """Train a reward model and return its folder. If `config.output` has a checkpoint, training resumes from the newest.

    The `reward_model` environment loads the folder. The folder's file `verigym.json` records how the model was made, and its
    held-out figures.

    Raises:
        UsageError: the model, the pairs or a checkpoint do not fit.
        Interrupted: Ctrl-C; the same call resumes.
    """
    prepare_stage(config)
    with locked(config.output):
        train, held = gather(config)
        run = RewardModelRun(config, {"pairs": digest(train), "model": model_digest(config.model)}, "reward model")
        trained, left_out = tokenized(config, run, train)
        held_out, held_left_out = tokenized(config, run, held)
        if not trained:
            raise UsageError(f"none of {len(train)} pairs can be learnt from: {asdict(left_out)}")
        batches = Batches(trained, config.batch_size, config.seed)

        def gradient(step: int) -> dict[str, float]:
            return pair_gradient(run, batches.of(step), config)

        def held_out_metrics() -> dict[str, float]:
            return flat(held_out_figures(run, held_out, trained, config))

        if not held_out:
            logger.warning("no pairs are held out, so nothing says how good the model is; raise held_out_share")
        steps = config.steps or max(1, math.ceil(config.epochs * len(trained) / config.batch_size))
        final = run.run(steps, gradient, held_out_metrics if held_out else None)
        figures = {name: asdict(part) for name, part in (("train", left_out), ("held_out", held_left_out))}
        training = {
            "kind": "reward-model",
            "base": model_digest(config.model),
            "pairs": {"train": len(trained), "held_out": len(held_out), "sha256": digest(train)},
            "left_out": figures,
            "steps": steps,
            "fields": deciding_settings(config),
            "template_sha256": sha256_hex(str(run.codec.tokenizer.chat_template)),
            "held_out": conclusions(run, held_out, trained, config) if held_out else None,
        }
        write_record(final, {"reads": config.reads}, training)
    return final


def gather(config: RewardModelConfig) -> tuple[list[Preference], list[Preference]]:
    """Return (training pairs, held-out pairs).

    Raises:
        UsageError: a file does not fit, no training pair is left, or a held-out prompt is also a training prompt.
    """
    found = [pair for path in config.data for pair in read_preferences(path)]
    if not config.held_out_data:
        train, held = split_by_prompt(found, config.held_out_share, config.held_out_count)
        if not train:
            raise UsageError(f"held_out_share {config.held_out_share} leaves none of {len(found)} pairs to learn; lower it")
        return train, held
    held = [pair for path in config.held_out_data for pair in read_preferences(path)]
    shared = {pair.key for pair in found} & {pair.key for pair in held}
    if shared:
        raise UsageError(f"held_out_data: {len(shared)} of its prompts are in data too; remove them from one of the two")
    return found, sorted(held, key=lambda one: one.digest)[: config.held_out_count]


def digest(pairs: Sequence[Preference]) -> str:
    """Return a hash of `pairs`, which depends on their order."""
    return sha256_hex(canonical_json([pair.digest for pair in pairs]))


def _micro_batches(pairs: Sequence[PairTokens], config: RewardModelConfig, device: str) -> list[list[PairTokens]]:
    """Return `pairs` in micro-batches within the token budget; a pair counts as two rows."""
    numbers = micro_batches([pair.longest for pair in pairs], max(1, config.micro_batch_tokens // 2), device)
    return [[pairs[number] for number in batch] for batch in numbers]


def pair_gradient(run: RewardModelRun, pairs: Sequence[PairTokens], config: RewardModelConfig) -> dict[str, float]:
    """Add the gradient of the mean loss over `pairs`, one batch, and return the batch's metrics."""
    run.model.train()
    metrics = {
        "loss": 0.0,
        "accuracy": 0.0,
        "margin": 0.0,
        "tokens": float(sum(len(p.chosen) + len(p.rejected) for p in pairs)),
    }
    for some in _micro_batches(pairs, config, run.device.type):
        out_B = outputs(run, [*(pair.chosen for pair in some), *(pair.rejected for pair in some)])
        margin_B = torch.tensor([pair.margin for pair in some], device=out_B.device)
        chosen_B, rejected_B = out_B[: len(some)], out_B[len(some) :]
        loss, sums = bradley_terry_loss(chosen_B, rejected_B, margin_B, centre=config.centre, total=len(pairs))
        loss.backward()  # type: ignore[no-untyped-call]
        for name, value in (("loss", loss.detach()), *sums.items()):
            metrics[name] += float(value)
    return metrics


@torch.no_grad()
def _scored(
    run: RewardModelRun, pairs: Sequence[PairTokens], config: RewardModelConfig
) -> list[tuple[PairTokens, float, float]]:
    run.model.eval()
    found = []
    for some in _micro_batches(pairs, config, run.device.type):
        out = outputs(run, [*(pair.chosen for pair in some), *(pair.rejected for pair in some)]).tolist()
        found += list(zip(some, out[: len(some)], out[len(some) :], strict=True))
    return found


def held_out_figures(
    run: RewardModelRun, pairs: Sequence[PairTokens], train: Sequence[PairTokens], config: RewardModelConfig
) -> dict[str, float | Share]:
    """Return loss, mean margin and accuracy on the held-out `pairs`, and the accuracy of the baselines.

    The training pairs `train` are needed for one of the baselines; see `pair_baselines`.
    """
    scored = _scored(run, pairs, config)
    chosen_B = torch.tensor([chosen for _, chosen, _ in scored])
    rejected_B = torch.tensor([rejected for _, _, rejected in scored])
    margin_B = torch.tensor([pair.margin for pair, _, _ in scored])
    loss, sums = bradley_terry_loss(chosen_B, rejected_B, margin_B, centre=config.centre)
    halves = [preferred(chosen, rejected) for _, chosen, rejected in scored]
    baselines = pair_baselines([pair.row for pair in pairs], [pair.row for pair in train])
    return {
        "loss": float(loss),
        "margin": float(sums["margin"]),
        "mean": float(torch.cat([chosen_B, rejected_B]).mean()),
        "std": float(torch.cat([chosen_B, rejected_B]).std()),
        "accuracy": share(halves, [pair.row.key for pair, _, _ in scored]),
        **{f"{name}/accuracy": value for name, value in baselines.items()},
    }


def conclusions(
    run: RewardModelRun, pairs: Sequence[PairTokens], train: Sequence[PairTokens], config: RewardModelConfig
) -> dict[str, Any]:
    """Return the final figures on the held-out `pairs`, with intervals.

    Log a warning if the accuracy is not clearly above that of a baseline.
    """
    figures = held_out_figures(run, pairs, train, config)
    accuracy = figures["accuracy"]
    for name in ("longer", "shorter", "majority"):
        baseline = figures[f"{name}/accuracy"]
        assert isinstance(accuracy, Share) and isinstance(baseline, Share)
        if accuracy.low is not None and accuracy.low <= baseline.value:
            logger.warning(
                "held-out accuracy %.3f (%.3f to %.3f) is not above the baseline %r (%.3f): it may have learnt only that rule",
                *(accuracy.value, accuracy.low, accuracy.high),
                *(name, baseline.value),
            )
    return {name: value.as_json() if isinstance(value, Share) else round(value, 6) for name, value in figures.items()}
