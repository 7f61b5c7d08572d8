"""`build_report`: reads all inputs, computes the statistics, packs the samples, and writes the page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verigym.envs import UsageError
from verigym.report.comparison import Twins, compare_prompts, run_summary
from verigym.report.curves import curves
from verigym.report.figures import Tally, step_sources, step_statuses
from verigym.report.findings import Finding, findings
from verigym.report.packing import Packer
from verigym.report.page import render
from verigym.report.reading.evaluations import evaluation_samples
from verigym.report.reading.inputs import Input, Kind
from verigym.report.reading.run_logs import read_metrics, run_samples, run_settings
from verigym.report.reading.score_files import score_samples
from verigym.report.record import STATUSES, Record, TextLimit, whole
from verigym.report.rows import Row, read_json

SHARES = 2**64
"""Number of values of the hash that chooses prompts."""
SETTINGS = (
    "model",
    "preset",
    "advantage",
    "loss",
    "learning_rate",
    "kl_coef",
    "prompts_per_step",
    "group_size",
    "max_new_tokens",
    "temperature",
    "engine",
    "seed",
)
"""Of a run, shown in the page."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report page."""

    title: str = ""
    max_samples: int = 100_000
    """Approximate maximum number of samples in the page. If there are more, prompts are chosen by their hash, with all their
    samples."""
    max_characters: int = 20_000
    """A longer text is cut in the middle."""
    difficulty: str | None = None
    """Name of the column or metadata field that says how difficult a task is; by default `difficulty` or `level`."""
    graded: Path | None = None
    """The input of the file of scores, where it has moved."""


@dataclass(frozen=True, slots=True)
class Built:
    """A report that has been written."""

    path: Path
    bytes: int
    samples: int
    """That the inputs hold."""
    shown: int
    """That are in the page."""
    notes: tuple[str, ...]
    """What was left out, by input."""
    findings: tuple[Finding, ...]
    """What the figures say, as the top of the page does."""


def _refuse_to_overwrite(out: Path) -> None:
    """Refuse a file that holds something else than a page, such as an input: no list of inputs' files would be complete."""
    try:
        with open(out, "rb") as stream:
            begins = stream.read(15).lower()
    except OSError:
        return  # it does not exist, or writing it says why it cannot be
    if begins and begins != b"<!doctype html>":
        raise UsageError(f"--out {out} exists and is no web page; choose another file")


def build_report(inputs: Sequence[Input], out: Path, options: ReportOptions = ReportOptions()) -> Built:
    """Write a page that reports on runs, score files and evaluations; return the page's path and counts.

    Args:
        inputs: the inputs to show; each is compared with the first.
        out: the HTML file to write.
        options: options of the page.

    Raises:
        UsageError: an input cannot be read, or the page cannot be written, or would overwrite a file that is no web page.
    """
    _refuse_to_overwrite(out)
    graded = [one for one in inputs if one.kind is Kind.SCORES]
    if options.graded is not None and len(graded) != 1:
        raise UsageError(f"--graded names the input of one file of scores, and {len(graded)} are given")
    metrics = {place: read_metrics(one) for place, one in enumerate(inputs) if one.kind is Kind.RUN}
    share = _share_to_keep(inputs, metrics, options)
    packer, twins, tallies = Packer(), Twins(), [Tally() for _ in inputs]
    figures = [Tally() for _ in inputs]  # of a run those of training alone: its evaluations ask the same few prompts again
    components: list[set[tuple[str, str]]] = [set() for _ in inputs]
    total = rated = 0
    for place, one in enumerate(inputs):
        for record in _records(one, place, metrics.get(place, []), options):
            total += 1
            rated += record.difficulty != ""
            tallies[place].add(record)
            if record.kind != "eval":
                figures[place].add(record)
            twins.add(record)
            if one.kind is Kind.RUN:
                components[place] |= {(record.source, name) for name, _ in record.texts.get("components", ())}
            if share == 1 or int(record.prompt_id, 16) < share * SHARES:
                packer.add(record)

    if options.difficulty and total and not rated:
        raise UsageError(f"--difficulty {options.difficulty}: no sample has a column or metadata of that name")

    def expected(place: int, prompt_id: str, source: str, reward: float) -> float | None:
        return tallies[place].expected(prompt_id, source, reward)

    index = packer.finish(expected, twins.change)
    described = [_described(one, place, metrics, figures[place]) for place, one in enumerate(inputs)]
    pairs = [_pair(inputs, other, twins, figures) for other in range(1, len(inputs))]
    found = findings(described, pairs)
    head = {
        "title": options.title or _title(inputs),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "statuses": list(STATUSES),
        "findings": [one._asdict() for one in found],
        "inputs": described,
        "curves": [curves(place, rows, components[place]) for place, rows in metrics.items()],
        "pairs": pairs,
        "evaluations": _evaluations(inputs),
        "samples": total,
        "index": index,
    }
    pages = render(head, packer.chunks)
    size = _write(out, pages)
    notes = [f"{one.label}: {note}" for one in inputs for note in one.notes]
    return Built(out, size, total, packer.count, tuple(notes), tuple(found))


