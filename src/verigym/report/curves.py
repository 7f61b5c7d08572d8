"""Defines the diagrams of a report with the metrics that each shows, and arranges a run's metrics by columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verigym.report.record import STATUSES, number

PHASES = ("generate_s", "grade_wait_s", "update_s", "sync_s", "evaluate_s", "checkpoint_s", "step_s")
"""Metrics with the times of a step's phases, in seconds. Another metric, `generate_grade_s`, is the time of the phases
`generate_s` and `grade_wait_s` together. `step_s` is the time of the step itself."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Description of one diagram of the page, which shows either a single metric by source or several metrics of a run."""

    key: str
    title: str
    unit: str
    names: tuple[str, ...]
    """Names of the metrics to draw. If there is only one, it is also drawn for each source."""
    kind: str = "train"
    share: bool = False
    """Whether values lie between 0 and 1."""


PANELS = (
    Panel("held_out", "Held-out accuracy", "share of right completions", ("accuracy",), "eval", True),
    Panel("reward", "Reward", "mean of scored completions", ("reward",)),
    Panel("accuracy", "Accuracy in training", "share of scored completions", ("accuracy",), share=True),
    Panel("status", "Verdicts", "share of all completions", tuple(f"status/{name}" for name in STATUSES), share=True),
    Panel("length", "Length", "mean tokens of a completion", ("completion_tokens",)),
    Panel("truncated", "Cut off by the token limit", "share of completions", ("truncated",), share=True),
    Panel("no_answer", "No answer", "share of scored completions", ("no_answer",), share=True),
    Panel("nll", "Sampled NLL, an estimate of the entropy", "nats a token", ("sampled_nll",)),
    Panel("entropy", "Entropy", "nats a token", ("entropy",)),
    Panel("kl", "KL to the reference", "nats a token", ("kl",)),
    Panel("clip", "Clipped tokens", "share of tokens", ("clip_fraction",), share=True),
    Panel("signal", "Groups without a signal", "share of groups", ("groups_without_signal",), share=True),
    Panel("unscored", "Unscored, failures of ours", "completions", ("unscored",)),
    Panel("grad", "Gradient norm", "before clipping", ("grad_norm",)),
    Panel("loss", "Loss", "", ("loss",)),
    Panel("mismatch", "Log-probability mismatch", "mean absolute difference", ("logprob_mismatch",)),
    Panel("times", "Phase times", "seconds", PHASES),
    *(
        Panel(f"episodes_{name}", title, unit, (name,), share=unit.startswith("share"))
        for name, title, unit in (
            ("calls", "Tool calls", "mean of an episode"),
            ("turns", "Turns", "mean of an episode"),
            ("malformed_calls", "Malformed calls", "share of calls"),
            ("tool_exceptions", "Exceptions of tools", "mean of an episode"),
            ("episodes_cut_off", "Episodes cut off", "share of episodes"),
            ("context_used", "Context used", "share of the positions, largest"),
        )
    ),
)


@dataclass(slots=True)
class Columns:
    """The rows of one kind (`train` or `eval`) in a run's log, arranged by columns.

    The columns are the steps, and for each metric its values at these steps.
    """

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add `row` to the columns. A metric has None for the rows in which it is missing."""
        self.steps.append(row["step"])
        for name, value in row.items():
            if name in ("step", "kind"):
                continue
            found = number(value)
            if name not in self.values and found is not None:
                self.values[name] = [None] * (len(self.steps) - 1)
            if name in self.values:
                self.values[name].append(found)
        for column in self.values.values():
            if len(column) < len(self.steps):
                column.append(None)


def curves(place: int, rows: Sequence[Mapping[str, Any]], components: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return a run's curves for the page: the columns by kind of row (`train` or `eval`), and the lines of each diagram.

    Args:
        place: the run's number among the report's inputs.
        rows: the rows of the run's metrics.jsonl.
        components: (source, name) of each reward component in the run's samples. Components within the parts of a composed
            environment get no line, because there are too many of them to tell apart.
    """
    kinds: dict[str, Columns] = {}
    for row in rows:
        if row["kind"] in ("train", "eval"):
            kinds.setdefault(row["kind"], Columns()).add(row)
    known = {kind: set(columns.values) for kind, columns in kinds.items()}
    for columns in kinds.values():  # a status that did not occur in a step has the share 0, where its source had completions
        for name in [one for one in columns.values if f"/{one}".rpartition("/status/")[1]]:
            asked = columns.values.get(
                f"{f'/{name}'.rpartition('/status/')[0]}/unscored".removeprefix("/"), columns.values[name]
            )
            columns.values[name] = [
                0.0 if value is None and there is not None else value
                for value, there in zip(columns.values[name], asked, strict=True)
            ]
    sources = sorted(
        {name.removesuffix("/unscored") for names in known.values() for name in names if name.endswith("/unscored")}
    )
    panels = []
    for panel in PANELS:
        names = known.get(panel.kind, set())
        lines = [{"metric": name, "name": name, "source": ""} for name in panel.names if name in names]
        for source in sources if len(panel.names) == 1 else ():
            name = f"{source}/{panel.names[0]}"
            if name in names:
                lines.append({"metric": name, "name": panel.names[0], "source": source})
        if lines:
            panels.append(_panel(panel, lines))
    lines = [
        {"metric": f"{source}/{name}", "name": name, "source": source}
        for source, name in sorted(components)
        if "/" not in name and f"{source}/{name}" in known.get("train", ())
    ]
    if lines:
        panels.insert(2, _panel(Panel("components", "Components of the reward", "mean", ()), lines))
    return {
        "input": place,
        "kinds": {kind: {"steps": columns.steps, "values": columns.values} for kind, columns in kinds.items()},
        "panels": panels,
        "warnings": [_warning(row) for row in rows if row["kind"] == "warning"],
    }


def _panel(panel: Panel, lines: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "key": panel.key,
        "title": panel.title,
        "unit": panel.unit,
        "kind": panel.kind,
        "share": panel.share,
        "lines": lines,
    }


def _warning(row: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: str(row.get(name, ""))[:2000] for name in ("name", "seen", "advice", "traceback")}
    return {"step": row["step"], "since": number(row.get("since")), **named, "stop": row.get("stop") is True}
