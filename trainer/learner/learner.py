"""`Learner`: the policy, its optimizer, and the updates of a step."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints.tensors import save_tensors
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import credits_of, training_rows
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.fsdp import ShardedPolicy, clip_gradients, gathered, shard
from verigym.trainer.distributed.full_shards import FullyShardedPolicy, load_sharded, load_sharded_with_adapters
from verigym.trainer.distributed.replicated import AdaptersOnShards, ReplicatedPolicy
from verigym.trainer.distributed.sharded_checkpoint import (
    load_weights,
    own_rows,
    restore,
    save_shards,
    save_weights,
    whole_model,
)
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.learner.bad_batch import save_bad_batch
from verigym.trainer.learner.critic import Critic
from verigym.trainer.learner.kl_reward import kl_penalties
from verigym.trainer.learner.objective import build_objective
from verigym.trainer.learner.optimizers import build_optimizer, learning_rate, set_learning_rate, step_if_finite
from verigym.trainer.learner.update import Objective, accumulate, forward_options, with_old_logprobs
from verigym.trainer.logprobs.forward import checkpointing
from verigym.trainer.losses.kl import KL_ESTIMATORS
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.liger import use_liger
from verigym.trainer.models.loading import load_model, pick_device, positions_of
from verigym.trainer.models.lora import (
    EarlierAdapter,
    WithoutAdapter,
    load_adapter,
    load_policy,
    save_adapter,
    save_policy,
)
from verigym.trainer.rollout.collect import Group
from verigym.trainer.threads import use_threads

logger = logging.getLogger("verigym.trainer")

REFERENCE = "reference"
"""Name of the KL reference's weights in a checkpoint. Only runs that replace the reference (`reference_every`) save it."""

Policy = ShardedPolicy | FullyShardedPolicy | ReplicatedPolicy
"""How the processes hold the policy."""

COUNTS = ("trained_rows", "rows_with_advantage", "rows_with_gradient")
"""Metrics that are counts of rows. A step trains on its rows for one or several epochs; as every epoch has the same counts,
they are summed over the updates of one epoch. All other metrics are means over all updates of the step."""


