"""The critic of PPO: a value model beside the policy, in place of GRPO's comparison within groups.

Legend: B rows (completions), T completion tokens (padded), N real completion tokens, H hidden size.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers.modeling_outputs import CausalLMOutput

from verigym.trainer.advantages.gae import gae, value_loss, whitened
from verigym.trainer.checkpoints.tensors import save_tensors
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.balance import share_rows
from verigym.trainer.distributed.fsdp import ShardedPolicy, clip_gradients, gathered
from verigym.trainer.distributed.full_shards import FullyShardedPolicy, load_sharded
from verigym.trainer.distributed.sharded_checkpoint import (
    fill_rows,
    load_shards,
    restore_optimizer,
    rows_of_tensor,
    save_shards,
)
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.learner.optimizers import build_optimizer, learning_rate, set_learning_rate, step_if_finite
from verigym.trainer.learner.update import padded, policy_logprobs
from verigym.trainer.logprobs.forward import ForwardOptions, checkpointing, decoder
from verigym.trainer.logprobs.shared_prefix import micro_batch_passes
from verigym.trainer.losses.aggregate import token_weights, weighted_sum
from verigym.trainer.models.loading import load_model
from verigym.trainer.rng import keyed_int

logger = logging.getLogger("verigym.trainer")

CRITIC = "critic"
"""Name of the critic's files in a checkpoint."""


class ValueModel(torch.nn.Module):
    """The critic's network: a language model's decoder with a value head in place of the output layer.

    The functions of `trainer.logprobs` run this model like a policy. Where a policy gives the log-probability of a token, this
    model gives the value of the state before the token.
    """

    def __init__(self, base_model: Any, seed: int) -> None:
        """Put a value head on the decoder `base_model`.

        The head's weights depend only on `seed` and are small, so that values start near 0.
        """
        super().__init__()
        self.base_model = base_model
        self.config = base_model.config
        size = self.config.get_text_config().hidden_size
        generator = torch.Generator().manual_seed(keyed_int(seed, "critic", "head"))
        self.value_head = torch.nn.Linear(size, 1)
        with torch.no_grad():
            self.value_head.weight.copy_(torch.randn(1, size, generator=generator) / (size + 1))
            self.value_head.bias.zero_()
        place = self.device
        self.value_head.to("cpu" if place.type == "meta" else place, base_model.dtype)

    def forward(self, input_ids: torch.Tensor, **how: Any) -> CausalLMOutput:
        """Return an output with the tokens' values in its field `logits`.

        Only FSDP's own forward passes call this method; updates use the functions of `trainer.logprobs`.
        """
        return CausalLMOutput(logits=self.value_head(self.base_model(input_ids=input_ids, **how).last_hidden_state))

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        device: torch.device = self.base_model.device
        return device


