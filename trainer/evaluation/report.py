"""The report: figures with intervals by model and source, tables, and curves of test-time compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from verigym.envs.contract.schema import Score
from verigym.trainer.evaluation.figures import (
    ScoredSamples,
    avg,
    best_of,
    majority,
    mean_interval,
    pass_at,
    powers,
    weighted_majority,
)
from verigym.trainer.monitoring.reflection import length_growth, reflection_metrics
from verigym.trainer.rollout.collect import UNREAD
from verigym.trainer.stages.sample_log import PromptSamples

ALL = "all"
FEW = 8
"""Fewer scored samples than this give no hint."""
TEXTS = 3
HITS = 20
"""Largest number of contaminated prompts that report.md names; report.json names all of them."""
TEXT_END = 60
Picked = Mapping[str, Sequence[Sequence[float | None]]]
"""For each picker, by name: for each prompt, the picker's reward of each sample; None where the picker failed."""
BUDGET = {"thinking tokens": "thinking_tokens", "sampled tokens": "tokens", "share forced": "forced", "waits": "waits"}
"""Columns of the table of thinking budgets, and their names in report.json."""
Figure = dict[str, float | int | None]


def figures(found: Sequence[PromptSamples], picked: Picked, k: int, level: float = 0.95) -> dict[str, Any]:
    """Return one model's metrics with intervals, and its curves, by source and for all sources together.

    Means are over prompts. A metric over j samples, such as pass@j, leaves out prompts with fewer than j scored samples. Each
    metric comes with the number of prompts over which it is the mean.

    Args:
        found: prompts with samples.
        picked: see `Picked`.
        k: samples per prompt.
        level: confidence level of the intervals.
    """
    labels = list(dict.fromkeys(one.source for one in found))
    report: dict[str, Any] = {}
    for label in [*labels, *([ALL] if len(labels) > 1 else [])]:
        mine = [number for number, one in enumerate(found) if label in (ALL, one.source)]
        own = [found[number] for number in mine]
        report[label] = _source(own, {name: [rows[n] for n in mine] for name, rows in picked.items()}, k, level)
    return report


def _source(found: Sequence[PromptSamples], picked: Picked, k: int, level: float) -> dict[str, Any]:
    kept = [[n for n, sample in enumerate(one.samples) if sample.score.scored] for one in found]
    prompts = [_answers(one, places) for one, places in zip(found, kept, strict=True)]
    samples = [sample for one in found for sample in one.samples]
    lengths = [sample.tokens for sample in samples]
    result: dict[str, Any] = {
        "prompts": len(found),
        "samples": len(samples),
        "unscored": sum(not sample.score.scored for sample in samples),
        "no_answer": sum(sample.score.status in UNREAD for sample in samples) / max(1, len(samples)),
        "truncated": sum(sample.finish_reason == "length" for sample in samples) / max(1, len(samples)),
        "tokens": sum(lengths) / max(1, len(lengths)),
        **reflection_metrics([sample.text for sample in samples]),
    }
    counts = powers(k)
    kinds: dict[str, Callable[[int, int], float | None]] = {
        "pass": lambda p, j: pass_at(prompts[p], j),
        "maj": lambda p, j: majority(prompts[p], j),
    }
    for name, rows in picked.items():
        scores = [[row[n] for n in places] for row, places in zip(rows, kept, strict=True)]
        kinds[f"best-of by {name}"] = _over(prompts, scores, best_of)
        kinds[f"weighted maj by {name}"] = _over(prompts, scores, weighted_majority)
    result["figures"] = {f"avg@{k}": _figure([avg(one) if one.n else None for one in prompts], level)}
    result["curves"] = {}
    for kind, value in kinds.items():
        curve = {j: _figure([value(p, j) if one.n >= j else None for p, one in enumerate(prompts)], level) for j in counts}
        result["curves"][kind] = [{"samples": j, "tokens": j * result["tokens"], **curve[j]} for j in counts]
        result["figures"].update({f"{kind}@{j}": curve[j] for j in (counts if kind == "pass" else counts[-1:])})
    return result


