"""Compares inputs of a report with the first input: verdicts on the same completions, and accuracy on the same prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from verigym.envs.contract.schema import Status
from verigym.envs.metrics import Cluster, bootstrap_interval
from verigym.report.figures import PromptTally
from verigym.report.record import Record, number

LAST = 10
"""Steps at the end of a run whose means the table shows."""

UNPAIRED, SAME, CHANGED = 0, 1, 2


class Twins:
    """Finds completions that occur in several inputs of a report, and compares the verdicts on them.

    This happens, for example, if two graders have graded the same file.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[str, tuple[str, float | None]]] = {}

    def add(self, record: Record) -> None:
        """Store the verdict of `record` if its completion can occur in other inputs."""
        if record.twin_id:
            self._of.setdefault(record.input, {})[record.twin_id] = (record.status, record.reward)

    def change(self, place: int, twin_id: str) -> int:
        """Return CHANGED if another input has a different verdict on a completion, SAME if all other verdicts are equal.

        Return UNPAIRED if no other input has the completion.

        Args:
            place: number, among the report's inputs, of the input whose verdict is compared with the others.
            twin_id: the completion's id, equal in all inputs; empty for a completion that cannot occur in other inputs.
        """
        if not twin_id or place not in self._of:
            return UNPAIRED
        mine = self._of[place][twin_id]
        others = [of[twin_id] for other, of in self._of.items() if other != place and twin_id in of]
        if not others:
            return UNPAIRED
        return CHANGED if any(other != mine for other in others) else SAME

    def compare(self, first: int, other: int) -> dict[str, Any] | None:
        """Return counts that compare the verdicts of two inputs on their common completions; None if they have none.

        `agreed` counts the completions on which both inputs have a verdict and the verdicts agree: correct in both, or in
        neither.
        """
        mine, others = self._of.get(first, {}), self._of.get(other, {})
        common = mine.keys() & others.keys()
        if not common:
            return None
        matrix = Counter((mine[one][0], others[one][0]) for one in common)
        judged = {pair: count for pair, count in matrix.items() if Status.ERROR not in pair}
        return {
            "common": len(common),
            "changed": sum(mine[one] != others[one] for one in common),
            "judged": sum(judged.values()),
            "agreed": sum(count for (a, b), count in judged.items() if (a == Status.CORRECT) == (b == Status.CORRECT)),
            "onlyFirst": len(mine) - len(common),
            "onlyOther": len(others) - len(common),
            "matrix": [[a, b, count] for (a, b), count in sorted(matrix.items())],
        }


def compare_prompts(first: Mapping[str, PromptTally], other: Mapping[str, PromptTally]) -> dict[str, Any] | None:
    """Return the difference of accuracy, `other` minus `first`, over the prompts that both inputs have scored.

    The difference is paired by prompt, and its interval comes from a bootstrap over prompts. `before` and `after` are the
    accuracies of `first` and `other`. Return None if no prompt was scored in both. `sources` has the same of each source, if
    there are several.
    """
    common = [key for key in first if key in other and first[key].scored and other[key].scored]
    if not common:
        return None
    shares = [
        (other[key].source, first[key].correct / first[key].scored, other[key].correct / other[key].scored) for key in common
    ]
    by_source: dict[str, list[tuple[float, float]]] = {}
    for source, before, after in shares:
        by_source.setdefault(source, []).append((before, after))
    several = sorted(by_source.items()) if len(by_source) > 1 else []
    whole = _gain([(before, after) for _, before, after in shares])
    return whole | {"sources": [{"source": name, **_gain(some)} for name, some in several]}


def _gain(shares: Sequence[tuple[float, float]]) -> dict[str, Any]:
    gains = [after - before for before, after in shares]
    interval = bootstrap_interval(Cluster(gain, 1, prompts) for gain, prompts in Counter(gains).items())
    return {
        "prompts": len(gains),
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
        "before": fmean(before for before, _ in shares),
        "after": fmean(after for _, after in shares),
        "gain": fmean(gains),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def run_summary(rows: Sequence[Mapping[str, Any]], steps: int | None) -> dict[str, Any]:
    """Return a run's row in the table of runs.

    Args:
        rows: the rows of the run's metrics.jsonl.
        steps: the number of steps that the run is configured for; None if unknown.
    """
    train = [row for row in rows if row["kind"] == "train"]
    held_out = [
        (row["step"], value) for row in rows if row["kind"] == "eval" and (value := number(row.get("accuracy"))) is not None
    ]
    losses = [value for row in rows if row["kind"] == "eval" and (value := number(row.get("loss"))) is not None]
    best = max(held_out, key=lambda pair: pair[1], default=None)

    def mean(name: str, of: Sequence[Mapping[str, Any]]) -> float | None:
        values = [value for row in of if (value := number(row.get(name))) is not None]
        return fmean(values) if values else None

    return {
        "steps": train[-1]["step"] if train else 0,
        "planned": steps,
        "firstReward": mean("reward", train[:LAST]) if len(train) >= 2 * LAST else None,
        "firstLoss": losses[0] if losses else None,
        "lastLoss": losses[-1] if losses else None,
        "first": held_out[0][1] if held_out else None,
        "last": held_out[-1][1] if held_out else None,
        "best": best[1] if best else None,
        "bestStep": best[0] if best else None,
        "reward": mean("reward", train[-LAST:]),
        "tokens": mean("completion_tokens", train[-LAST:]),
        "stepSeconds": mean("step_s", train),
        "completions": sum(number(row.get("completions")) or 0.0 for row in train),
        "unscored": sum(number(row.get("unscored")) or 0.0 for row in train),
        "judgeExceptions": sum(number(row.get("judge_exceptions")) or 0.0 for row in train),
        "warnings": sum(row["kind"] == "warning" for row in rows),
    }
