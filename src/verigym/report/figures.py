"""Counts over all samples of an input: verdicts by source, accuracy by difficulty, prompts by share of correct samples."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verigym.envs.contract.schema import Status
from verigym.envs.metrics import Cluster, bootstrap_interval
from verigym.report.record import STATUSES, Record, number

BINS = ("none right", "up to a quarter", "up to half", "up to three quarters", "most", "all right")
MOST_DIFFICULTIES = 40
OTHER = "(other)"
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class PromptTally:
    """The counts of verdicts on one prompt in one input."""

    source: str
    difficulty: str
    scored: int = 0
    correct: int = 0
    rewarded: int = 0
    reward: float = 0.0
    """Sum over the rewarded samples."""


@dataclass(slots=True)
class SourceTally:
    """The counts of verdicts, rewards and tokens of one source."""

    statuses: Counter[str] = field(default_factory=Counter)
    rewarded: int = 0
    reward: float = 0.0
    tokens: int = 0
    with_tokens: int = 0


class Tally:
    """The counts of one input, by source and by prompt."""

    def __init__(self) -> None:
        self.sources: defaultdict[str, SourceTally] = defaultdict(SourceTally)
        self.prompts: dict[str, PromptTally] = {}
        self.raised: Counter[str] = Counter()
        """Samples on which `judge` raised, by what it raised."""

    def add(self, record: Record) -> None:
        """Count a sample."""
        source = self.sources[record.source]
        source.statuses[record.status] += 1
        if record.raised:
            self.raised[record.raised] += 1
        if record.tokens >= 0:
            source.tokens += record.tokens
            source.with_tokens += 1
        prompt = self.prompts.get(record.prompt_id)
        if prompt is None:
            prompt = self.prompts[record.prompt_id] = PromptTally(record.source, record.difficulty)
        if record.status != Status.ERROR:
            prompt.scored += 1
            prompt.correct += record.status == Status.CORRECT
        if record.reward is not None:
            prompt.rewarded += 1
            prompt.reward += record.reward
            source.rewarded += 1
            source.reward += record.reward

    def expected(self, prompt_id: str, source: str, reward: float) -> float | None:
        """Return the expected reward of a sample: the mean reward of the other samples of its prompt.

        If the prompt has no other samples, return the mean of the source's other samples. If the source has none, return None.

        Args:
            prompt_id: the prompt of the sample in question.
            source: the source of the prompt.
            reward: the sample's own reward, which is left out of the mean.
        """
        prompt, whole = self.prompts[prompt_id], self.sources[source]
        for count, total in ((prompt.rewarded, prompt.reward), (whole.rewarded, whole.reward)):
            if count > 1:
                return (total - reward) / (count - 1)
        return None

    def as_json(self, by_prompt: bool) -> dict[str, Any]:
        """Return the counts and rates of this input for the page.

        Args:
            by_prompt: also return pass rates by prompt; they mean something only if one model drew all samples of a prompt.
        """
        total: Counter[str] = Counter()
        for source in self.sources.values():
            total += source.statuses
        names = sorted(self.sources)
        rows = [self._source(name, [name]) for name in names]
        whole = [self._source("", names)] if len(names) > 1 else []
        return {
            "samples": total.total(),
            "statuses": dict(total),
            "judgeExceptions": self.raised.total(),
            "judgeRaised": self.raised.most_common(1)[0][0] if self.raised else "",
            "sources": whole + rows,
            "difficulties": self._difficulties(),
            "passRates": self._pass_rates() if by_prompt else [],
        }

    def _source(self, label: str, names: Sequence[str]) -> dict[str, Any]:
        mine = [self.sources[name] for name in names]
        statuses: Counter[str] = Counter()
        for source in mine:
            statuses += source.statuses
        rewarded, with_tokens = sum(one.rewarded for one in mine), sum(one.with_tokens for one in mine)
        chosen = set(names)
        prompts = [prompt for prompt in self.prompts.values() if prompt.source in chosen]
        return {
            "source": label,
            "statuses": dict(statuses),
            "reward": sum(one.reward for one in mine) / rewarded if rewarded else None,
            "tokens": sum(one.tokens for one in mine) / with_tokens if with_tokens else None,
            **share(prompts),
        }

    def _difficulties(self) -> list[dict[str, Any]]:
        by_name: defaultdict[str, list[PromptTally]] = defaultdict(list)
        for prompt in self.prompts.values():
            if prompt.difficulty:
                by_name[prompt.difficulty].append(prompt)
        kept = sorted(by_name, key=lambda name: -len(by_name[name]))[:MOST_DIFFICULTIES]
        other = [prompt for name, prompts in by_name.items() if name not in set(kept) for prompt in prompts]
        rows = [{"difficulty": name, **share(by_name[name])} for name in sorted(kept, key=_natural)]
        return rows + ([{"difficulty": OTHER, **share(other)}] if other else [])

    def _pass_rates(self) -> list[dict[str, Any]]:
        counts = Counter(_bin(one.correct, one.scored) for one in self.prompts.values() if one.scored > 1)
        return [{"bin": name, "prompts": counts[place]} for place, name in enumerate(BINS)] if counts else []


def share(prompts: Iterable[PromptTally]) -> dict[str, Any]:
    """Return the accuracy over the scored samples of `prompts`, and its bootstrap interval."""
    tally = Counter((one.correct, one.scored) for one in prompts if one.scored)
    clusters = [Cluster(correct, scored, groups) for (correct, scored), groups in tally.items()]
    scored, correct = (sum(getattr(one, name) * one.groups for one in clusters) for name in ("n", "correct"))
    interval = bootstrap_interval(clusters)
    return {
        "prompts": sum(one.groups for one in clusters),
        "scored": scored,
        "accuracy": correct / scored if scored else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def step_statuses(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how many completions of a run's steps had each status, from the run's metrics.

    Logs of earlier versions of verigym have no rates by status. For these, the counts are computed from `accuracy`,
    `unscored` and `no_answer`, which in these logs includes texts that were cut off or hit a limit. Empty if the metrics count
    no completions.
    """
    counts: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        completions = number(row.get("completions"))
        if row.get("kind") != "train" or not completions:
            continue
        shares = {name: number(row.get(f"status/{name}")) for name in STATUSES}
        if any(value is not None for value in shares.values()):
            for name, value in shares.items():
                counts[name] += completions * (value or 0.0)
            continue
        unscored, right, none = (number(row.get(name)) or 0.0 for name in ("unscored", "accuracy", "no_answer"))
        scored = completions - unscored
        parts = {Status.CORRECT: right * scored, Status.NO_ANSWER: none * scored, Status.ERROR: unscored}
        for status, count in {**parts, Status.INCORRECT: (1 - right - none) * scored}.items():
            counts[status.value] += count
    return {name: round(count) for name, count in counts.items() if round(count)}