def _over(
    prompts: Sequence[ScoredSamples],
    scores: Sequence[Sequence[float | None]],
    how: Callable[[ScoredSamples, list[float], int], float],
) -> Callable[[int, int], float | None]:
    def value(p: int, j: int) -> float | None:
        # A sample that the picker could not judge ranks last and has no weight.
        lowest = min((score for score in scores[p] if score is not None), default=0.0)
        return how(prompts[p], [min(0.0, lowest) - 1 if score is None else score for score in scores[p]], j)

    return value


def _answers(one: PromptSamples, places: Sequence[int]) -> ScoredSamples:
    chosen = [one.samples[n] for n in places]
    return ScoredSamples(
        tuple(sample.correct for sample in chosen),
        tuple(sample.score.answer for sample in chosen),
        tuple(sample.tokens for sample in chosen),
    )


def _figure(values: Sequence[float | None], level: float) -> Figure:
    known = [value for value in values if value is not None]
    if not known:
        return {"value": None, "low": None, "high": None, "prompts": 0}
    mean, interval = mean_interval(known, level=level)
    low, high = interval if interval else (None, None)
    return {"value": mean, "low": low, "high": high, "prompts": len(known)}


def budget_label(model: str, budget: int) -> str:
    """Return the name under which tables show `model` with the thinking budget `budget`.

    The name contains an @, which no model's own name does.
    """
    return f"{model}@{budget}"


def budgets(found: Mapping[int, Sequence[PromptSamples]], level: float = 0.95) -> dict[str, list[dict[str, Any]]]:
    """Return accuracy and mean numbers of tokens for each thinking budget, by source and for all sources together.

    Args:
        found: a model's samples by budget.
        level: confidence level of the intervals.
    """
    labels = list(dict.fromkeys(one.source for of in found.values() for one in of))
    return {
        label: [_budget(number, [one for one in of if label in (ALL, one.source)], level) for number, of in found.items()]
        for label in [*labels, *([ALL] if len(labels) > 1 else [])]
    }


def _budget(budget: int, found: Sequence[PromptSamples], level: float) -> dict[str, Any]:
    rights = [[sample.correct for sample in one.samples if sample.score.scored] for one in found]
    samples = [sample for one in found for sample in one.samples]
    thoughts = [sample.thought for sample in samples if sample.thought is not None]
    return {
        "budget": budget,
        "accuracy": _figure([fmean(right) if right else None for right in rights], level),
        "thinking_tokens": fmean(thought.tokens for thought in thoughts),
        "tokens": fmean(sample.tokens for sample in samples),
        "forced": fmean(thought.forced for thought in thoughts),
        "waits": fmean(thought.waits for thought in thoughts),
    }


def unscored(found: Mapping[str, Sequence[PromptSamples]]) -> list[dict[str, Any]]:
    """Return an entry for each model and source that has unscored samples: samples without a verdict, whose grading failed.

    An entry has the number of unscored samples, the number of all samples, the cause of the first failure, and whether grading
    the samples again may give verdicts.

    Args:
        found: samples by model.
    """
    parts = []
    for name, label, scores in _by_source(found):
        errors = [score.error for score in scores if score.error is not None]
        if errors:
            counts = {"unscored": len(errors), "samples": len(scores)}
            again = any(error.kind != "gold_invalid" for error in errors)
            cause = f"{errors[0].kind}: {errors[0].message}"
            parts.append({"model": name, "source": label, **counts, "again": again, "cause": cause})
    return parts


def _by_source(found: Mapping[str, Sequence[PromptSamples]]) -> Iterator[tuple[str, str, list[Score]]]:
    """Yield each model and source with the scores of its samples."""
    for name, of in found.items():
        for label in dict.fromkeys(one.source for one in of):
            yield name, label, [sample.score for one in of if one.source == label for sample in one.samples]


