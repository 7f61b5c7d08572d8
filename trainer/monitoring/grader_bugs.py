"""Finds bugs of graders during training: exceptions of `judge` are counted, and recorded once per cause.

A single text on which `judge` raises an exception gets the lowest reward, because the text may have caused it. If `judge`
raises on many texts of a source, the grader counts as broken: from then on, completions on which it raises are unscored and not
trained on. A source that has never given a verdict is called silent, for any reason: its server is down, its reference answers
are bad, or its judge raises on everything.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Raised, Score, ScoreError, Status
from verigym.trainer.monitoring.detectors import Alarm
from verigym.trainer.rollout.collect import Group

WINDOW = 200
"""Completions of a source over which the share is taken."""
FEWEST = 20
"""Completions before a share says anything."""
SILENT_AFTER = WINDOW
"""If this many completions of a source have been graded without a single verdict, a warning calls the source silent. An earlier
warning could be wrong, because a server may need some minutes to start."""


class GraderBugs:
    """Counts the exceptions of each source's grader, and records which sources have a broken grader."""

    def __init__(self, share: float) -> None:
        """Start with no source broken.

        Args:
            share: a grader is broken if more than this share of its source's last `WINDOW` completions raised exceptions.
        """
        self.share = share
        self.recent: dict[str, deque[bool]] = {}
        self.broken: set[str] = set()
        self.graded: dict[str, int] = {}
        self.judged: dict[str, int] = {}
        """By source, the graded completions that `judge` itself scored, without raising an exception."""

    def checked(self, groups: Sequence[Group]) -> list[Group]:
        """Count the verdicts of `groups`, and return the groups as they are to be trained on.

        If a source's grader is broken, the completions on which the grader raised an exception lose their rewards.
        """
        for group in groups:
            recent = self.recent.setdefault(group.source, deque(maxlen=WINDOW))
            recent.extend(_is_bug(score) for score in group.scores)
            verdicts = sum(score.scored and score.raised is None for score in group.scores)
            self.graded[group.source] = self.graded.get(group.source, 0) + len(group.scores)
            self.judged[group.source] = self.judged.get(group.source, 0) + verdicts
        self.broken |= {
            label for label, recent in self.recent.items() if len(recent) >= FEWEST and sum(recent) > self.share * len(recent)
        }
        return [_without_rewards(group) if group.source in self.broken else group for group in groups]

    def metrics(self) -> dict[str, float]:
        """Return `source/grader_broken` = 1 for each broken grader, and `source/no_verdict` = 1 for each silent one."""
        broken = {f"{label}/grader_broken": 1.0 for label in sorted(self.broken)}
        return broken | {f"{label}/no_verdict": 1.0 for label, count in self.silent().items() if count >= SILENT_AFTER}

    def silent(self) -> dict[str, int]:
        """Return the sources that have never given a verdict, each with the number of its completions."""
        return {label: count for label, count in sorted(self.graded.items()) if count and not self.judged[label]}

    def state(self) -> dict[str, Any]:
        """Return the counts for a checkpoint, as JSON data."""
        return {
            "recent": {label: list(recent) for label, recent in self.recent.items()},
            "broken": sorted(self.broken),
            "asked": dict(self.graded),
            "judged": dict(self.judged),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the counts in `state`, which a checkpoint holds."""
        self.recent = {label: deque(recent, maxlen=WINDOW) for label, recent in state["recent"].items()}
        self.broken = set(state["broken"])
        self.graded, self.judged = dict(state["asked"]), dict(state["judged"])


def _is_bug(score: Score) -> bool:
    """Return True if judging raised an exception that only a bug raises. Failures of files and networks are unscored anyway."""
    return score.raised is not None and (score.error is None or score.error.kind != "backend")


def _without_rewards(group: Group) -> Group:
    return replace(group, scores=tuple(_unscored(score) if score.raised and score.scored else score for score in group.scores))


def _unscored(score: Score) -> Score:
    assert score.raised is not None
    message = f"the grader is broken, it raises on many completions; here {score.raised.error}"
    return Score(
        reward=None,
        status=Status.ERROR,
        reason=message,
        error=ScoreError(kind="internal", message=message),
        raised=score.raised,
        grader=score.grader,
        seconds=score.seconds,
    )


@dataclass(frozen=True)
class JudgeException(Alarm):
    """A cause of exceptions that occurred for the first time."""

    traceback: str = ""


class Causes:
    """Counts the causes of graders' exceptions by source since this process began, and records where each occurred first."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()
        self.first: dict[tuple[str, str], str] = {}

    def new(self, step: int, groups: Sequence[Group]) -> list[JudgeException]:
        """Count the causes in `groups`, and return those that occur for the first time.

        Args:
            step: number of finished steps.
            groups: groups with their verdicts.
        """
        by_cause: dict[tuple[str, str], list[Raised]] = {}
        for group in groups:
            for score in group.scores:
                if score.raised is not None:
                    by_cause.setdefault((group.source, score.raised.cause), []).append(score.raised)
        alarms = []
        for key, raised in by_cause.items():
            self.counts[key] += len(raised)
            if key not in self.first:
                self.first[key] = f"{raised[0].error} at {raised[0].place}"
                seen = f"the judge of source {key[0]!r} raised on {len(raised)} completions: {self.first[key]}"
                alarms.append(JudgeException("judge_exception", step, step, seen, ADVICE, traceback=raised[0].traceback))
        return alarms

    def named(self, alarm: Alarm) -> Alarm:
        """Return `alarm`, with the most frequent cause added if it is about a broken grader."""
        if alarm.name != "broken_grader":
            return alarm
        counts = Counter({key: count for key, count in self.counts.items() if key[0] in alarm.sources})
        mostly = [f"mostly {self.first[key]} ({count} of {counts.total()} times)" for key, count in counts.most_common(1)]
        return replace(alarm, seen="; ".join([alarm.seen, *mostly]))


def refuse_silent(silent: Mapping[str, int], final: Path) -> None:
    """Check, at the end of a run, that every source has given a verdict.

    Args:
        silent: the sources without any verdict, each with the number of its completions.
        final: folder of the final model, which has been written already.

    Raises:
        UsageError: `silent` is not empty.
    """
    if silent:
        sources = ", ".join(f"{label!r} (0 of {count:,} completions)" for label, count in silent.items())
        raise UsageError(
            f"the run is at its end, but no verdict came from source {sources}: nothing was learnt from it, and the model in "
            f"{final} shows only what others taught; samples.jsonl has the reasons. Mend it, try it with `verigym check`, and "
            "train in a new output"
        )


ADVICE = (
    "mend it; raise EnvironmentFailure where your own side fails; if only a text can make it raise, declare `hardened = True`"
)