def step_sources(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the statistics of all completions of a run's steps, for the whole run and by source, from the run's metrics.

    There are no confidence intervals, because metrics do not hold the verdicts of single prompts. The list is empty if the log
    does not say how many completions each source had, as in logs of earlier versions of verigym.
    """
    steps = [row for row in rows if row.get("kind") == "train" and number(row.get("completions"))]
    labels = sorted({name.removesuffix("/completions") for row in steps for name in row if name.endswith("/completions")})
    return [_step_source(steps, label) for label in ("", *labels)] if labels else []


def _step_source(steps: Sequence[Mapping[str, Any]], label: str) -> dict[str, Any]:
    prefix = f"{label}/" if label else ""
    sums: defaultdict[str, float] = defaultdict(float)
    for row in steps:
        completions, unscored = (number(row.get(f"{prefix}{name}")) or 0.0 for name in ("completions", "unscored"))
        sums["completions"] += completions
        sums["scored"] += completions - unscored
        for name, weight in (
            ("accuracy", completions - unscored),
            ("reward", completions - unscored),
            ("completion_tokens", completions),
        ):
            sums[name] += weight * (number(row.get(f"{prefix}{name}")) or 0.0)
    scored = sums["scored"]
    return {
        "source": label,
        "prompts": None,
        "scored": round(scored),
        "accuracy": sums["accuracy"] / scored if scored else None,
        "reward": sums["reward"] / scored if scored else None,
        "tokens": sums["completion_tokens"] / sums["completions"] if sums["completions"] else None,
        "low": None,
        "high": None,
    }


def _bin(correct: int, scored: int) -> int:
    if correct in (0, scored):
        return len(BINS) - 1 if correct else 0
    return 1 + min(3, (4 * correct - 1) // scored)


def _natural(name: str) -> str:
    """Return a key that sorts "Level 10" behind "Level 2"."""
    return _NUMBER.sub(lambda match: match[0].zfill(12), name)
