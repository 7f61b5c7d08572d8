"""A few small steps of a run, timed: the run's own code with fewer prompts and tokens, in memory only."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from verigym.datasets_cfg.load import RowError
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score
from verigym.envs.grading import Grader
from verigym.trainer.advantages.gae import whole_reward
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import Credit, compares_prompts, credits_of, has_signal
from verigym.trainer.dry_run.formulas import Lengths, Timing, shares_prompts, trained_tokens
from verigym.trainer.engines.native.decoders import decodable
from verigym.trainer.logprobs.forward import autocast
from verigym.trainer.logprobs.shared_prefix import copy_charge
from verigym.trainer.loop import Run
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source

MEASURED_TOKENS = 48
"""Most tokens of a completion."""
MEASURE_S = 8.0
"""About how long the largest measured step may take."""
LOOKED_AT = 32
"""Prompts a source whose length is looked at."""


@dataclass(frozen=True)
class Measured:
    """What the small steps showed."""

    timings: tuple[Timing, ...]
    activation_bytes: float
    """Kept for the backward pass, a token of a micro-batch."""
    completions: tuple[int, ...]
    """Lengths in tokens."""
    cut: tuple[bool, ...]
    """Which were cut off."""
    with_signal: float
    """Share of the groups that would be trained on."""
    grading_s: float
    """Seconds of one verdict, mean."""
    prompts: tuple[int, ...]
    """Lengths of prompts in the proportions of the mixture."""
    refills: bool
    """Whether rows come while others are decoded; see `decoders.Decoder`."""


def measure(config: TrainConfig, sources: Sequence[Source], graders: Mapping[str, Grader]) -> Measured:
    """Run three small steps with the configuration's own model, sources and settings: one to warm up, two to be timed.

    Whatever the engine, completions are sampled as by the native one: a server would have to be given the policy's weights. All
    count as right and are trained on with an advantage of 1, whatever the run's own rule, so that no update is skipped.
    """
    credit = credits_of(config, {source.label: source.environment for source in sources})
    with tempfile.TemporaryDirectory() as folder:
        run = Run(_small(config, Path(folder), 1), sources, graders)
        run.learner.credit = {label: Credit(whole_reward) for label in credit}
        start = time.perf_counter()
        saved = SavedBytes(run.learner.model, *([run.learner.critic.model] if run.learner.critic else []))
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            groups, warm_up = _step(run, 0)
        first_s = time.perf_counter() - start
        tokens = min(_charged_tokens(warm_up.rows, shares_prompts(config)), config.micro_batch_tokens)
        _, small = _step(run, 1)
        many = max(2, min(config.prompts_per_step, int(MEASURE_S / first_s)))
        run.config = run.builder.config = run.learner.config = _small(config, Path(folder), many)
        more, large = _step(run, 2)
        every = [*groups, *more]
        return Measured(
            timings=(small, large),
            activation_bytes=saved.peak / tokens,
            completions=large.rows.completions,
            cut=tuple(cut for group in more for cut in group.truncated),
            with_signal=fmean(_trained(group, credit[group.source]) for group in more),
            grading_s=fmean(score.seconds for group in every for score in group.scores),
            prompts=_prompt_lengths(run, sources),
            refills=_refills(run),
        )


def _small(config: TrainConfig, folder: Path, prompts: int) -> TrainConfig:
    changes: dict[str, Any] = {
        "output": folder,
        "engine": "native",
        "vllm_urls": (),
        "prompts_per_step": prompts,
        "updates_per_step": min(config.updates_per_step, prompts),
        "max_new_tokens": min(config.max_new_tokens, MEASURED_TOKENS),
        "dynamic_sampling": False,
        "curriculum": False,
        "replay_share": 0.0,
        "overlong_cache": 0,
        "truncated": "score",
        "step_rewards": False,
    }
    return config.model_copy(update=changes)


def _charged_tokens(rows: Lengths, share_prompts: bool) -> int:
    """Return the tokens of `micro_batch_tokens` that the rows take, all of one group."""
    copies = copy_charge(max(rows.prompts)) if share_prompts else 0
    return trained_tokens(rows, share_prompts) + copies * len(rows.completions)


def _step(run: Run, step: int) -> tuple[list[Group], Timing]:
    start = time.perf_counter()
    groups = run.rollouts(step).groups
    _wait(run.learner.device)
    written = time.perf_counter()
    run.learner.update(step, [_all_right(group) for group in groups])
    _wait(run.learner.device)
    lengths = Lengths(
        tuple(len(group.prompt_ids) for group in groups),
        tuple(len(done.token_ids) for group in groups for done in group.generated),
    )
    return groups, Timing(lengths, written - start, time.perf_counter() - written)


def _all_right(group: Group) -> Group:
    return replace(group, scores=(Score.correct(),) * len(group.scores))


def _trained(group: Group, credit: Credit) -> bool:
    """Whether the run's own rule would train on the group; being cut off here is no reason against it, as tokens are few."""
    return compares_prompts(credit) or has_signal(group, credit, mask_truncated=False)


def _refills(run: Run) -> bool:
    with autocast(run.learner.device, run.config.dtype):
        return decodable(run.learner.model)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _prompt_lengths(run: Run, sources: Sequence[Source]) -> tuple[int, ...]:
    """Return lengths of `LOOKED_AT` prompts in all, each source with its share of them."""
    total = sum(source.weight for source in sources)
    lengths: list[int] = []
    for source in sources:
        wanted = max(1, round(LOOKED_AT * source.weight / total))
        found: list[int] = []
        for index in range(10 * wanted):
            try:
                tokens = len(run.codec.encode(source.train(index)))
            except RowError:
                continue
            if tokens <= run.config.max_prompt_tokens:
                found.append(tokens)
            if len(found) == wanted:
                break
        if not found:
            raise UsageError(
                f"source {source.label!r}: none of the first {10 * wanted} prompts fits into max_prompt_tokens "
                f"({run.config.max_prompt_tokens}) and the data set"
            )
        lengths += found
    return tuple(lengths)


class SavedBytes:
    """Hooks that count what a forward pass keeps for its backward pass, the models' own weights left out."""

    def __init__(self, *models: Any) -> None:
        self._weights = {parameter.untyped_storage().data_ptr() for model in models for parameter in model.parameters()}
        self._kept: dict[int, int] = {}
        self._backward = False
        self.peak = 0

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor that is kept; views of one storage count once."""
        if self._backward:  # the next micro-batch: what the last one kept is gone
            self._kept, self._backward = {}, False
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._kept[storage.data_ptr()] = storage.nbytes()
            self.peak = max(self.peak, sum(self._kept.values()))
        return tensor

    def unpack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note that the backward pass has begun."""
        self._backward = True
        return tensor
