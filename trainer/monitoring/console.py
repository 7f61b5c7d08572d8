"""The lines that a run prints at its start and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source, shares_of

REASONS = 3
"""Largest number of reasons for failures of grading that are printed; the most common reasons come first."""


def opening(
    config: TrainConfig, sources: Sequence[Source], model: Any, device: str, threads: str, world_size: int, done: int
) -> list[str]:
    """Return the lines that open a run's output.

    They name the model, the device, the sources, and the numbers of steps, prompts and completions.

    Args:
        config: the run.
        sources: the mixture.
        model: the policy, a torch module.
        device: cpu or cuda.
        threads: the numbers of CPU threads, in words.
        world_size: number of processes that train together.
        done: number of finished steps.
    """
    numbers = size(sum(parameter.numel() for parameter in model.parameters()))
    where = f"{device}, {config.dtype}, {threads}"
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


class GradingFailures:
    """Counts why completions got no verdict, and what `judge` raised, since this process began, for the end of a run."""

    def __init__(self) -> None:
        self.unscored = Counter[tuple[str, str]]()
        self.raised = Counter[tuple[str, str]]()

    def add(self, groups: Sequence[Group]) -> None:
        """Count the failures in the graded groups `groups`, by source and reason."""
        for group in groups:
            for score in group.scores:
                # What a judge says of its texts differs from text to text; where it raised is one cause.
                at = score.raised.cause if score.raised is not None else ""
                if at:
                    self.raised[group.source, at[:200]] += 1
                if score.error is not None:
                    self.unscored[group.source, f"{score.error.kind}: {at or score.error.message}"[:200]] += 1

    def closing(self, history: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return lines that say how many completions were unscored, on how many `judge` raised, and why.

        Args:
            history: the rows of metrics.jsonl.
        """
        steps, completions, unscored, raised = 0, 0.0, 0.0, 0.0
        for row in history:
            if row["kind"] == "train":
                steps += 1
                completions += row.get("completions") or 0
                unscored += row.get("unscored") or 0
                raised += row.get("judge_exceptions") or 0
        of = f"of {completions:,.0f} completions of {steps:,} steps"
        lines = [f"all {of.removeprefix('of ')} were scored"]
        if unscored:
            lines = [f"unscored: {unscored:,.0f} {of}; they are in no loss and in no mean", *_most(self.unscored)]
        if raised:
            lines += [f"judge raised on {raised:,.0f} {of}, whose scores are not to be trusted", *_most(self.raised)]
        return lines


def _most(counts: Counter[tuple[str, str]]) -> list[str]:
    most = counts.most_common(REASONS)
    left = counts.total() - sum(count for _, count in most)
    lines = [f"  {source}: {count:,} by {reason}" for (source, reason), count in most]
    return lines + ([f"  {left:,} for other reasons"] if left else [])
