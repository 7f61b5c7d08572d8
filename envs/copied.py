r"""Answers that hand the question back: 17*23 and 23 * 17 * 1 are no answer to "What is 17*23?".

A part of the question counts as handed back when the answer repeats it, reorders it, or works with exactly its numbers. An
expression with numbers of its own (3 * 130 + 1) is somebody's work, and is left to the tiers.
"""

from __future__ import annotations

import re

from verigym.envs import exact
from verigym.envs.mathtext import canonical, clean
from verigym.envs.shape import is_name, sides_of

_SPACES = re.compile(r"\s++|\\cdot|\\times|[{}*]")
_NUMBER = re.compile(r"[0-9]++(?:\.[0-9]++)?")
_TOKEN = re.compile(rf"\\[A-Za-z]++|[A-Za-z]|{_NUMBER.pattern}|[-+^!|]")
# A stretch of symbols: two letters in a row are a word of the sentence.
_RUN = re.compile(r"(?:\\[A-Za-z]++|(?<![A-Za-z])(?:[A-Za-z]|d[A-Za-z])(?![A-Za-z])|[^A-Za-z$?,;=<>])++")
_LAYOUT = frozenset((r"\frac", r"\cdot", r"\times", r"\div", "1"))
# Padding by these changes no value: + 0, * 1, ^1, the root of a square.
_PADDING = frozenset(("0", "1", "2"))


def hands_back(question: str, gold: str, answer: str) -> bool:
    """Whether a cleaned answer is, on every side that claims a value, a part of the question not worked out."""
    question = clean(question)
    sides = [side for side in sides_of(answer) if not is_name(side)] if "=" in answer else [answer]
    return bool(sides) and all(_copied(question, gold, side) for side in sides)


def _copied(question: str, gold: str, side: str) -> bool:
    if exact.is_bare(side) or canonical(side) == canonical(gold) or not any(c in side for c in "+-*/^(\\"):
        return False
    if _SPACES.sub("", side) in _SPACES.sub("", question):
        return True
    tokens = _tokens(side)
    if tokens == _tokens(gold):
        return False
    return any(_same_work(run.strip(), side, tokens) for run in _RUN.findall(question))


def _same_work(run: str, side: str, tokens: list[str]) -> bool:
    if not any(c in run for c in "+-*/^(\\"):
        return False
    if tokens == _tokens(run):
        return True
    if _has_variable(run) or _has_variable(side):
        return False
    numbers, others = _NUMBER.findall(side), _NUMBER.findall(run)
    if exact.parse(side) is not None:  # a fraction of numbers that occur in the question may be the answer
        return sorted(numbers) == sorted(others)
    own = {_plain(number) for number in numbers} - _PADDING
    return bool(own) and own == {_plain(number) for number in others} - _PADDING


def _tokens(text: str) -> list[str]:
    return sorted(token for token in _TOKEN.findall(text) if token not in _LAYOUT)


def _has_variable(text: str) -> bool:
    return re.search(r"(?<![\\A-Za-z])(?!e(?![A-Za-z]))[A-Za-z]", re.sub(r"\\[A-Za-z]++", " ", text)) is not None


def _plain(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number