class Critic:
    """A value model with its optimizer. It computes the advantages of tokens, and learns from their returns."""

    def __init__(self, config: TrainConfig, device: torch.device, start: Path | None = None, world: World = SOLO) -> None:
        """Load the initial policy's decoder, or a checkpoint.

        Args:
            config: the run.
            device: device of the policy.
            start: the checkpoint's folder; None for a new run.
            world: the processes that train the critic together, over which it is sharded.

        Raises:
            UsageError: the initial model does not exist.
        """
        self.config, self.world = config, world
        self.sharded: ShardedPolicy | FullyShardedPolicy

        def on_decoder(model: Any) -> ValueModel:
            return ValueModel(decoder(model), config.seed).eval()

        if config.shard == "full" and world.size > 1:
            self.model, _ = load_sharded(config.model, world, device, trained=True, wrap=on_decoder)
            self.sharded = FullyShardedPolicy(self.model, world)
        else:
            self.model = on_decoder(load_model(config.model, world.loading(device))[0])
            self.sharded = ShardedPolicy(self.model, world, device)
        self.optimizer = build_optimizer(self.model.parameters(), config)
        if start:
            self._restore(start)

    def _restore(self, start: Path) -> None:
        if (start / CRITIC).is_dir():
            load_shards(start / CRITIC, self.model, self.optimizer)
            return
        saved = torch.load(start / f"{CRITIC}.pt", map_location="cpu", weights_only=True, mmap=True)
        if self.sharded.in_rows:
            for name, parameter in self.model.named_parameters():
                fill_rows(parameter, rows_of_tensor(saved["model"][name]))
        else:
            self.model.load_state_dict(saved["model"])
        restore_optimizer(saved["optimizer"], self.optimizer)

    def save(self, folder: Path) -> None:
        """Write model and optimizer to the file `critic.pt` in `folder`.

        With several processes, each writes its own rows to files in the subfolder `critic` instead.
        """
        if self.sharded.in_rows:
            (folder / CRITIC).mkdir(exist_ok=True)
            save_shards(folder / CRITIC, self.model, self.optimizer, self.world)
            return
        save_tensors({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, folder / f"{CRITIC}.pt")

    def credit(
        self, rows_by_group: Sequence[Sequence[TrainingRow]], penalties_BT: torch.Tensor | None, **forward: Any
    ) -> tuple[list[list[TrainingRow]], dict[str, float]]:
        """Return the rows with an advantage, a value and a return for each token (by GAE), and metrics of the values.

        In the rows passed in, the field `advantage` must hold the completion's reward. This becomes the reward of the last
        trained token of the row. Rows that are not trained on get advantage 0, and the metrics' means leave them out. If
        several rows are trained on, the metric `reward_spread` is the largest reward minus the smallest.

        Args:
            rows_by_group: the rows of a whole step.
            penalties_BT: penalties, such as a KL, that are subtracted from the tokens' rewards; None for no penalties. The
                axis B has all rows of `rows_by_group`, in order.
            **forward: see `ForwardOptions`.
        """
        config = self.config
        rows = [row for group in rows_by_group for row in group]
        trained = [row for row in rows if any(row.trained_mask)]
        if not trained:
            return [[replace(row, advantage=0.0) for row in group] for group in rows_by_group], {}
        blank_BT = torch.zeros(len(rows), max(len(row.token_ids) for row in rows), dtype=torch.float64)
        mask_BT = padded([row.trained_mask for row in rows], blank_BT.bool())
        values = iter(policy_logprobs(self.model, trained, temperature=1.0, world=self.world, **forward))
        values_BT = padded([next(values) if any(row.trained_mask) else () for row in rows], blank_BT)
        rewards_BT = blank_BT if penalties_BT is None else -penalties_BT.to(blank_BT)
        for row, mask_T, reward_T in zip(rows, mask_BT, rewards_BT, strict=True):
            if mask_T.any():
                reward_T[mask_T.nonzero()[-1]] += row.advantage
        advantages_BT, returns_BT = gae(rewards_BT, values_BT, mask_BT, gamma=config.gae_gamma, lam=config.gae_lambda)
        metrics = {"value": float(values_BT[mask_BT].mean()), **_explained(values_BT[mask_BT], returns_BT[mask_BT])}
        if len(trained) > 1:  # a single reward has no spread
            rewards = [row.advantage for row in trained]
            metrics["reward_spread"] = max(rewards) - min(rewards)
        if config.whiten_advantages:
            advantages_BT = whitened(advantages_BT, mask_BT)
        columns = zip(rows, advantages_BT.tolist(), values_BT.tolist(), returns_BT.tolist(), strict=True)
        credited = (
            replace(row, token_advantages=_cut(row, advantages), values=_cut(row, values), returns=_cut(row, returns))
            for row, advantages, values, returns in columns
        )
        return [list(islice(credited, len(group))) for group in rows_by_group], metrics

    def update(self, step: int, rows: Sequence[TrainingRow], **forward: Any) -> dict[str, float]:
        """Train the critic on the rows' returns for one optimizer step, and return metrics; empty if no row is trained on.

        Args:
            step: number of the training step, counted from 0, which decides the learning rate.
            rows: the rows of one update, from `credit`.
            **forward: see `ForwardOptions`.
        """
        config = self.config
        if not any(any(row.trained_mask) for row in rows):
            return {}
        rate = learning_rate(
            step, peak=config.critic_learning_rate, warmup=config.warmup_steps, total=config.steps, schedule=config.schedule
        )
        self.optimizer.zero_grad(set_to_none=True)
        self.sharded.gather()
        with checkpointing(self.model, config.gradient_checkpointing):
            metrics = accumulate_values(
                self.model, rows, value_clip=config.value_clip, how=ForwardOptions(**forward), world=self.world
            )
        self.sharded.reduce_gradients()
        norm = clip_gradients(self.model.parameters(), config.max_grad_norm)
        set_learning_rate(self.optimizer, rate)
        step_if_finite(self.optimizer, norm, step, "critic")
        return {**metrics, "critic_grad_norm": float(norm)}


def accumulate_values(
    model: Any, rows: Sequence[TrainingRow], *, value_clip: float | None, how: ForwardOptions, world: World = SOLO
) -> dict[str, float]:
    """Add the gradient of the value loss, a mean over the trained tokens of all rows, to the model; return the loss's metrics.

    Args:
        model: a `ValueModel`.
        rows: rows with `values` and `returns`.
        value_clip: see `gae.value_loss`.
        how: see `ForwardOptions`; its temperature has no effect.
        world: the processes, each of which runs its share of the rows.
    """
    blank_BT = torch.zeros(len(rows), max(len(row.token_ids) for row in rows), dtype=torch.bool)
    weights_BT = token_weights(padded([row.trained_mask for row in rows], blank_BT), "token_mean", dtype=torch.float64)
    prompts, completions = [row.prompt_ids for row in rows], [row.token_ids for row in rows]
    total = clipped = 0.0
    local = share_rows(prompts, completions, [b for b, row in enumerate(rows) if any(row.trained_mask)], world)
    with gathered(model):
        for batch, run in micro_batch_passes(model, prompts, completions, local, how):
            values_BT = run(None).logp_BT
            old_BT, returns_BT = (padded([getattr(rows[b], name) for b in batch], values_BT) for name in ("values", "returns"))
            loss_BT, clipped_BT = value_loss(values_BT, old_BT, returns_BT, value_clip=value_clip)
            part_BT = weights_BT[batch, : values_BT.shape[1]].to(values_BT)
            loss = weighted_sum(loss_BT, part_BT)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            clipped += float(weighted_sum(clipped_BT.to(values_BT.dtype), part_BT))
    return world.total({"value_loss": total, "value_clip_fraction": clipped})


def _cut(row: TrainingRow, values: Sequence[float]) -> tuple[float, ...]:
    return tuple(values[: len(row.token_ids)])


def _explained(values_N: torch.Tensor, returns_N: torch.Tensor) -> dict[str, float]:
    """Return the share of the returns' variance that the values explain, as a metric; no metric if all returns are equal."""
    variance = float(returns_N.var(correction=0))
    if variance < 1e-12:  # rounding
        return {}
    return {"explained_variance": 1 - float((returns_N - values_N).var(correction=0)) / variance}
