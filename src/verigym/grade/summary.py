"""Summarises a grading from its output file alone, so that a resumed and an uninterrupted run have the same summary."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from pydantic import BaseModel, ConfigDict

from verigym.envs import Status
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.metrics import Cluster, Interval, bootstrap_interval, majority_at_k, normalise_answer, pass_at_k
from verigym.grade.reading.records import place

MAX_DEFAULT_K = 1024
MAX_VOTERS = 4096


class AtK(BaseModel):
    """A metric at k samples, such as pass@k: its mean over the groups that have at least k scored samples."""

    model_config = ConfigDict(frozen=True)

    k: int
    value: float | None
    groups: int


class Summary(BaseModel):
    """The summary of a grading. Rates are shares of the scored completions; ungraded completions do not count."""

    model_config = ConfigDict(frozen=True)

    n: int
    scored: int
    unscored: int
    accuracy: float | None
    accuracy_interval: Interval | None
    """95% bootstrap confidence interval of the accuracy, resampled by groups; None with fewer than two groups."""
    mean_reward: float | None
    lowest_reward: float | None
    highest_reward: float | None
    statuses: dict[str, int]
    errors: dict[str, int]
    first_error: str | None
    """Place, kind of failure and message for the first completion without a score; None if there is none."""
    judge_exceptions: int
    """Number of completions on which the environment's `judge` raised an exception. This is a bug in the environment, even if
    the completion got the lowest reward for it."""
    first_exception: str | None
    """Of the first of them: error and place."""
    components: dict[str, float]
    accuracy_by_column: dict[str, float | None]
    scored_by_column: dict[str, int]
    groups: int
    group_sizes: dict[int, int]
    """Maps a number of scored samples to the number of groups of this size. If groups differ in size, pass@1 differs from
    accuracy: in pass@1 all groups weigh the same, in accuracy all samples do."""
    pass_at: list[AtK]
    majority_at: list[AtK]
    graders: list[str]
    grading_seconds: float

    @property
    def ragged(self) -> bool:
        """True if groups differ in their number of scored samples."""
        return len(self.group_sizes) > 1


class _Totals:
    """Sums over lines; its size depends on the kinds of things seen, not on the number of lines."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.first_error: str | None = None
        self.judge_exceptions = 0
        self.first_exception: str | None = None
        self.graders: Counter[str] = Counter()
        self.columns: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.components: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0])
        self.reward = 0.0
        self.lowest: float | None = None
        self.highest: float | None = None
        self.seconds = 0.0

    def add(self, line: Mapping[str, Any]) -> None:
        score = line["score"]
        self.statuses[score["status"]] += 1
        self.graders[score["grader"]] += 1
        self.seconds += score["seconds"]
        if raised := score.get("raised"):
            self.judge_exceptions += 1
            self.first_exception = self.first_exception or f"{raised['error']} at {raised['place']}"
        right = self.columns[line["column"]]
        if score["error"] is not None:
            kind, message = score["error"]["kind"], score["error"]["message"]
            self.errors[kind] += 1
            self.first_error = self.first_error or f"{place(line['row'], line['line'])}, {kind}: {message}"
            return
        right[0] += score["status"] == Status.CORRECT
        right[1] += 1
        reward = score["reward"]
        self.reward += reward
        self.lowest = reward if self.lowest is None else min(self.lowest, reward)
        self.highest = reward if self.highest is None else max(self.highest, reward)
        for name, value in score["components"].items():
            if value is not None:
                self.components[name][0] += value
                self.components[name][1] += 1


