"""Kinds `list`, `json` and `regex`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.latex.formatting import strip_formatting, unwrap_text
from verigym.envs.linear import JsonProblem, check_pattern, full_match, read_json
from verigym.envs.match.kind import Kind, MatchReference, Verdict
from verigym.envs.match.lists import split_items, unbracketed
from verigym.envs.match.numeric import as_number, near
from verigym.envs.match.text import normalised

DEEPEST = 64
_AND = re.compile(r"and\s++(?=\S)", re.IGNORECASE)
_LAST_AND = re.compile(r"(.*\S)\s+and\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_BULLET = re.compile(r"^(?:[-*\u2022]|[0-9]{1,4}[.)])\s+")


def same_json(one: Any, other: Any, depth: int = 0) -> bool:
    """Return whether two JSON values are equal. 1 equals 1.0 but not true. Order matters for list items, but not for keys."""
    if depth > DEEPEST or isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key], depth + 1) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same_json(a, b, depth + 1) for a, b in zip(one, other, strict=True))
    return not isinstance(one, dict | list) and not isinstance(other, dict | list) and bool(one == other)


def _check_json(reference: MatchReference) -> None:
    if not same_json(reference.answer, reference.answer):
        raise UsageError(f"field 'answer': kind='json' needs a value of at most {DEEPEST} levels, without nan")


def _judge_json(reference: MatchReference, answer: str) -> Verdict:
    try:
        value = read_json(answer)
    except JsonProblem as problem:
        return Verdict(None, f"the answer {problem}")
    same = same_json(value, reference.answer)
    return Verdict(same, "the same value" if same else "another value")


def _gold_json(reference: MatchReference) -> str:
    return json.dumps(reference.answer, ensure_ascii=False)


def _check_list(reference: MatchReference) -> None:
    given = reference.answer
    if not isinstance(given, list) or not given or not all(_is_item(item) for item in given):
        raise UsageError(f"field 'answer': kind='list' needs a list of texts and numbers; got {given!r:.80}")
    if not reference.ordered and (reference.tolerance or reference.relative_tolerance):
        raise UsageError("field 'ordered': items in any order are compared exactly; drop the tolerance, or use ordered=True")


def _is_item(item: object) -> bool:
    if isinstance(item, str):
        return bool(item.strip()) and not re.search(r"[,;\n]", item)
    return as_number(item) is not None


def _items(answer: str) -> list[object] | None:
    """Read a JSON array of texts and numbers, or else a list as `lists` does."""
    if answer.startswith("["):
        try:
            value = read_json(answer)
        except JsonProblem:
            pass  # a list of another notation
        else:
            return value if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value) else None
    answer = unbracketed(strip_formatting(answer))
    items = split_items(answer)
    if "\n" in answer:  # "- 5" among others between commas is a number
        items = [_BULLET.sub("", item) for item in items]
    return [*items] if all(items) else None


def _same_item(given: object, gold: object, reference: MatchReference) -> bool:
    number, right = as_number(given, lowest=True), as_number(gold)
    if number is not None and right is not None:
        return near(number, right, reference)
    return isinstance(given, str) and isinstance(gold, str) and normalised(given) == normalised(gold)


def _judge_list(reference: MatchReference, answer: str) -> Verdict:
    items = _items(answer)
    if items is None:
        return Verdict(None, "no list of texts and numbers")
    verdicts = [_compared(reading, reference) for reading in _readings(items)]
    return next((verdict for verdict in verdicts if verdict.right), verdicts[0])


def _readings(items: list[object]) -> Iterator[list[object]]:
    """Yield the items, and what they are with an "and" before the last one, which may also be a part of its name."""
    yield items
    last = items[-1] if items else None
    if isinstance(last, str):
        if len(items) > 1 and (bare := _AND.match(last)):  # red, green, and 3
            yield [*items[:-1], last[bare.end() :]]
        if joined := _LAST_AND.fullmatch(last):  # red, green and 3
            yield [*items[:-1], *joined.groups()]


def _compared(items: list[object], reference: MatchReference) -> Verdict:
    golds = reference.answer if isinstance(reference.answer, list) else []
    if len(items) != len(golds):
        return Verdict(False, f"{len(items)} items where {len(golds)} are right")
    if reference.ordered:
        wrong = next((n for n, pair in enumerate(zip(items, golds, strict=True), 1) if not _same_item(*pair, reference)), None)
        return Verdict(wrong is None, "the same items" if wrong is None else f"item {wrong} is another")
    left = list(golds)
    for item in items:
        match = next((n for n, gold in enumerate(left) if _same_item(item, gold, reference)), None)
        if match is None:
            return Verdict(False, "an item is none of the right ones, or stands too often")
        left.pop(match)
    return Verdict(True, "the same items")


def _gold_list(reference: MatchReference) -> str:
    return ", ".join(map(str, reference.answer)) if isinstance(reference.answer, list) else ""


def _check_regex(reference: MatchReference) -> None:
    if not reference.pattern:
        raise UsageError("field 'pattern': kind='regex' needs a regular expression")
    check_pattern(reference.pattern)


def _judge_regex(reference: MatchReference, answer: str) -> Verdict:
    fits = any(full_match(reference.pattern or "", text) for text in {answer, unwrap_text(answer)})
    return Verdict(fits, "fits the pattern" if fits else "does not fit the pattern")


def _need_re2() -> None:
    full_match("", "")


JSON = Kind(
    frozenset({"answer"}),
    _check_json,
    _judge_json,
    _gold_json,
    ("fence", "tag", "boxed", "all"),
    tags=("json", "jsonc", "json5"),
)
LIST = Kind(
    frozenset({"answer", "ordered", "tolerance", "relative_tolerance"}), _check_list, _judge_list, _gold_list, ("boxed", "tag")
)
REGEX = Kind(frozenset({"pattern", "example"}), _check_regex, _judge_regex, lambda r: r.example, ("boxed", "tag"), _need_re2)