def raised_on(found: Mapping[str, Sequence[PromptSamples]]) -> list[dict[str, Any]]:
    """Return an entry for each model and source that has samples on which `judge` raised.

    An entry has the number of these samples, the number of all samples, and the cause of the first exception.

    Args:
        found: samples by model.
    """
    parts = []
    for name, label, scores in _by_source(found):
        causes = [f"{score.raised.error} at {score.raised.place}" for score in scores if score.raised is not None]
        if causes:
            counts = {"judge_exceptions": len(causes), "samples": len(scores)}
            parts.append({"model": name, "source": label, **counts, "cause": causes[0]})
    return parts


def raised_line(part: Mapping[str, Any]) -> str:
    """Return `part`, an entry of `raised_on`, as a line of text."""
    count = f"judge raised on {part['judge_exceptions']:,} of {part['samples']:,} samples, whose scores are not to be trusted"
    return f"{part['model']}, {part['source']}: {count}: the first cause, {part['cause']}"


def unscored_line(part: Mapping[str, Any]) -> str:
    """Return `part`, an entry of `unscored`, as a line of text."""
    whole = part["unscored"] == part["samples"]
    count = (
        f"none of {part['samples']:,} samples has a"
        if whole
        else f"{part['unscored']:,} of {part['samples']:,} samples have no"
    )
    again = "; the same command grades them again" if part["again"] else ""
    return f"{part['model']}, {part['source']}: {count} verdict{again}: the first cause, {part['cause']}"


def hints(found: Mapping[str, Sequence[PromptSamples]]) -> list[str]:
    """Return a hint for each model and source where most samples hold no answer, or all are incorrect.

    Each hint quotes the last characters of up to three samples.

    Args:
        found: samples by model.
    """
    lines = []
    for name, of in found.items():
        for label in dict.fromkeys(one.source for one in of):
            mine = [one for one in of if one.source == label]
            samples = [(one, sample) for one in mine for sample in one.samples if sample.score.scored]
            unread = [(one, sample) for one, sample in samples if sample.score.status in UNREAD]
            if len(samples) < FEW or (len(unread) <= len(samples) / 2 and any(sample.correct for _, sample in samples)):
                continue
            mostly = len(unread) > len(samples) / 2
            what = (
                f"no answer was found in {len(unread)} of {len(samples)} samples"
                if mostly
                else f"none of {len(samples)} samples is right"
            )
            shown = list({one.number: (one, sample) for one, sample in (unread if mostly else samples)}.values())[:TEXTS]
            ends = (f"{sample.text.rstrip()[-TEXT_END:]!r} (gold {str(one.gold)[:TEXT_END]!r})" for one, sample in shown)
            cut = sum(sample.finish_reason == "length" for _, sample in samples) > len(samples) / 2
            advice = (
                "most are cut off: raise max_new_tokens"
                if cut
                else "where these look like their golds, the model cannot do the tasks yet; else, are the prompt's words "
                "and the environment's options those of this model?"
            )
            lines.append(f"{name}, {label}: {what}; they end in {'; '.join(ends)}; {advice}")
    return lines


def compare(first: Sequence[PromptSamples], other: Sequence[PromptSamples], level: float = 0.95) -> dict[str, Any]:
    """Compare two models by their samples on the same prompts: `first` is the baseline, `other` the model to compare with it.

    Return the difference of avg@k, `other` minus `first`, with a paired interval, over all prompts and for each source, and the
    mean length in tokens of `other`'s samples divided by that of `first`'s.
    """
    mine = {(one.source, one.prompt_key): one for one in first}
    pairs = [(mine[one.source, one.prompt_key], one) for one in other if (one.source, one.prompt_key) in mine]
    answers = [[_answers(one, [n for n, s in enumerate(one.samples) if s.score.scored]) for one in pair] for pair in pairs]
    gains = [(pair[0].source, avg(b) - avg(a)) for pair, (a, b) in zip(pairs, answers, strict=True) if a.n and b.n]
    by_source = {label: _figure([one for source, one in gains if source == label], level) for label, _ in gains}
    lengths = [[sample.tokens for pair in pairs for sample in pair[side].samples] for side in (0, 1)]
    growth = length_growth(lengths[1], lengths[0]) if pairs and sum(lengths[0]) else None
    return {"gain": _figure([one for _, one in gains], level), "gain_by_source": by_source, "length_growth": growth}


