"""Runs one arm of the study for one seed, and reads what its models answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rl_or_ei_parts.accounts import Spent, fitting_stage, portion, rl_stage, sampling_stage
from rl_or_ei_parts.settings import EASIER, FIT, MIXTURES, RL, SAMPLE, Arm, Sizes
from rl_or_ei_parts.workshop import Workshop
from verigym.trainer.stages.sample_log import PromptSamples, read_samples

BATCH = 32
Sources = Sequence[Mapping[str, Any]]
Question = tuple[str, str]
"""Source and key of a held-out prompt."""


@dataclass(frozen=True)
class Point:
    """A model on the way of an arm."""

    spent: Spent
    model: str
    """As a stage refers to it: `stage:NAME`, or a folder."""


@dataclass(frozen=True)
class Judged:
    """A point with its held-out figures."""

    spent: Spent
    right: Mapping[Question, float]
    """Share of right samples at temperature 1, by question."""
    any_right: Mapping[Question, float]
    """1 where any of the samples is right: pass@k for k samples."""
    length: float
    """Mean tokens of a sample."""


@dataclass(frozen=True)
class Outcome:
    """An arm with one seed."""

    curve: tuple[Judged, ...]
    """The cold start first."""
    greedy: Mapping[Question, float]
    """Of the last model, by question: 1 where its most likely answer is right."""
    cold_greedy: Mapping[Question, float]
    """The same of the cold start."""
    budget: int
    """Sampled tokens that the arm was to spend."""


class SeedStudy:
    """All arms of a mixture with one seed; they share the cold start and the held-out questions."""

    def __init__(self, output: Path, mixture: str, seed: int, sizes: Sizes) -> None:
        defaults = {
            "device": "cpu",
            "threads": 1,
            "workers": 0,
            "loggers": [],
            "max_new_tokens": sizes.max_new_tokens,
            "eval_every": 0,
            "checkpoint_every": 10**6,
            "checkpoint_minutes": 0,
        }
        self.mixture, self.seed, self.sizes = mixture, seed, sizes
        self.sources = MIXTURES[mixture]
        self.work = Workshop(output / f"{mixture}-seed{seed}.yaml", seed, defaults)
        shape = {name: getattr(sizes, name) for name in ("hidden_size", "layers", "heads", "intermediate_size")}
        self.work.run("base", "scratch", demonstrations=self.sources, **shape)
        self.work.run(
            "cold-start",
            "sft",
            model="stage:base",
            demonstrations=self.sources,
            # Each demonstration is seen once, as in the quickstart.
            demonstration_count=sizes.cold_steps[mixture] * BATCH,
            steps=sizes.cold_steps[mixture],
            batch_size=BATCH,
            learning_rate=sizes.cold_learning_rate,
            schedule="constant",
            warmup_steps=30,
            weight_decay=0.01,
        )
        (self.cold,) = self._answers("cold", [Point(Spent(), "stage:cold-start")])
        self.cold_greedy = self._greedy("cold", "stage:cold-start")
        self.budget = 0
        # Tokens that a completion of the first turn is expected to have.
        self.length = self.cold.length

    def run(self, name: str, arm: Arm) -> Outcome:
        """Run an arm to the end of its budget; the arm `grpo`, which sets it, comes first."""
        if not self.budget and name != "grpo":
            raise ValueError("the arm grpo sets the budget of the others; run it first")
        budget = round(self.budget * arm.scale)
        points = self._turns(name, arm, budget)
        if not self.budget:
            budget = self.budget = points[-1].spent.tokens
            self.length = budget / points[-1].spent.completions
        shown = points if self.sizes.points > 1 else points[-1:]
        curve = (self.cold, *self._answers(name, shown))
        return Outcome(curve, self._greedy(name, points[-1].model), self.cold_greedy, budget)

    def _turns(self, name: str, arm: Arm, budget: int) -> list[Point]:
        spent, model, length = Spent(), "stage:cold-start", self.length
        points: list[Point] = []
        kept: list[str] = []
        for number, turn in enumerate(arm.turns):
            left, before = len(arm.turns) - number, spent
            stage = f"{name}-{number + 1}-{turn}"
            sources = EASIER[self.mixture] if arm.easier_first and number == 0 else self.sources
            if turn == "rl":
                unit = self._unit(arm)
                steps = portion(budget, spent.tokens, left, unit, length) if budget else self.sizes.steps
                looks = max(1, self.sizes.points // len(arm.turns))
                new = self._rl(stage, arm, model, sources, steps, looks, spent)
            else:
                unit = {**SAMPLE, **arm.sample}["samples"]
                prompts = portion(budget, spent.tokens, left, unit, length)
                new = [self._expert(stage, arm, model, sources, prompts, kept, spent)]
            points += new
            spent, model = new[-1].spent, new[-1].model
            if sources is self.sources:  # easier tasks have other lengths
                length = (spent.tokens - before.tokens) / (spent.completions - before.completions)
        return points

    def _unit(self, arm: Arm) -> int:
        fields = {"prompts_per_step": self.sizes.prompts_per_step, "group_size": self.sizes.group_size, **arm.rl}
        return int(fields["prompts_per_step"]) * int(fields["group_size"])

    def _rl(self, stage: str, arm: Arm, model: str, sources: Sources, steps: int, looks: int, before: Spent) -> list[Point]:
        """Run GRPO and return the models at so many places, the last one at its end."""
        every = max(1, steps // looks)
        fields: dict[str, Any] = {
            "prompts_per_step": self.sizes.prompts_per_step,
            "group_size": self.sizes.group_size,
            **RL,
            **arm.rl,
            "checkpoint_every": every,
            "keep_checkpoints": looks + 2,
        }
        folder = self.work.run(stage, "grpo", model=model, sources=sources, steps=steps, **fields)
        spent = rl_stage(folder, fields.get("epochs_per_step", 1), fields.get("updates_per_step", 1))
        cpu_s = self.work.cpu_s(folder)
        places = [every * (look + 1) for look in range(min(looks, steps) - 1)]
        return [
            Point(before + spent[step - 1] + Spent(cpu_s=cpu_s * step / steps), str(_checkpoint(folder, step)))
            for step in places
        ] + [Point(before + spent[-1] + Spent(cpu_s=cpu_s), f"stage:{stage}")]

    def _expert(
        self, stage: str, arm: Arm, model: str, sources: Sources, prompts: int, kept: list[str], before: Spent
    ) -> Point:
        """Sample, keep what is right, fine-tune on it; `kept` gets the name of the new data."""
        data, fitted = f"{stage}-data", f"{stage}-sft"
        sampled = self.work.run(data, "sample", model=model, sources=sources, prompts=prompts, **{**SAMPLE, **arm.sample})
        kept.append(f"stage:{data}")
        folder = self.work.run(
            fitted,
            "sft",
            model="stage:cold-start" if arm.restart else model,
            data=list(kept) if arm.restart else kept[-1:],
            held_out_share=0.0,
            **{**FIT, **arm.fit},
        )
        cost = sampling_stage(sampled) + fitting_stage(folder)
        return Point(before + cost + Spent(cpu_s=self.work.cpu_s(sampled) + self.work.cpu_s(folder)), f"stage:{fitted}")

    def _answers(self, name: str, points: list[Point]) -> list[Judged]:
        models = {f"at-{number}": point.model for number, point in enumerate(points)}
        folder = self.work.run(
            f"{name}-held-out",
            "evaluate",
            models=models,
            sources=self.sources,
            prompts=self.sizes.held_out,
            samples=self.sizes.samples,
            prompts_at_a_time=100,
            seed=self.seed,
        )
        found = [read_samples(folder / f"samples-{label}.jsonl") for label in models]
        return [judged(point.spent, answers) for point, answers in zip(points, found, strict=True)]

    def _greedy(self, name: str, model: str) -> Mapping[Question, float]:
        fields: dict[str, Any] = {"prompts": self.sizes.held_out, "prompts_at_a_time": 400, "seed": self.seed}
        folder = self.work.run(f"{name}-greedy", "evaluate", models={"last": model}, sources=self.sources, **fields)
        found = read_samples(folder / "samples-last.jsonl")
        return {(one.source, one.prompt_key): float(one.samples[0].correct) for one in found}


def _checkpoint(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:08d}" / "model"


def judged(spent: Spent, answers: Sequence[PromptSamples]) -> Judged:
    """Return a model's figures by question."""
    right = {(one.source, one.prompt_key): [sample.correct for sample in one.samples] for one in answers}
    return Judged(
        spent,
        {question: fmean(hits) for question, hits in right.items()},
        {question: float(any(hits)) for question, hits in right.items()},
        fmean(sample.tokens for one in answers for sample in one.samples),
    )
