"""The lines that a run prints at its start and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source, shares_of

REASONS = 3
"""Largest number of reasons for unscored completions that are printed; the most common reasons come first."""


def opening(config: TrainConfig, sources: Sequence[Source], model: Any, device: str, world_size: int, done: int) -> list[str]:
    """Return the lines that open a run's output.

    They name the model, the device, the sources, and the numbers of steps, prompts and completions.

    Args:
        config: the run.
        sources: the mixture.
        model: the policy, a torch module.
        device: cpu or cuda.
        world_size: number of processes that train together.
        done: number of finished steps.
    """
    numbers = size(sum(parameter.numel() for parameter in model.parameters()))
    where = f"{device}, {config.dtype}" + (f", {config.threads} threads" if config.threads else "")
    where += f", {world_size} processes" if world_size > 1 else ""
    lines = [f"GRPO of {config.model} ({numbers} parameters) on {where}; to {config.output}"]
    for source, share in zip(sources, shares_of(sources), strict=True):
        tasks = "writes its own tasks" if source.tasks is None else f"{source.tasks:,} tasks"
        held_out, grader = f"{len(source.held_out):,} held out", source.environment.grader
        lines.append(f"  {source.label}: {share:.0%} of the prompts, {tasks}, {held_out}, graded by {grader}")
    each = f"{config.prompts_per_step} prompts x {config.group_size} completions of at most {config.max_new_tokens} tokens"
    lines.append(f"  {config.steps} steps of {each}" + (f"; resuming from step {done}" if done else ""))
    return lines


def size(numbers: int) -> str:
    """Return the count `numbers` in short, such as `2.4M`."""
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if numbers >= unit:
            return f"{numbers / unit:.1f}{name}"
    return str(numbers)


class UnscoredReasons:
    """Counts the reasons why completions got no verdict since this process began, for a summary at the end."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()

    def add(self, groups: Sequence[Group]) -> None:
        """Count the unscored completions in the graded groups `groups`, by reason."""
        for group in groups:
            for score in group.scores:
                if score.error is not None:
                    # What a judge says of its texts differs from text to text; where it raised is one cause.
                    at = score.raised and f"{score.raised.error.partition(':')[0]} at {score.raised.place}"
                    self.counts[group.source, f"{score.error.kind}: {at or score.error.message}"[:200]] += 1

    def closing(self, history: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return lines that say how many completions were unscored, and why.

        Args:
            history: the rows of metrics.jsonl.
        """
        steps, completions, unscored = 0, 0.0, 0.0
        for row in history:
            if row["kind"] == "train":
                steps += 1
                completions += row.get("completions") or 0
                unscored += row.get("unscored") or 0
        if not unscored:
            return [f"all {completions:,.0f} completions of {steps:,} steps were scored"]
        share = f"{unscored:,.0f} of {completions:,.0f} completions of {steps:,} steps"
        lines = [f"unscored: {share}; they are in no loss and in no mean"]
        lines += [f"  {source}: {count:,} by {reason}" for (source, reason), count in self.counts.most_common(REASONS)]
        left = sum(self.counts.values()) - sum(count for _, count in self.counts.most_common(REASONS))
        return lines + ([f"  {left:,} for other reasons"] if left else [])
