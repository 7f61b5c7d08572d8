"""Hints about suspicious results of a grading: example texts, and arguments of the command that may help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from verigym.datasets_cfg.fields import Extraction
from verigym.datasets_cfg.golds import prose, taken, wants_short, way_out, with_taken
from verigym.envs import Environment, Status
from verigym.envs.option_trials import Trial, best, try_options
from verigym.grade.reading.records import place
from verigym.grade.specimens import Specimen, Specimens
from verigym.grade.summary import Summary

SHOWN = 3
TEXT_END = 80
FEW_UNREAD = 3
"""The hint that no answer was found in most completions is given only if at least this many completions were scored."""
FEW_EQUAL = 8
"""With fewer scored completions, equal rewards are no wonder."""


class Hint(BaseModel):
    """A warning that the results of a grading look suspicious, with examples and advice."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["gold_text", "no_answer", "none_right", "equal_rewards"]
    message: str
    examples: tuple[str, ...] = ()
    advice: str = ""
    tried: tuple[Trial, ...] = ()

    def lines(self) -> list[str]:
        """Return the lines of text to print."""
        return [f"hint: {self.message}", *(f"  {line}" for line in (*self.examples, self.advice) if line)]


def hints(
    summary: Summary,
    seen: Specimens,
    environment: Environment,
    *,
    gold_extract: Extraction | None = None,
    workers: int | None = None,
) -> list[Hint]:
    """Return hints about suspicious results in `summary`; to find their causes, sampled texts and golds are examined.

    Args:
        summary: the summary of all completions.
        seen: samples of the completions.
        environment: the environment that graded them.
        gold_extract: how golds were extracted from their columns; None if they were taken as they are.
        workers: number of worker processes for trying other options, see `Grader`.
    """
    found = []
    way: Extraction | None = None
    if wants_short(environment):
        about_golds, way = _gold_hint(seen.all.kept, environment, gold_extract)
        found += about_golds
    unread = summary.statuses.get(Status.NO_ANSWER, 0)
    mostly_unread = summary.scored >= FEW_UNREAD and unread > summary.scored / 2
    none_right = summary.scored >= FEW_EQUAL and not summary.accuracy and summary.lowest_reward == summary.highest_reward
    if mostly_unread or none_right:
        chosen = seen.unread.kept if mostly_unread else seen.all.kept
        prompts = [with_taken(environment, one.item.prompt, way) if way else one.item.prompt for one in chosen]
        pairs = [(prompt, one.item.completion) for prompt, one in zip(prompts, chosen, strict=True) if prompt]
        tried = try_options(environment, pairs, workers)
        found.append(_unread(summary, unread, chosen, tried) if mostly_unread else _none_right(summary, chosen, tried))
    elif summary.scored >= FEW_EQUAL and summary.lowest_reward == summary.highest_reward:
        found.append(_equal(summary, seen.all.kept))
    return found


def _gold_hint(
    seen: Sequence[Specimen], environment: Environment, extracted: Extraction | None
) -> tuple[list[Hint], Extraction | None]:
    """Return what is to be said of golds that are whole texts, and how an answer can be taken out of them."""
    bad = [(one, gold) for one in seen for gold in prose(environment, one.item.prompt)[:1]]
    if not bad:
        return [], None
    golds = [gold for _, gold in bad]
    way = None if extracted else way_out(golds)
    message = (
        f"the gold of {len(bad):,} of {len(seen):,} completions that were looked at is a whole text, taken word for word: "
        "only the same words are right. They end in:"
    )
    expected = r"Expected is a bare answer such as 18; or a text with \boxed{18}, or with #### 18 as GSM8K has it, is read."
    if way is None:
        advice = f"{expected} Take the answer out of the texts before they are graded."
    else:
        how, count = way
        shown = next(answer for gold in golds if (answer := taken(gold, how)) is not None)
        what = "the last number or formula" if how == "last" else "an answer"
        advice = f"{expected} --gold-extract {how} takes {what} out of {count:,} of these {len(bad):,}, here {shown[:40]!r}."
        if how != "last":
            advice += " --gold-extract last takes the last number of each."
    examples = tuple(f"{place(one.item.row, one.item.line)}: {_end(gold)}" for one, gold in _different(bad))
    return [Hint(kind="gold_text", message=message, examples=examples, advice=advice)], way[0] if way else None


def _unread(summary: Summary, unread: int, seen: Sequence[Specimen], tried: Sequence[Trial]) -> Hint:
    why = "; ".join(sorted({str(one.score["reason"]) for one in seen})[:SHOWN])[:200]
    message = f"no answer was found in {unread:,} of {summary.scored:,} completions ({why}). Some end in:"
    examples = tuple(f"{place(one.item.row, one.item.line)}: {_end(one.item.completion.text)}" for one in seen[:SHOWN])
    untried = ", ".join(trial.arguments for trial in tried if not trial.texts)
    advice = f"The time did not suffice to try {untried}." if untried else "No option of the environment reads these texts."
    advice = _advice(tried) or advice
    return Hint(kind="no_answer", message=message, examples=examples, advice=advice, tried=tuple(tried))


def _none_right(summary: Summary, seen: Sequence[Specimen], tried: Sequence[Trial]) -> Hint:
    message = f"none of {summary.scored:,} completions is right, and all get {summary.highest_reward:g}. Some of them:"
    advice = _advice([trial for trial in tried if trial.right])
    advice = advice or "Is the gold in the column that was named, and of the same question? Is it written as answers are?"
    return Hint(kind="none_right", message=message, examples=_verdicts(seen), advice=advice, tried=tuple(tried))


def _equal(summary: Summary, seen: Sequence[Specimen]) -> Hint:
    message = f"all {summary.scored:,} completions get the same reward, {summary.highest_reward:g}. Some of them:"
    advice = "Such rewards tell nothing apart. Does the text hold the gold itself, or is every task this easy?"
    if summary.accuracy != 1:
        advice = "Such rewards tell nothing apart: look at the reasons, and whether the environment is the right one."
    return Hint(kind="equal_rewards", message=message, examples=_verdicts(seen), advice=advice)


def _advice(tried: Sequence[Trial]) -> str:
    proposed = best(tried)
    if proposed is None:
        return ""
    others = [f"{trial.arguments} {trial.read} ({trial.right})" for trial in tried if trial.read and trial != proposed]
    also = f"; also tried: {', '.join(others)}" if others else ""
    return (
        f"Of {proposed.texts} of these texts, {proposed.arguments} reads {proposed.read}, and {proposed.right} are right{also}."
        " Give it with --overwrite, or with another --out."
    )


def _verdicts(seen: Sequence[Specimen]) -> tuple[str, ...]:
    return tuple(
        f"{place(one.item.row, one.item.line)}: {one.score['status']}"
        + ("" if one.score["answer"] is None else f", answer {str(one.score['answer'])[:TEXT_END]!r}")
        + (f", gold {str(gold)[:TEXT_END]!r}" if (gold := one.item.gold.get("answer")) is not None else "")
        + (f": {str(one.score['reason'])[:120]}" if one.score["reason"] else "")
        for one in seen[:SHOWN]
    )


def _different(bad: Sequence[tuple[Specimen, str]]) -> list[tuple[Specimen, str]]:
    """Return the first few of different rows."""
    return list({one.item.row: (one, gold) for one, gold in reversed(bad)}.values())[::-1][:SHOWN]


def _end(text: str) -> str:
    tail = text.rstrip()[-TEXT_END:]
    return repr(tail if len(tail) == len(text.rstrip()) else f"...{tail}")
