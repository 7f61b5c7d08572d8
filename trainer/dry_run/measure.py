"""Measures three small steps of a run, with the run's own code and fewer prompts and tokens. Nothing is written."""

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
from verigym.envs.sessions import Sessions
from verigym.trainer.advantages.gae import whole_reward
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import Credit
from verigym.trainer.dry_run.formulas import Speed, Tokens, shares_prompts, speed_of
from verigym.trainer.logprobs.shared_prefix import copy_charge
from verigym.trainer.loop import Run
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source, shares_of

MEASURED_TOKENS = 48
"""Most tokens of a completion."""
MEASURE_S = 8.0
"""About how long the largest measured step may take."""
PROMPTS_MEASURED = 8
"""Prompts of each source whose length is measured."""


@dataclass(frozen=True)
class Measured:
    """The figures measured in the small steps."""

    speed: Speed
    activation_bytes: float
    """Kept for the backward pass, by one token of a micro-batch."""
    completions: tuple[int, ...]
    """Lengths in tokens."""
    truncated: tuple[bool, ...]
    """Of each completion, whether it was cut off."""
    grading_s: float
    """Mean seconds of one verdict."""
    prompt_tokens: float
    """Mean length of a prompt of the mixture."""


def measure(
    config: TrainConfig, sources: Sequence[Source], graders: Mapping[str, Grader], sessions: Mapping[str, Sessions]
) -> Measured:
    """Run three small steps with the run's own model, sources and settings, and time the last, which is the largest.

    Completions are always sampled by the native engine: to measure with servers, the policy's weights would have to be pushed
    to them. All completions count as correct and are trained on with an advantage of 1, so that no update is skipped.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run(_small(config, Path(folder), 1), sources, graders, sessions=sessions)
        run.learner.credit = {source.label: Credit(whole_reward) for source in sources}
        saved = SavedBytes(run.learner.model, *([run.learner.critic.model] if run.learner.critic else []))
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            [group], *_ = _step(run, 0)
        # What the rows of the group take of micro_batch_tokens.
        copies = copy_charge(len(group.prompt_ids)) * config.group_size if shares_prompts(config) else 0
        charged = min(_tokens([group]).trained(config) + copies, config.micro_batch_tokens)
        _, *seconds = _step(run, 1)  # the first one loaded kernels
        prompts = max(2, min(config.prompts_per_step, int(MEASURE_S / sum(seconds))))
        run.config = run.builder.config = run.learner.config = _small(config, Path(folder), prompts)
        groups, generate_s, update_s = _step(run, 2)
        return Measured(
            speed=speed_of(_tokens(groups), generate_s, update_s, config),
            activation_bytes=saved.peak / charged,
            completions=tuple(len(done.token_ids) for group in groups for done in group.generated),
            truncated=tuple(cut for group in groups for cut in group.truncated),
            grading_s=fmean(score.seconds for group in groups for score in group.scores),
            prompt_tokens=_prompt_tokens(run, sources),
        )


def _small(config: TrainConfig, folder: Path, prompts: int) -> TrainConfig:
    changes: dict[str, Any] = {
        "output": folder,
        "engine": "native",
        "vllm_urls": (),
        "overlap": "none",
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


def _step(run: Run, step: int) -> tuple[list[Group], float, float]:
    """Return the groups of step `step`, the seconds of generation and the seconds of the update."""
    start = time.perf_counter()
    groups = run.rollouts(step).groups
    _wait(run.learner.device)
    generated = time.perf_counter()
    run.learner.update(step, [replace(group, scores=(Score.correct(),) * len(group.scores)) for group in groups])
    _wait(run.learner.device)
    return groups, generated - start, time.perf_counter() - generated


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _tokens(groups: Sequence[Group]) -> Tokens:
    completions = sum(len(done.token_ids) for group in groups for done in group.generated)
    return Tokens(sum(len(group.prompt_ids) for group in groups), completions)


def _prompt_tokens(run: Run, sources: Sequence[Source]) -> float:
    """Return the mean prompt length of the mixture in tokens, weighted by source, from `PROMPTS_MEASURED` prompts of each."""
    mean, tried = 0.0, 10 * PROMPTS_MEASURED
    for source, share in zip(sources, shares_of(run.config.sources), strict=True):
        lengths: list[int] = []
        for index in range(tried):
            try:
                tokens = len(run.codec.encode(source.train(index)))
            except RowError:
                continue
            if tokens <= run.config.max_prompt_tokens:
                lengths.append(tokens)
            if len(lengths) == PROMPTS_MEASURED:
                break
        if not lengths:
            raise UsageError(
                f"source {source.label!r}: none of the first {tried} prompts fits into max_prompt_tokens "
                f"({run.config.max_prompt_tokens}) and the data set"
            )
        mean += share * fmean(lengths)
    return mean


class SavedBytes:
    """Autograd hooks that count the bytes kept for the backward pass.

    Weights do not count, nor does any tensor with the shape of a weight. Such tensors are autocast's copies and gradients of
    weights: they do not grow with the number of tokens, and in a large model they exceed the activations of a few tokens.
    """

    def __init__(self, *models: Any) -> None:
        parameters = [parameter for model in models for parameter in model.parameters()]
        self._weights = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._shapes = {tuple(parameter.shape) for parameter in parameters if parameter.dim() > 1}
        self._kept: dict[int, int] = {}
        self._backward = False
        self.peak = 0

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count `tensor`, which autograd keeps, and return it; views of one storage count once."""
        if self._backward:  # the next micro-batch: what the last one kept is gone
            self._kept, self._backward = {}, False
        storage = tensor.untyped_storage()
        of_weight = tuple(tensor.shape) in self._shapes or tuple(tensor.shape[::-1]) in self._shapes
        if storage.data_ptr() not in self._weights and not of_weight:
            self._kept[storage.data_ptr()] = storage.nbytes()
            self.peak = max(self.peak, sum(self._kept.values()))
        return tensor

    def unpack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record that the backward pass has begun, and return `tensor`."""
        self._backward = True
        return tensor
