"""The sentences at the top of a report: what its figures say, in the order in which one asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from verigym.envs.contract.schema import Status

CUT_OFF = 0.05
"""Share of completions cut off by the token limit above which a finding says so."""


class Weight(StrEnum):
    """How a finding is to be taken."""

    GOOD = "good"
    PLAIN = "plain"
    BAD = "bad"


class Finding(NamedTuple):
    """A sentence about the inputs."""

    weight: Weight
    text: str


def findings(inputs: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return the findings of a report.

    Args:
        inputs: the inputs as the page gets them: `label`, `figures` and, of a run, `run`.
        pairs: their comparisons with the first input.
    """
    found = []
    for pair in pairs:
        first, other = inputs[pair["first"]]["label"], inputs[pair["other"]]["label"]
        if pair["twins"]:
            found.append(_of_graders(first, other, pair["twins"]))
        elif pair["prompts"]:
            found.append(_of_models(first, other, pair["prompts"]))
    found += [_of_samples(one["label"], one["figures"]) for one in inputs if "run" not in one and one["figures"]["samples"]]
    found += [_of_run(one["label"], one["run"]) for one in inputs if "run" in one]
    return found + _of_verdicts(inputs) + _of_warnings(inputs)


def _of_run(label: str, run: Mapping[str, Any]) -> Finding:
    parts = [f"{run['steps']:,} of {run['planned']:,} steps" if run["planned"] else _count(run["steps"], "step")]
    for name, first, last, form in (
        ("reward of the first and the last steps", run["firstReward"], run["reward"], ".3f"),
        ("accuracy on its own held-out prompts", run["first"], run["last"], ".1%"),
        ("held-out loss", run["firstLoss"], run["lastLoss"], ".3f"),
    ):
        if first is not None and last is not None:
            parts.append(f"{name} {first:{form}} \u2192 {last:{form}}")
    return Finding(Weight.PLAIN, f"{label}: {', '.join(parts)}.")


def _of_samples(label: str, figures: Mapping[str, Any]) -> Finding:
    whole = figures["sources"][0]
    if whole["accuracy"] is None:
        return Finding(Weight.BAD, f"{label}: none of {figures['samples']:,} samples has a verdict.")
    interval = "" if whole["low"] is None else f" [{whole['low']:.1%}, {whole['high']:.1%}]"
    told = f"accuracy {whole['accuracy']:.1%}{interval}"
    return Finding(
        Weight.PLAIN, f"{label}: {told} over {figures['samples']:,} samples of {_count(whole['prompts'], 'prompt')}."
    )


def _of_graders(first: str, other: str, twins: Mapping[str, Any]) -> Finding:
    """Return how far two graders agree on the same completions: neither is better for giving more of them a reward."""
    told = f"{other} and {first} on the same {_count(twins['common'], 'completion')}: "
    if not twins["judged"]:
        return Finding(Weight.BAD, f"{told}there is none on which both have a verdict.")
    disagreed = twins["judged"] - twins["agreed"]
    if not disagreed:
        return Finding(Weight.GOOD, f"{told}they agree on which are right.")
    return Finding(Weight.BAD, f"{told}they disagree on whether {disagreed:,} of {twins['judged']:,} are right.")


def _of_models(first: str, other: str, prompts: Mapping[str, Any]) -> Finding:
    head = f"{other} against {first}, on the same {_count(prompts['prompts'], 'prompt')}: "
    by_source = "; ".join(
        f"{one['source']} {one['before']:.1%} \u2192 {one['after']:.1%}, {_gain(one)}" for one in prompts["sources"]
    )
    told = f"{_gain(prompts)}{f' ({by_source})' if by_source else ''}"
    if prompts["low"] is None:
        return Finding(Weight.PLAIN, f"{head}{told}; too few prompts for an interval.")
    whole = _direction(prompts)
    # A mixture may gain as a whole and lose in a part.
    parts = [(one["source"], way) for one in prompts["sources"] if (way := _direction(one)) and way != whole]
    but = f"{'; but ' if parts else ''}{', '.join(f'{way} on {source}' for source, way in parts)}"
    worse = "worse" in (whole, *(way for _, way in parts))
    if whole:
        return Finding(Weight.BAD if worse else Weight.GOOD, f"{head}{whole} by {told}{but}.")
    unsure = "no difference can be told, for the interval has 0 in it"
    return Finding(Weight.BAD if worse else Weight.PLAIN, f"{head}{unsure}: {told}{but}. More prompts narrow it.")


def _direction(of: Mapping[str, Any]) -> Literal["better", "worse"] | None:
    """Return where the interval of a difference lies; None if it has 0 in it or there is none."""
    if of["low"] is None or of["low"] <= 0 <= of["high"]:
        return None
    return "better" if of["low"] > 0 else "worse"


def _gain(of: Mapping[str, Any]) -> str:
    interval = "" if of["low"] is None else f" [{100 * of['low']:+.1f}, {100 * of['high']:+.1f}]"
    return f"{100 * of['gain']:+.1f} points{interval}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _of_verdicts(inputs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return what is to be said of verdicts: that each completion has one, or how many have none, and how many were cut off."""
    found, completions, doubtful = [], 0, 0.0
    for one in inputs:
        statuses = one["run"]["statuses"] if "run" in one else one["figures"]["statuses"]
        of_input = sum(statuses.values())
        completions += of_input
        if unscored := statuses.get(Status.ERROR, 0):
            doubtful += unscored
            why = "failures of an environment or its tools, never of the model; reasons are in Samples"
            found.append(Finding(Weight.BAD, f"{one['label']}: {unscored:,} of {of_input:,} completions are unscored ({why})."))
        if raised := one["run" if "run" in one else "figures"]["judgeExceptions"]:
            doubtful += raised
            cause = "the warnings say where" if "run" in one else f"mostly {one['figures']['judgeRaised']}"
            said = f"judge raised on {raised:,.0f} of {of_input:,} completions, whose scores are not to be trusted ({cause})."
            found.append(Finding(Weight.BAD, f"{one['label']}: {said}"))
        cut = statuses.get(Status.TRUNCATED, 0)
        if of_input and cut / of_input > CUT_OFF:
            said = f"{one['label']}: {cut / of_input:.1%} of the completions were cut off by the token limit."
            found.append(Finding(Weight.BAD, said))
    if completions and not doubtful:
        found.insert(0, Finding(Weight.GOOD, f"Each of {completions:,} completions has a verdict (unscored: 0)."))
    return found


def _of_warnings(inputs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    warned = [one for one in inputs if "run" in one and one["run"]["warnings"]]
    return [Finding(Weight.BAD, f"{one['label']}: {_count(one['run']['warnings'], 'warning')}, below.") for one in warned]
