r"""Choices that a question lists: `(A) 1 (B) 2`, `\textbf{(A)}\ 1 \qquad \textbf{(B)}\ 2`, or `A. 1 B. 2`."""

from __future__ import annotations

import re
from functools import lru_cache

from verigym.envs.math.judging.case import Case
from verigym.envs.math.judging.quantities.measures import is_missable
from verigym.envs.math.judging.question import MAX_CHARS, MAX_RUN_CHARS
from verigym.envs.math.judging.statements.statements import Same
from verigym.envs.math.judging.texts import choice_of, labelled, lettered
from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import Mul, Node, Number, Phrase, Symbol, Text, Verdict

_LABEL = re.compile(
    r"(?:\\(?:text|math)?(?:bf|rm)?\s*\{\s*)?\(([A-H])\)\s*\}?|(?:^|(?<=\n))[ \t]*([A-H])[.):](?=[\s$\\])"
    r"|(?<=[\s?:;,.])([A-H])[.)](?=[\s$\\])"
)
_SUMMED = re.compile(r"(none|all)(?: of (?:these|those|them|the (?:above|others|choices|options)))?\.?", re.IGNORECASE)
_BLANK = r"(?:\\q?quad(?![A-Za-z])|\\[ ,;:!\\]|[\s~])"
_FIRST = re.compile(rf"{_BLANK}+")
_LAST = re.compile(rf"(?:{_BLANK}|[.,;\\])+$")


def same_choice(case: Case, gold: Node, answer: Node, same: Same) -> Verdict | None:
    """Compare an answer of a letter with its text, such as `(E) 12`, with the gold. Letter and text must both be the gold's.

    Args:
        case: the state of the comparison, with the question.
        gold: the correct answer.
        answer: the answer to judge.
        same: compares two texts.

    Returns:
        The verdict; None if the answer is not a letter with its text, the gold is not a choice, or neither the gold nor the
        question gives the text of the gold's choice.
    """
    left, right = labelled(gold, lists=True), lettered(answer)
    letter = left[0] if left else choice_of(gold)
    if letter is None or right is None:
        return None
    listed = choices(case.question)
    listed_text = left[1] if left else listed.get(letter)
    if listed_text is None and not listed:
        return None
    if right[0] != letter:
        return case.refuse("another choice")
    text = right[1]
    if text == listed_text:
        return "same"
    if any(text == other for one, other in listed.items() if one != letter):
        return case.refuse("the text of another choice")
    if listed_text is None:
        return None
    if text == _without_unit(listed_text) or (not left and letter == max(listed) and _begins(listed_text, text)):
        return "same"
    verdict = same(case, _summed(listed_text), _summed(text))
    if verdict == "different" and not left and letter == max(listed) and isinstance(listed_text, Phrase):
        verdict = same(case, listed_text.parts[0], text)
    return case.refuse("another text than the choice's") if verdict == "different" else verdict


def is_contradicted(case: Case, answer: Node, same: Same) -> bool:
    """Return whether the answer gives a letter with a text that the question lists under another letter.

    Example: `(A) 2` if the question has 2 under B.

    Args:
        case: the state of the comparison, with the question.
        answer: the answer to judge.
        same: compares two texts.
    """
    label = labelled(answer, lists=True)
    listed = choices(case.question) if label else {}
    if label is None or label[0] not in listed or label[1] == listed[label[0]]:
        return False
    trial = Case(case.policy, case.question, case.seed, work=case.work)
    if same(trial, _without_unit(listed[label[0]]), label[1]) == "same":
        return False
    others = [text for letter, text in listed.items() if letter != label[0]]
    return any(same(trial, _without_unit(text), label[1]) == "same" for text in others)


def _without_unit(node: Node) -> Node:
    """Return the number in `2.5 m`, which is parsed as a product."""
    match node:
        case Mul((Number() as value, Symbol(name))) if is_missable(name):
            return value
    return node


def _summed(node: Node) -> Node:
    """Shorten `none of the above` to `none`."""
    match = _SUMMED.fullmatch(node.words) if isinstance(node, Text) else None
    return Text(match.group(1)) if match else node


def _begins(listed_text: Node, text: Node) -> bool:
    """Return whether the text under the last letter begins with `text`: the question may continue after the last choice."""
    listed_text = listed_text.parts[0] if isinstance(listed_text, Phrase) else listed_text
    if isinstance(listed_text, Text) and isinstance(text, Text):
        return f"{listed_text.words} ".casefold().startswith(f"{text.words} ".casefold())
    return False


@lru_cache(maxsize=256)
def choices(question: str) -> dict[str, Node]:
    """Return the choices of `question` by letter: the last sequence of labels that begins with A and has no gap."""
    text = question[:MAX_CHARS]
    row: list[re.Match[str]] = []
    whole: list[re.Match[str]] = []
    for match in _LABEL.finditer(text):
        letter = _letter(match)
        if letter == "A":
            whole = row if len(row) > 1 else whole
            row = [match]
        elif row and ord(letter) == ord(_letter(row[-1])) + 1:
            row.append(match)
    row = row if len(row) > 1 else whole
    if not row:
        return {}
    ends = [match.start() for match in row[1:]] + [len(text)]
    by_letter: dict[str, Node] = {}
    for match, end in zip(row, ends, strict=True):
        listed_text = text[match.end() : end].strip().partition("\n")[0][:MAX_RUN_CHARS]
        if text.count("$", 0, match.start()) % 2:  # within a formula, and so is what it stands for
            listed_text = listed_text.partition("$")[0]
        try:
            by_letter[_letter(match)] = parse(_trimmed(listed_text))
        except ParseError:
            continue
    return by_letter


def _letter(match: re.Match[str]) -> str:
    return match[1] or match[2] or match[3]


def _trimmed(text: str) -> str:
    """Strip dollar signs, surrounding blanks and the final full stop from a choice."""
    text = text.replace("$", " ").strip()
    first = _FIRST.match(text)
    text = text[first.end() :] if first else text
    last = _LAST.search(text)
    return text[: last.start()] if last else text