def summarise(lines: Iterable[Mapping[str, Any]], ks: Sequence[int] = ()) -> Summary:
    """Return the summary of the lines of an output file.

    Groups are counted in a temporary SQLite database, which spills to disk, so that memory does not grow with their number.

    Args:
        lines: the lines, as `complete_lines` yields them.
        ks: the values of k for pass@k and maj@k. If empty: the powers of two up to the largest group, if any group has several
            samples.
    """
    totals = _Totals()
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        database.execute("CREATE TABLE results (grp TEXT, correct INTEGER, answer TEXT)")
        database.execute("BEGIN")
        database.executemany("INSERT INTO results VALUES (?, ?, ?)", _results(lines, totals))
        clusters = [Cluster(*row) for row in database.execute(_CLUSTERS)]
        chosen = list(ks) or _powers(max((cluster.n for cluster in clusters), default=1))
        majority_at = _majorities(database, chosen)
    correct = sum(cluster.correct * cluster.groups for cluster in clusters)
    scored = sum(cluster.n * cluster.groups for cluster in clusters)
    n = totals.statuses.total()
    return Summary(
        n=n,
        scored=scored,
        unscored=n - scored,
        accuracy=correct / scored if scored else None,
        accuracy_interval=bootstrap_interval(clusters),
        mean_reward=totals.reward / scored if scored else None,
        lowest_reward=totals.lowest,
        highest_reward=totals.highest,
        statuses={status.value: totals.statuses[status] for status in Status if totals.statuses[status]},
        errors=dict(sorted(totals.errors.items())),
        first_error=totals.first_error,
        judge_exceptions=totals.judge_exceptions,
        first_exception=totals.first_exception,
        components={name: total / count for name, (total, count) in sorted(totals.components.items())},
        accuracy_by_column={name: right / of if of else None for name, (right, of) in totals.columns.items()},
        scored_by_column={name: of for name, (_, of) in totals.columns.items()},
        groups=sum(cluster.groups for cluster in clusters),
        group_sizes=_sizes(clusters),
        pass_at=[_pass_at(clusters, k) for k in chosen],
        majority_at=majority_at,
        graders=sorted(totals.graders),
        grading_seconds=totals.seconds,
    )


_CLUSTERS = """
    SELECT c, n, COUNT(*) FROM (SELECT SUM(correct) AS c, COUNT(*) AS n FROM results GROUP BY grp) GROUP BY c, n
"""


def _results(lines: Iterable[Mapping[str, Any]], totals: _Totals) -> Iterator[tuple[str, bool, str | None]]:
    """Yield (group, correct, answer) of scored lines; hashed, as either may be a long text."""
    for line in lines:
        totals.add(line)
        score = line["score"]
        if score["error"] is None:
            answer = score["answer"]
            spelling = None if answer is None else sha256_hex(normalise_answer(answer))[:32]
            yield sha256_hex(line["group"])[:32], score["status"] == Status.CORRECT, spelling


def _sizes(clusters: Sequence[Cluster]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for cluster in clusters:
        found[cluster.n] += cluster.groups
    return dict(sorted(found.items()))


def _powers(largest: int) -> list[int]:
    if largest < 2:
        return []
    return list(itertools.takewhile(lambda k: k <= min(largest, MAX_DEFAULT_K), (2**i for i in itertools.count())))


def _pass_at(clusters: Sequence[Cluster], k: int) -> AtK:
    able = [cluster for cluster in clusters if cluster.n >= k]
    groups = sum(cluster.groups for cluster in able)
    total = sum(pass_at_k(cluster.n, int(cluster.correct), k) * cluster.groups for cluster in able)
    return AtK(k=k, value=total / groups if groups else None, groups=groups)


def _majorities(database: sqlite3.Connection, ks: Sequence[int]) -> list[AtK]:
    """Return maj@k over the scored samples of each group, in file order; of a vast group, over the first ones."""
    voters = max([MAX_VOTERS, *ks])
    sums = dict.fromkeys(ks, 0.0)
    groups = dict.fromkeys(ks, 0)
    answered = False
    rows = database.execute("SELECT grp, correct, answer FROM results ORDER BY grp, rowid") if ks else ()
    for _, members in itertools.groupby(rows, key=lambda row: row[0]):
        first = list(itertools.islice(members, voters))
        answers, correct = [row[2] for row in first], [bool(row[1]) for row in first]
        answered = answered or any(answer is not None for answer in answers)
        for k in ks:
            if k <= len(first):
                sums[k] += majority_at_k(answers, correct, k)
                groups[k] += 1
    # An environment whose verdicts name no answer has no majority.
    return [AtK(k=k, value=sums[k] / groups[k] if groups[k] and answered else None, groups=groups[k]) for k in ks]