def shown(figure: Mapping[str, Any], digits: int = 3) -> str:
    """Return `figure`, a mean with its interval, as text such as `0.412 [0.350, 0.470]`; a dash if it has no value."""
    if figure["value"] is None:
        return "-"
    if figure["low"] is None:
        return f"{figure['value']:.{digits}f}"
    return f"{figure['value']:.{digits}f} [{figure['low']:.{digits}f}, {figure['high']:.{digits}f}]"


def gain(figure: Mapping[str, Any]) -> str:
    """Return the difference `figure` as text with its sign, such as `+0.062 [-0.010, +0.130]`, or a dash if it has no value."""
    if figure["value"] is None:
        return "-"
    if figure["low"] is None:
        return f"{figure['value']:+.3f}"
    return f"{figure['value']:+.3f} [{figure['low']:+.3f}, {figure['high']:+.3f}]"


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report's tables as Markdown: one row per figure, one column per model."""
    models: Mapping[str, Any] = report["models"]
    lines = [f"# Evaluation, {report['samples']} samples a prompt at temperature {report['temperature']:g}", ""]
    for label in next(iter(models.values())):
        parts = {name: of[label] for name, of in models.items()}
        lines += [f"## {label}", "", "| | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
        for name in next(iter(parts.values()))["figures"]:
            lines.append(f"| {name} | " + " | ".join(shown(part["figures"][name]) for part in parts.values()) + " |")
        plain = ["prompts", "unscored", "no_answer", "truncated", "tokens"]
        reflection = sorted(key for key in next(iter(parts.values())) if key.startswith("reflection/"))
        for name in [*plain, *(name for name in reflection if any(part[name] for part in parts.values()))]:
            lines.append(f"| {name} | " + " | ".join(f"{part[name]:.4g}" for part in parts.values()) + " |")
        if any(left_out.get(label) for left_out in report["left_out"].values()):
            counts = (report["left_out"][name].get(label, 0) for name in parts)
            lines.append("| prompts left out, too long | " + " | ".join(map(str, counts)) + " |")
        lines.append("")
    for name, by_source in report.get("budgets", {}).items():
        lines += [f"## {name}: accuracy by thinking budget", "", "| | budget | accuracy | " + " | ".join(BUDGET) + " |"]
        lines.append("|---" * (3 + len(BUDGET)) + "|")
        for label, rows in by_source.items():
            for row in rows:
                values = " | ".join(f"{row[field]:.4g}" for field in BUDGET.values())
                lines.append(f"| {label} | {row['budget']} | {shown(row['accuracy'])} | {values} |")
        lines.append("")
    lines += _differences(report)
    lines += [
        f"{name}: {part['prompt_tokens']:,} prompt tokens and {part['completion_tokens']:,} completion tokens, as "
        f"{part['base_url']} counted them for {part['model']!r}"
        for name, part in report.get("usage", {}).items()
    ]
    lines += [f"warning: {unscored_line(part)}" for part in report["unscored"]]
    lines += [f"warning: {raised_line(part)}" for part in report["judge_exceptions"]]
    lines += [f"hint: {line}" for line in report["hints"]]
    for label, part in report["contamination"].items():
        lines += [*([""] if lines[-1] else []), *_contamination(label, part, models)]
    return "\n".join(lines).rstrip() + "\n"


def _contamination(label: str, part: Mapping[str, Any], models: Mapping[str, Any]) -> list[str]:
    """Return lines about the contaminated prompts of the source `label`.

    They list the prompts by name, and the models' figures without them beside those of all prompts.
    """
    hits = part["found"]
    share = (
        f"{part['hits']} of {part['prompts']} prompts share {part['ngram']} words in a row with training data, or all their "
        "words where they have fewer."
    )
    if not hits:
        return [f"{label}: {share}"]
    lines = [f"## {label}: contamination", "", share, "", "| prompt | shared words | where |", "|---|---|---|"]
    for hit in hits[:HITS]:
        cells = (" ".join(hit[field].split()).replace("|", "\\|") for field in ("id", "words", "where"))
        lines.append(f"| {' | '.join(cells)} |")
    if len(hits) > HITS:
        lines += ["", f"{len(hits) - HITS} more are in report.json."]
    clean = {name: part["without"][name] for name in models if name in part["without"]}
    if not clean:
        return [*lines, "", "No sampled prompt is left without them."]
    heads = [head for name in clean for head in (name, f"{name} without hits")]
    lines += ["", "| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for figure in next(iter(clean.values())):
        pairs = ((models[name][label]["figures"][figure], clean[name][figure]) for name in clean)
        lines.append(f"| {figure} | " + " | ".join(shown(one) for pair in pairs for one in pair) + " |")
    first = next(iter(next(iter(clean.values()))))
    counts = (str(one[first]["prompts"]) for name in clean for one in (models[name][label]["figures"], clean[name]))
    return [*lines, f"| prompts with a verdict | {' | '.join(counts)} |"]


def beside(report: Mapping[str, Any]) -> str:
    """Return the short form of an evaluation's report, as Markdown.

    It has one table of avg@k with intervals: one row per source, one column per model. Below the table are the difference of
    each other model to the first model, and hints.
    """
    models: Mapping[str, Any] = report["models"]
    name = f"avg@{report['samples']}"
    lines = [f"| {name} | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for label in next(iter(models.values())):
        lines.append(f"| {label} | " + " | ".join(shown(of[label]["figures"][name]) for of in models.values()) + " |")
    said = [*_differences(report), *(f"hint: {line}" for line in report.get("hints", ()))]
    return "\n".join([*lines, *([""] if said else []), *said]) + "\n"


def _differences(report: Mapping[str, Any]) -> list[str]:
    """Return, for each model but the first, a line with its difference to the first."""
    lines = []
    for name, other in report.get("compared", {}).items():
        growth = other["length_growth"]
        much = "" if growth is None else f"; completions are {growth:.2f} times as long"
        sources: Mapping[str, Any] = other.get("gain_by_source", {})
        each = f" ({'; '.join(f'{label} {gain(one)}' for label, one in sources.items())})" if len(sources) > 1 else ""
        lines.append(
            f"{name} minus {report['first']}, on the same prompts: avg@{report['samples']} {gain(other['gain'])}{each}{much}."
        )
    return lines


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Draw accuracy against samples and against tokens into the file `path`, with one row of panels per source."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    models: Mapping[str, Any] = report["models"]
    labels = list(next(iter(models.values())))
    figure = Canvas(figsize=(12, 4 * len(labels)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(labels), 2, squeeze=False)
    for row, label in enumerate(labels):
        for column, x in enumerate(("samples", "tokens")):
            axis = axes[row][column]
            for name, of in models.items():
                for kind, points in of[label]["curves"].items():
                    known = [point for point in points if point["value"] is not None]
                    xs, ys = [point[x] for point in known], [point["value"] for point in known]
                    (line,) = axis.plot(xs, ys, marker=".", label=f"{name}: {kind}" if len(models) > 1 else kind)
                    if all(point["low"] is not None for point in known):
                        low, high = ([point[end] for point in known] for end in ("low", "high"))
                        axis.fill_between(xs, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
            axis.set(title=f"{label}: accuracy", xlabel=f"{x} a prompt", ylim=(0, 1))
            if any(len(line.get_xdata()) > 1 for line in axis.lines) and math.prod(axis.get_xlim()) > 0:
                axis.set_xscale("log", base=2)
            axis.grid(alpha=0.3)
            axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)  # below the lines
    figure.savefig(path, dpi=120)
