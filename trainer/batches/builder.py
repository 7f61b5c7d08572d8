"""`BatchBuilder`: chooses each step's tasks and the groups that the step trains on; keeps the state for later steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.trainer.batches.dynamic_sampling import Filled, refill
from verigym.trainer.batches.replay import Replay
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.overlong import price_truncated, punish_overlong
from verigym.trainer.credit.rows import Credit, compares_prompts, has_signal
from verigym.trainer.monitoring.grader_bugs import GraderBugs
from verigym.trainer.rollout.collect import Group, refuse_accepted_canaries
from verigym.trainer.rollout.group_json import dump_group, load_group
from verigym.trainer.tasks.canaries import draw_canaries
from verigym.trainer.tasks.curriculum import Curriculum
from verigym.trainer.tasks.mixture import Mixture, Source

Collect = Callable[[Sequence[tuple[Source, Prompt]], tuple[object, ...]], list[Group]]
"""Function that takes tasks and a randomness key; it samples and grades one group for each task."""


@dataclass(frozen=True)
class Batch:
    """The groups that one step trains on."""

    groups: list[Group]
    """Trained on."""
    sampled: list[Group]
    """Groups that the step's metrics describe: all groups sampled in this step, whether it trains on them or not. If nothing
    was sampled, because leftovers of the step before sufficed, these leftovers."""
    metrics: dict[str, float]

    def off_policy(self) -> Batch:
        """Return a copy of the batch that is marked as sampled by the policy of an earlier step."""
        return replace(self, groups=[replace(group, off_policy=True) for group in self.groups])


def dump_batch(batch: Batch) -> dict[str, Any]:
    """Return `batch` as JSON data."""
    groups, sampled = ([dump_group(group) for group in some] for some in (batch.groups, batch.sampled))
    return {"groups": groups, "sampled": sampled, "metrics": batch.metrics}


def load_batch(data: Mapping[str, Any], environments: Mapping[str, Environment]) -> Batch:
    """Return the batch that `dump_batch` turned into `data`.

    Args:
        data: from `dump_batch`.
        environments: environment of each source, by the source's label.
    """
    groups, sampled = ([load_group(group, environments) for group in data[name]] for name in ("groups", "sampled"))
    return Batch(groups, sampled, dict(data["metrics"]))


def refuse_lost_signal(config: TrainConfig, credit: Mapping[str, Credit]) -> None:
    """Refuse dynamic sampling together with an advantage that needs groups of equal rewards.

    Dynamic sampling drops groups of equal rewards, but with some advantages these groups have a gradient.

    Raises:
        UsageError: an advantage learns from groups of equal rewards.
    """
    for label, rule in credit.items():
        if config.dynamic_sampling and compares_prompts(rule):
            raise UsageError(
                f"source {label!r}: its advantage compares completions with more than their own group, so it learns from the "
                "groups of equal rewards that dynamic_sampling drops; use only one of the two"
            )


class BatchBuilder:
    """Chooses the groups that each step trains on, from fresh samples, leftovers and replay.

    Later steps depend on two things: what the method `state` returns, and the number of tasks drawn from each source.
    """

    def __init__(self, config: TrainConfig, sources: Sequence[Source], credit: Mapping[str, Credit]) -> None:
        """Start without leftovers, replayed groups or pass rates.

        Args:
            config: the settings of the run.
            sources: the mixture.
            credit: by each source's label, the rule that turns its verdicts into advantages.

        Raises:
            UsageError: see `refuse_lost_signal`.
        """
        refuse_lost_signal(config, credit)
        self.config = config
        self.credit = credit
        labels = [source.label for source in sources]
        shares = {name: getattr(config, name) for name in ("hard_share", "easy_share", "hard_below", "easy_above")}
        endless = [source.label for source in sources if source.endless]
        self.curriculum = Curriculum(labels, config.seed, endless=endless, **shares) if config.curriculum else None
        self.mixture = Mixture(sources, config.seed, self.curriculum)
        bounds: dict[str, Any] = {"size": config.replay_size, "max_age": config.replay_max_age}
        self.replay = Replay(config.seed, below=config.replay_below, **bounds)
        self.leftovers: list[Group] = []
        self.bugs = GraderBugs(config.broken_grader_share)

    def step(self, step: int, collect: Collect, fits: Callable[[Prompt], bool]) -> Batch:
        """Sample and choose the groups for one training step, and return them as a batch.

        Args:
            step: number of the step, counted from 0.
            collect: samples and grades groups.
            fits: returns True if a prompt is short enough.
        """
        config = self.config
        if self.curriculum:
            self.curriculum.next_step()
        replayed = self.replay.take(step, int(config.replay_share * config.prompts_per_step))
        plan = self.mixture.plan(step, config.prompts_per_step - len(replayed))
        canaries = draw_canaries(self.mixture.sources, config.seed, step, config.prompts_per_step, config.canary_share)
        canaries = [(source, prompt) for source, prompt in canaries if fits(prompt)]
        sampled: list[Group] = []
        rounds = 0

        def draw(sources: Sequence[Source]) -> list[Group]:
            nonlocal rounds
            key = ("train", config.seed, step, *(("round", rounds) if rounds else ()))
            rounds += 1
            tasks = [(source, self.mixture.draw(source, fits)) for source in sources]
            # Canaries come last, because the randomness of tasks is keyed by their positions.
            collected = self.bugs.checked(collect([*tasks, *(canaries if rounds == 1 else ())], key))
            self._observe(collected)
            groups = collected[: len(tasks)]
            sampled.extend(groups)
            return groups

        if config.dynamic_sampling:
            filled = refill(
                plan,
                self.leftovers,
                draw,
                lambda group: has_signal(group, self.credit[group.source], mask_truncated=config.truncated == "mask"),
                config.max_oversampling,
            )
        else:
            filled = Filled(draw(plan), [], 0)
        metrics = self._metrics(filled, sampled, replayed)
        if self.mixture.left_out:
            metrics["prompts_left_out"] = self.mixture.left_out.total()
            self.mixture.left_out.clear()
        if canaries and rounds:
            metrics["canaries"] = len(canaries)
        self.leftovers = filled.leftovers
        if config.replay_share:
            self.replay.offer(step, filled.groups)
        trained = self._with_length_terms([*filled.groups, *replayed])
        return Batch(trained, self._with_length_terms(sampled or filled.groups), metrics)

    def _observe(self, groups: Sequence[Group]) -> None:
        refuse_accepted_canaries(groups)
        for group in groups:
            rate = group.pass_rate
            if self.curriculum and rate is not None and not group.canary:
                self.curriculum.observe(group.source, group.prompt.key, rate)

    def _with_length_terms(self, groups: Sequence[Group]) -> list[Group]:
        # Only after dynamic sampling, which must not take a difference in length alone for a signal.
        longest, cache, price = self.config.max_new_tokens, self.config.overlong_cache, self.config.truncated_reward
        if price is not None:
            return [price_truncated(group, price) for group in groups]
        return [punish_overlong(group, longest, cache) if cache else group for group in groups]

    def _metrics(self, filled: Filled, sampled: Sequence[Group], replayed: Sequence[Group]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if self.config.dynamic_sampling:
            metrics["sampled_groups"] = len(sampled)
            metrics["missing_groups"] = filled.missing
            metrics["leftovers_used"] = sum(group.off_policy for group in filled.groups)
            metrics["leftovers_kept"] = len(filled.leftovers)
            labels = [source.label for source in self.mixture.sources]
            for label in labels if len(labels) > 1 else ():
                metrics[f"{label}/trained_groups"] = sum(group.source == label for group in [*filled.groups, *replayed])
        if self.config.replay_share:
            metrics["replayed_groups"] = len(replayed)
        return metrics | self.bugs.metrics() | (self.curriculum.metrics() if self.curriculum else {})

    def state(self) -> dict[str, Any]:
        """Return the builder's state for a checkpoint, as JSON data, without the number of tasks drawn from each source."""
        return {
            "leftovers": [dump_group(group) for group in self.leftovers],
            "replay": self.replay.state(),
            "curriculum": self.curriculum.state() if self.curriculum else None,
            "bugs": self.bugs.state(),
        }

    def restore(self, drawn: Mapping[str, int], state: Mapping[str, Any]) -> None:
        """Restore the builder from a checkpoint.

        Args:
            drawn: number of tasks drawn from each source, by the source's label.
            state: returned by the method `state` of the builder that wrote the checkpoint.

        Raises:
            UsageError: the checkpoint was saved with other sources.
        """
        self.mixture.restore(drawn)
        environments = {source.label: source.environment for source in self.mixture.sources}
        self.leftovers = [load_group(group, environments) for group in state["leftovers"]]
        self.replay.restore(state["replay"], environments)
        self.bugs.restore(state["bugs"])
        if self.curriculum:
            self.curriculum.restore(state["curriculum"])
