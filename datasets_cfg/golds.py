"""Finds golds that are whole texts where short answers are expected, and an extraction method that would shorten them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from verigym.datasets_cfg.fields import EXTRACTIONS, Extraction
from verigym.envs import Environment, Prompt, UsageError
from verigym.envs.extraction.methods import METHODS

FIELD = "answer"
PROSE_WORDS = 8
"""Number of words, outside formulas, from which a gold is not a short answer."""
ENOUGH = 0.9
"""The first extraction method that finds this fraction of the answers that the best method finds is proposed."""
_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")


def wants_short(environment: Environment) -> bool:
    """Return True if `environment` compares short final answers, which its option `extract` finds in a longer text."""
    now = getattr(getattr(environment, "options", None), "extract", None)
    return isinstance(now, tuple) and set(now) <= set(METHODS)


def prose(environment: Environment, prompt: Prompt) -> list[str]:
    """Return those golds of `prompt` that are whole texts instead of short answers, and in which no answer is marked."""
    from verigym.envs.math.judging.golds import gold_text

    found = getattr(prompt.references.get(environment.name), FIELD, ())
    return [gold for gold in ([found] if isinstance(found, str) else found) if is_prose(gold_text(gold))]


def is_prose(text: str) -> bool:
    """Return True if `text` has too many words to be a short answer."""
    return len(_WORD.findall(text)) >= PROSE_WORDS


def way_out(golds: Sequence[str]) -> tuple[Extraction, int] | None:
    """Return the extraction method that finds a short answer in the most of `golds`, with the number of these golds.

    Return None if no method finds any. Of methods that are nearly as good as the best, the first is returned.
    """
    counts = {how: sum(taken(gold, how) is not None for gold in golds) for how in EXTRACTIONS}
    most = max(counts.values(), default=0)
    return next(((how, count) for how, count in counts.items() if most and count >= ENOUGH * most), None)


def taken(gold: str, how: Extraction) -> str | None:
    """Return the short answer that the method `how` extracts from `gold`, or None."""
    answer = METHODS[how](gold)
    return answer if answer and not is_prose(answer) else None


def with_taken(environment: Environment, prompt: Prompt, how: Extraction) -> Prompt | None:
    """Return `prompt` with short answers extracted from its golds by the method `how`; None if that fails."""
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