class Learner:
    """The policy with its optimizer, objective and critic."""

    def __init__(
        self,
        config: TrainConfig,
        start: Path | None = None,
        world: World = SOLO,
        environments: Mapping[str, Environment] | None = None,
    ) -> None:
        """Load the policy and make its optimizer, objective and critic.

        Args:
            config: the run.
            start: the checkpoint to resume from; None for the config's model.
            world: the processes that train the policy together.
            environments: environment of each source, by label. Needed only with `step_rewards`, whose rewards
                come from components of the environments.

        Raises:
            UsageError: the model, its size or the objective does not fit the config.
        """
        self.config, self.world = config, world
        self.credit = credits_of(config, environments or {})
        self.device = pick_device(config.device)
        self.full = config.shard == "full" and world.size > 1
        self.sharded, tokenizer = self._policy(whole_model(start))
        self.model = self.sharded.model
        self.changed = False
        """Whether the present or last update has changed weights."""
        self.threads = use_threads(self.model, config.threads, config.output, alike=config.overlap != "none")
        self.codec = Codec(tokenizer, self.model.generation_config, config.chat_template_kwargs)
        self.optimizer = build_optimizer(self.model.parameters(), config)
        if start:
            restore(start, self.model, self.optimizer)
        self.sharded.gather()
        positions = positions_of(self.model)
        if positions is not None and config.max_new_tokens >= positions:
            raise UsageError(f"max_new_tokens is {config.max_new_tokens}, but the model has {positions} positions in all")
        self.objective = self._objective(start)
        self.critic = Critic(config, self.device, start, world) if config.advantage == "gae" else None

    def _policy(self, start: Path | None) -> tuple[Policy, Any]:
        config, world = self.config, self.world
        if self.full:
            if config.lora_rank:
                model, tokenizer = load_sharded_with_adapters(config, config.model, config.seed, world, self.device, start)
            else:
                model, tokenizer = load_sharded(start / "model" if start else config.model, world, self.device, trained=True)
            if config.liger:
                use_liger(model, self.device)
            return (AdaptersOnShards if config.lora_rank else FullyShardedPolicy)(model, world), tokenizer
        if config.shard == "full":
            logger.warning("shard: full has no effect in one process; start several by torchrun")
        copied = config.lora_rank > 0 and world.size > 1
        place = self.device if copied else world.loading(self.device)
        model, tokenizer = load_policy(config.model, config, config.seed, place, start)
        if config.liger:
            use_liger(model, self.device)
        if copied:
            return ReplicatedPolicy(model, world), tokenizer
        return ShardedPolicy(model, world, self.device), tokenizer

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Return a context in which the policy's weights are gathered, so that processes can sample independently, with the
        threads for sampling.

        All processes must enter the context together; within it, each may sample any number of completions.
        """
        with self.threads.while_sampling(), gathered(self.model):
            yield

    def _reference(self) -> Any:
        """Load and return the KL's reference, the initial model."""
        if self.full:
            reference, _ = load_sharded(self.config.model, self.world, self.device, trained=False)
        else:
            reference, _ = load_model(self.config.model, self.world.loading(self.device))
            reference.requires_grad_(False)
        if self.config.liger:
            use_liger(reference, self.device)
        if not self.full:
            shard(reference, self.world, self.device)
        return reference

    def _objective(self, start: Path | None) -> Objective:
        config = self.config
        reference: Any = None
        if config.kl_coef > 0 and config.lora_rank:
            reference = EarlierAdapter(self.model) if config.reference_every else WithoutAdapter(self.model)
        elif config.kl_coef > 0:
            reference = self._reference()
        if start and isinstance(reference, EarlierAdapter):
            load_adapter(reference.tensors, start / f"{REFERENCE}.safetensors")
        elif start and config.reference_every:
            load_weights(start / REFERENCE, reference)
        if config.reference_every >= config.steps:
            logger.warning("reference_every is %d: a run of %d steps ends before that", config.reference_every, config.steps)
        limits: dict[str, Any] = {"max_new_tokens": config.max_new_tokens, "temperature": config.temperature}
        return build_objective(config, reference, **limits)

    def _renew_reference(self, step: int) -> dict[str, float]:
        """Copy the policy into the KL's reference if that is due at `step`, counted from 0; return a metric of it."""
        every, reference = self.config.reference_every, self.objective.reference
        if not every:
            return {}
        if step and step % every == 0:
            logger.info("step %d: the policy after step %d is the KL's reference from here on", step + 1, step)
            if isinstance(reference, EarlierAdapter):
                reference.take()
            else:
                with self.sharded.released(), torch.no_grad():
                    for copied, parameter in zip(reference.parameters(), self.model.parameters(), strict=True):
                        own_rows(copied).copy_(own_rows(parameter))
        return {"reference_step": float(step - step % every)}

    def update(self, step: int, groups: Sequence[Group]) -> tuple[dict[str, float], list[list[TrainingRow]]]:
        """Train on a step's groups.

        Return the step's metrics, and each group's training rows as they were before the first update.

        Args:
            step: number of the training step, counted from 0.
            groups: completions of the step with their verdicts; may be empty.
        """
        config, self.changed = self.config, False
        rate = learning_rate(
            step, peak=config.learning_rate, warmup=config.warmup_steps, total=config.steps, schedule=config.schedule
        )
        set_learning_rate(self.optimizer, rate)
        # Not at the end of the previous step, whose checkpoint must not depend on whether another step follows.
        renewed = self._renew_reference(step)
        forward = forward_options(config, self.codec.pad_id, config.dtype)
        if self.full:  # the processes' prompts would have to end their backward passes together
            forward["shared_prefix"] = False
        distributed = {**forward, "world": self.world}
        penalties_BT, metrics = None, dict[str, float]()
        if config.kl_place == "reward" and config.kl_coef > 0 and groups:
            kl = KL_ESTIMATORS[config.kl_estimator]
            penalties_BT, metrics = kl_penalties(
                self.objective.reference, groups, kl, config.kl_coef, temperature=config.temperature, **distributed
            )
        initial = rows_by_group = training_rows(
            groups,
            self.credit,
            self.codec,
            mask_truncated=config.truncated == "mask",
            penalties_PG=None if penalties_BT is None or self.critic else penalties_BT.sum(1).reshape(len(groups), -1),
            ratio_to_sampler=config.correction in (None, "opsm"),
        )
        if self.critic:
            initial, values = self.critic.credit(initial, penalties_BT, **forward)
            rows_by_group, metrics = initial, metrics | values
        shares = config.updates_per_step
        if shares * config.epochs_per_step > 1:
            rows_by_group = with_old_logprobs(self.model, rows_by_group, self.objective, **distributed)
        reports: dict[str, list[float]] = {}
        for number in range(shares * config.epochs_per_step):
            rows = [row for rows in rows_by_group[number % shares :: shares] for row in rows]
            self.optimizer.zero_grad(set_to_none=True)
            with checkpointing(self.model, config.gradient_checkpointing):
                parts = accumulate(self.model, rows, self.objective, **distributed)
            if "loss" in parts:
                self.sharded.reduce_gradients()
                norm = clip_gradients(self.model.parameters(), config.max_grad_norm)
                parts["grad_norm"] = float(norm)
                self.changed = True
                step_if_finite(self.optimizer, norm, step)
                self.sharded.gather()
            elif parts["trained_rows"] == 0:
                logger.warning("step %d: no completion could be trained on; the weights stay as they are", step + 1)
            if self.critic:
                self.changed = True
                parts |= self.critic.update(step, rows, **forward)
            if self.world.main and not all(math.isfinite(parts.get(name, 0.0)) for name in ("grad_norm", "critic_grad_norm")):
                save_bad_batch(config.output / "bad_batches", step + 1, rows, parts, self.codec.decode)
            for name, value in parts.items():
                reports.setdefault(name, []).append(value)
        # Counts are summed over the updates of one epoch, as every epoch has the same; the rest are means over updates.
        metrics |= {name: sum(v) / (config.epochs_per_step if name in COUNTS else len(v)) for name, v in reports.items()}
        return {"learning_rate": rate, **renewed, **metrics}, initial

    def save(self, folder: Path) -> None:
        """Write the policy, its tokenizer and the optimizer's state to `folder`.

        With several processes, each writes its own rows of the weights and of the optimizer's state. Adapters are the same in
        all processes, so only the first process writes them. Tokenizer and model configuration are written
        only together with full weights; else those of the model from which the run began are used.
        """
        self._save_reference(folder)
        if self.critic:
            self.critic.save(folder)
        if self.sharded.in_rows:
            with self.sharded.released():
                save_shards(folder, self.model, self.optimizer, self.world)
        elif self.world.main:
            save_policy(self.model, self.codec.tokenizer, folder)
            save_tensors(self.optimizer.state_dict(), folder / "optimizer.pt")

    def _save_reference(self, folder: Path) -> None:
        reference = self.objective.reference
        if not self.config.reference_every:
            return
        if isinstance(reference, EarlierAdapter):
            if not self.world.main:
                return
            save_adapter(reference.tensors, folder / f"{REFERENCE}.safetensors")
        else:
            save_weights(folder / REFERENCE, reference, self.world)

    def export(self, folder: Path) -> Path:
        """Write the policy and its tokenizer to `folder` so that transformers can load them, and return the folder."""
        self.sharded.export(folder)
        if self.world.main:
            self.codec.tokenizer.save_pretrained(folder)
        self.world.wait()
        return folder
