"""The stage `prm`: trains a process reward model on labelled steps, and compares it with always giving the commoner label."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.trained_options import write_record
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.checkpoints.store import locked
from verigym.trainer.logprobs.forward import autocast, micro_batches
from verigym.trainer.models.loading import load_model
from verigym.trainer.reward_models.config import PrmConfig, deciding_settings
from verigym.trainer.reward_models.figures import Share, flat, step_shares
from verigym.trainer.reward_models.labelled_solutions import LabelledSolution, read_labels, splits_of
from verigym.trainer.reward_models.losses import step_loss
from verigym.trainer.reward_models.process_model import ProcessRewardModel, StepTokens
from verigym.trainer.stages.sft import Batches
from verigym.trainer.stages.step_run import StepRun, prepare_stage
from verigym.trainer.threads import own_threads

logger = logging.getLogger("verigym.trainer")


@dataclass(frozen=True)
class SolutionTokens:
    """A solution in tokens, with the key of its task."""

    key: str
    tokens: StepTokens


@own_threads()
def train_prm(config: PrmConfig) -> Path:
    """Train a process reward model and return its folder.

    If `config.output` has a checkpoint, training resumes from the newest.

    The environment `process` loads the folder with `kind: qwen`. The folder's file `verigym.json` records how the model was
    made, and its held-out figures.

    Raises:
        UsageError: the model, the labels or a checkpoint do not fit.
        Interrupted: Ctrl-C; the same call resumes.
    """
    prepare_stage(config)
    with locked(config.output):
        train, held = gather(config)
        run = PrmRun(config, {"labels": digest(train), "model": model_digest(config.model)}, "process reward model")
        trained, left_out = tokenized(config, run, train)
        held_out, held_left_out = tokenized(config, run, held)
        if not trained:
            raise UsageError(f"none of {len(train)} solutions can be learnt from: {left_out}")
        batches = Batches(trained, config.batch_size, config.seed)

        def gradient(step: int) -> dict[str, float]:
            return step_gradient(run, batches.of(step), config)

        def held_out_metrics() -> dict[str, float]:
            return flat(held_out_figures(run, held_out, trained, config))

        if not held_out:
            logger.warning("no solutions are held out, so nothing says how good the model is; raise held_out_share")
        steps = config.steps or max(1, math.ceil(config.epochs * len(trained) / config.batch_size))
        final = run.run(steps, gradient, held_out_metrics if held_out else None)
        figures = held_out_figures(run, held_out, trained, config) if held_out else {}
        training = {
            "kind": "prm",
            "base": model_digest(config.model),
            "solutions": {"train": len(trained), "held_out": len(held_out), "sha256": digest(train)},
            "left_out": {"train": left_out, "held_out": held_left_out},
            "steps": steps,
            "fields": deciding_settings(config),
            "held_out": {name: one.as_json() if isinstance(one, Share) else round(one, 6) for name, one in figures.items()},
        }
        write_record(final, {"kind": "qwen", "system": config.system, **splits_of(config.data)}, training)
    return final


def gather(config: PrmConfig) -> tuple[list[LabelledSolution], list[LabelledSolution]]:
    """Return (training solutions, held-out solutions), without solutions that have no label.

    Raises:
        UsageError: a file does not fit, no solution has a label, or a held-out task is also a training task.
    """
    found = _labelled(config.data, config)
    if not config.held_out_data:
        train = [one for one in found if int(one.prompt.key[:8], 16) >= config.held_out_share * 2**32]
        held = [one for one in found if int(one.prompt.key[:8], 16) < config.held_out_share * 2**32]
        if not train:
            raise UsageError(f"held_out_share {config.held_out_share} leaves none of {len(found)} solutions; lower it")
    else:
        train, held = found, _labelled(config.held_out_data, config)
        shared = {one.prompt.key for one in train} & {one.prompt.key for one in held}
        if shared:
            raise UsageError(f"held_out_data: {len(shared)} of its prompts are in data too; remove them from one of the two")
    return train, sorted(held, key=lambda one: one.digest)[: config.held_out_count]


def _labelled(paths: Sequence[Path], config: PrmConfig) -> list[LabelledSolution]:
    found = [one for path in paths for one in read_labels(path, config.labels)]
    some = [one for one in found if any(label is not None for label in one.labels)]
    if not some:
        raise UsageError(f"none of {len(found)} solutions has a labelled step; a process reward model needs some")
    if len(some) < len(found):
        logger.warning("%d of %d solutions have no labelled step and are left out", len(found) - len(some), len(found))
    return some


def digest(solutions: Sequence[LabelledSolution]) -> str:
    """Return a hash of `solutions`, which depends on their order."""
    return sha256_hex(canonical_json([one.digest for one in solutions]))


class PrmRun(StepRun):
    """The training run of a process reward model."""

    config: PrmConfig

    def load(self, checkpoint: Path | None) -> tuple[Any, Any]:
        """Return the model and its tokenizer, from `checkpoint` if it is given.

        A language model gets a new head, whose weights depend on the seed alone.
        """
        if checkpoint is not None:
            model = ProcessRewardModel.load(checkpoint / "model").to(self.device)
        else:
            model = ProcessRewardModel(*load_model(self.config.model, self.device), seed=self.config.seed)
        return model, model.tokenizer

    def save(self, folder: Path) -> None:
        """Write the model and its tokenizer to `folder`."""
        self.model.save(folder / "model")

    def export(self, folder: Path) -> None:
        """Write the model to `folder` so that the `process` environment can load it."""
        self.model.save(folder)


def tokenized(
    config: PrmConfig, run: PrmRun, solutions: Sequence[LabelledSolution]
) -> tuple[list[SolutionTokens], dict[str, int]]:
    """Return the solutions as tokens, without those that are too long, and counts of the solutions left out.

    The encoding is that of the `process` environment.
    """
    held = getattr(run.model.model.config.get_text_config(), "max_position_embeddings", None)
    most = min(config.max_tokens, held or config.max_tokens)
    rows = [SolutionTokens(one.prompt.key, run.model.tokens(one, config.system)) for one in solutions]
    kept = [row for row in rows if len(row.tokens.token_ids) <= most]
    if len(kept) < len(rows):
        logger.warning("%d of %d solutions are longer than %d tokens", len(rows) - len(kept), len(rows), most)
    return kept, {"too_long": len(rows) - len(kept)}


def _micro_batches(rows: Sequence[SolutionTokens], config: PrmConfig, device: str) -> list[list[SolutionTokens]]:
    numbers = micro_batches([len(row.tokens.token_ids) for row in rows], config.micro_batch_tokens, device)
    return [[rows[number] for number in batch] for batch in numbers]


def step_gradient(run: PrmRun, rows: Sequence[SolutionTokens], config: PrmConfig) -> dict[str, float]:
    """Add the gradient of the mean loss over the labelled steps of `rows`, and return metrics of these steps."""
    run.model.train()
    total, loss = sum(len(row.tokens.labels) for row in rows), 0.0
    for some in _micro_batches(rows, config, run.device.type):
        with autocast(run.device, config.dtype):
            logits_N2, label_N = run.model.logits([row.tokens for row in some])
        part = step_loss(logits_N2, label_N, total=total)
        part.backward()  # type: ignore[no-untyped-call]
        loss += float(part.detach())
    return {"loss": loss, "labelled_steps": float(total), "tokens": float(sum(len(row.tokens.token_ids) for row in rows))}


@torch.no_grad()
def held_out_figures(
    run: PrmRun, rows: Sequence[SolutionTokens], train: Sequence[SolutionTokens], config: PrmConfig
) -> dict[str, float | Share]:
    """Return loss and accuracy on the steps of the held-out solutions `rows`, and the accuracy of a simple baseline.

    The baseline always answers with the label that is more common among the training steps in `train`.
    """
    run.model.eval()
    probabilities: list[float] = []
    labels: list[float] = []
    keys: list[str] = []
    loss = 0.0
    total = sum(len(row.tokens.labels) for row in rows)
    for some in _micro_batches(rows, config, run.device.type):
        with autocast(run.device, config.dtype):
            logits_N2, label_N = run.model.logits([row.tokens for row in some])
        loss += float(step_loss(logits_N2, label_N, total=total))
        probabilities += logits_N2.softmax(-1)[:, 1].tolist()
        labels += label_N.tolist()
        keys += [row.key for row in some for _ in row.tokens.labels]
    learnt = [label for row in train for label in row.tokens.labels]
    common = sum(label >= 0.5 for label in learnt) * 2 >= len(learnt)
    accuracy, floor = step_shares(probabilities, labels, keys, common)
    return {"loss": loss, "accuracy": accuracy, "majority/accuracy": floor, "steps": float(total)}
