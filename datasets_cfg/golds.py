"""Finds golds that are whole texts although the environment expects short answers; proposes a method to extract short ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from verigym.datasets_cfg.fields import EXTRACTIONS, Extraction
from verigym.envs import Environment, Prompt, UsageError
from verigym.envs.extraction.methods import METHODS

FIELD = "answer"
PROSE_WORDS = 8
"""A gold with at least this many words, outside formulas, is not a short answer."""
ENOUGH = 0.9
"""Fraction of the best method's answers. The first extraction method that finds at least this many answers is proposed."""
_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")


def wants_short(environment: Environment) -> bool:
    """Return True if `environment` compares short final answers: its option `extract` says how they are found in a text."""
    now = getattr(getattr(environment, "options", None), "extract", None)
    return isinstance(now, tuple) and set(now) <= set(METHODS)


def prose(environment: Environment, prompt: Prompt) -> list[str]:
    """Return those golds of `prompt` that are whole texts instead of short answers.

    A text that marks its answer, for example by a box, is not returned.
    """
    from verigym.envs.math.judging.golds import gold_text

    found = getattr(prompt.references.get(environment.name), FIELD, ())
    return [gold for gold in ([found] if isinstance(found, str) else found) if is_prose(gold_text(gold))]


def is_prose(text: str) -> bool:
    """Return True if `text` has too many words to be a short answer."""
    return len(_WORD.findall(text)) >= PROSE_WORDS


def way_out(golds: Sequence[str]) -> tuple[Extraction, int] | None:
    """Return an extraction method that finds short answers in `golds`, and the number of golds in which it finds one.

    It is the first method that is nearly as good as the best (see `ENOUGH`). Return None if no method finds any answer.
    """
    counts = {how: sum(taken(gold, how) is not None for gold in golds) for how in EXTRACTIONS}
    most = max(counts.values(), default=0)
    return next(((how, count) for how, count in counts.items() if most and count >= ENOUGH * most), None)


def taken(gold: str, how: Extraction) -> str | None:
    """Return the short answer that the method `how` extracts from `gold`, or None."""
    answer = METHODS[how](gold)
    return answer if answer and not is_prose(answer) else None


def with_taken(environment: Environment, prompt: Prompt, how: Extraction) -> Prompt | None:
    """Return `prompt` with each gold that is a whole text replaced by the short answer that `how` extracts from it.

    Return None if `how` finds no short answer in one of them, or the environment refuses the new golds.
    """
    reference = prompt.references[environment.name]
    given = getattr(reference, FIELD)
    golds = [given] if isinstance(given, str) else given
    answers = [taken(gold, how) if is_prose(gold) else gold for gold in golds]
    if None in answers:
        return None
    try:
        return environment.prompt(list(prompt.messages), **{**reference.model_dump(), FIELD: answers})
    except UsageError:
        return None