def _records(one: Input, place: int, metrics: Sequence[Row], options: ReportOptions) -> Iterator[Record]:
    limit = TextLimit(options.max_characters)
    if one.kind is Kind.RUN:
        return run_samples(one, place, metrics, limit, options.difficulty)
    if one.kind is Kind.SCORES:
        return score_samples(one, place, limit, options.difficulty, options.graded)
    return evaluation_samples(one, place, limit, options.difficulty)


def _share_to_keep(inputs: Sequence[Input], metrics: dict[int, list[Row]], options: ReportOptions) -> float:
    """Return the share of prompts whose samples are in the page: 1 where all have room."""
    count = 0
    for one in inputs:
        path = one.path / "samples.jsonl" if one.kind is Kind.RUN else one.path
        if path.is_file():
            count += _sample_count(path, one.kind)
    return 1.0 if count <= options.max_samples else options.max_samples / count


def _sample_count(path: Path, kind: Kind) -> int:
    """Return how many samples a file holds, of an evaluation by the number that its first prompts have."""
    lines, per_line = 0, 1
    with open(path, "rb") as stream:
        for line in stream:
            lines += 1
            if kind is Kind.EVALUATION and lines == 2:
                per_line = _samples_of_line(line)
    return max(0, lines - 1) * per_line if kind is Kind.EVALUATION else lines


def _samples_of_line(line: bytes) -> int:
    try:
        return max(1, len(json.loads(line)["samples"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return 1


def _title(inputs: Sequence[Input]) -> str:
    names = [one.label for one in inputs]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _described(one: Input, place: int, metrics: dict[int, list[Row]], tally: Tally) -> dict[str, Any]:
    described: dict[str, Any] = {"label": one.label, "kind": one.kind.value, "notes": one.notes}
    described["figures"] = tally.as_json(by_prompt=one.kind is not Kind.RUN)
    if place in metrics:
        settings = run_settings(one.path)
        steps = whole(settings.get("steps"), 0) or None
        described["run"] = run_summary(metrics[place], steps)
        described["run"]["statuses"] = step_statuses(metrics[place])
        if of_steps := step_sources(metrics[place]):
            described["figures"]["sources"] = of_steps
            described["run"]["sourcesOfSteps"] = True
        described["run"]["settings"] = _shown_settings(settings)
    return described


def _shown_settings(settings: Any) -> list[list[str]]:
    found = [[name, str(settings[name])[:200]] for name in SETTINGS if settings.get(name) is not None]
    sources = settings.get("sources")
    if isinstance(sources, list):
        named = [
            str(one.get("name") or one.get("dataset") or one.get("environment")) for one in sources if isinstance(one, dict)
        ]
        found.insert(1, ["sources", ", ".join(named)[:500]])
    return found


def _pair(inputs: Sequence[Input], other: int, twins: Twins, tallies: Sequence[Tally]) -> dict[str, Any]:
    # A run logs a few samples of each step, whose policies differ: its metrics are compared instead.
    sampled = Kind.RUN not in (inputs[0].kind, inputs[other].kind)
    return {
        "first": 0,
        "other": other,
        "twins": twins.compare(0, other),
        "prompts": compare_prompts(tallies[0].prompts, tallies[other].prompts) if sampled else None,
    }


def _evaluations(inputs: Sequence[Input]) -> list[dict[str, Any]]:
    """Return the figures that evaluations have computed, by model and source, from the report.json beside their samples."""
    found = []
    for place, one in enumerate(inputs):
        if one.kind is not Kind.EVALUATION:
            continue
        report = read_json(one.path.parent / "report.json")
        of = report.get("models", {}).get(one.label.rpartition("/")[2], {}) if isinstance(report.get("models"), dict) else {}
        for source, part in of.items() if isinstance(of, dict) else ():
            figures = part.get("figures") if isinstance(part, dict) else None
            for name, figure in figures.items() if isinstance(figures, dict) else ():
                if isinstance(figure, dict):
                    values = [figure.get(end) for end in ("value", "low", "high")]
                    found.append({"input": place, "source": str(source), "name": str(name), "values": values})
    return found


def _write(out: Path, parts: Iterator[str]) -> int:
    partial = out.with_name(f".{out.name}.partial")
    size = 0
    try:
        with open(partial, "wb") as stream:
            for part in parts:
                size += stream.write(part.encode("ascii", "xmlcharrefreplace"))
        os.replace(partial, out)
    except FileNotFoundError:
        raise UsageError(f"cannot write {out}: there is no folder {out.parent}") from None
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    return size
