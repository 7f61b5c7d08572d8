"""Checks of IFBench's family `format`. Definitions: Pyatkin et al. (arXiv 2507.02833) and the benchmark's checkers."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from itertools import pairwise

from verigym.envs.constraints.arguments import Text
from verigym.envs.constraints.sentences import sentences
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.words import EDGES, tokens, without_punctuation
from verigym.envs.contract.errors import EnvironmentFailure

_DEEP_BRACKETS = 5
_DEEP_QUOTES = 3
_CLOSES = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*a\W*b\W*c", re.IGNORECASE)
_BESIDE_QUOTE = string.digits + string.punctuation.replace('"', "")
_TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")


def _emoji() -> Callable[[str], bool]:
    try:
        from emoji import is_emoji
    except ImportError:
        raise EnvironmentFailure("unavailable", "emoji is missing; pip install 'verigym[constraints]'") from None
    return is_emoji


@constraint("format:emoji", "Each sentence ends with an emoji, or the next begins with one.", needs=("emoji",))
def emoji(text: str) -> bool:
    """Look at the ends of sentences."""
    is_emoji = _emoji()
    parts = [without_punctuation(sentence).strip() for sentence in sentences(text)]
    if not parts:
        return False
    after = [*(part[:1] for part in parts[1:]), ""]
    # the last code point may only choose how the emoji before it is drawn
    return all(part and any(map(is_emoji, (part[-1], part[-2:-1], first))) for part, first in zip(parts, after, strict=True))


@constraint("format:line_indent", "Each line that is not blank is indented by more spaces than the one before.")
def line_indent(text: str) -> bool:
    """Compare indents."""
    indents = [len(line) - len(line.lstrip(" ")) for line in text.split("\n") if line.strip()]
    return all(one < other for one, other in pairwise(indents))


@constraint("format:list", "`sep` occurs at least twice.")
def separated_list(text: str, *, sep: Text) -> bool:
    """Count marks."""
    return text.count(sep) >= 2


@constraint("format:newline", "Each word stands on a line of its own, punctuation put aside.")
def newline(text: str) -> bool:
    """Compare numbers of lines and words."""
    content = without_punctuation(text).strip()
    return sum(bool(line) for line in content.split("\n")) == len(content.split())


@constraint(
    "format:no_bullets_bullets", "At least two sentences, then at least two lines that begin with `*`, and nothing else."
)
def no_bullets_bullets(text: str) -> bool:
    """Count sentences, then bullets."""
    lines = [line for line in (line.strip() for line in text.split("\n")) if line]
    bullets = [line.startswith("*") for line in lines]
    first = bullets.index(True) if True in bullets else len(lines)
    said = sum(len(sentences(line)) for line in lines[:first])
    return said >= 2 and all(bullets[first:]) and len(lines) - first >= 2


@constraint("format:no_whitespace", "There is no white space.")
def no_whitespace(text: str) -> bool:
    """Look for white space."""
    return not any(character.isspace() for character in text)


@constraint(
    "format:options",
    "The text is one of `options` (parted by `/`, else `or`, else `,`); lettered ones exactly, others in any case.",
)
def options(text: str, *, options: Text) -> bool:
    """Compare with each option."""
    separator = next((mark for mark in ("/", "or") if mark in options), ",")
    choices = [choice.strip() for choice in options.split(separator)]
    if _LETTERED.match(options):
        return text.strip() in choices
    return text.strip().strip(EDGES).lower() in [choice.strip(EDGES).lower() for choice in choices]


@constraint("format:output_template", "`My Answer:`, `My Conclusion:` and `Future Outlook:` occur.")
def output_template(text: str) -> bool:
    """Look for the parts."""
    return all(part in text for part in _TEMPLATE)


@constraint("format:parentheses", "Brackets ( [ { stand in one another five deep, and the innermost closes.")
def parentheses(text: str) -> bool:
    """Match brackets."""
    opened: list[str] = []
    deepest = 0
    for mark in text:
        if mark in "([{":
            opened.append(mark)
            deepest = max(deepest, len(opened))
        elif mark in ")]}":
            if not opened or opened.pop() != _CLOSES[mark]:
                opened, deepest = [], 0
            elif deepest >= _DEEP_BRACKETS:
                return True
    return False


@constraint("format:quotes", "Double and single quotation marks stand in one another three deep, in turn, and close again.")
def quotes(text: str) -> bool:
    """Match quotation marks."""
    opened: list[str] = []
    deepest = 0
    for mark in text:
        if opened and mark == opened[-1]:
            opened.pop()
            if deepest - len(opened) >= _DEEP_QUOTES:
                return True
        elif mark in "\"'":
            opened.append(mark)
            deepest = max(deepest, len(opened))
    return False


@constraint(
    "format:quote_unquote", "No double quotation marks touch, and the text does not end with one: something is said after each."
)
def quote_unquote(text: str) -> bool:
    """Look at what follows quotations."""
    content = text.replace("\u201c", '"').replace("\u201d", '"').replace("'\"'", "")
    content = "".join(content.split())
    return '""' not in content and not content.strip(_BESIDE_QUOTE).endswith('"')


@constraint("format:sub-bullets", "After each `*` there is a `-` before the next, and there is a `*`.")
def sub_bullets(text: str) -> bool:
    """Look for sub-bullets."""
    parts = text.split("*")[1:]
    return bool(parts) and all("-" in part for part in parts)


@constraint("format:thesis", "HTML italics (`<i>` or `<em>`) that are not blank, and text after them.")
def thesis(text: str) -> bool:
    """Look for italics."""
    tag = next((tag for tag in ("i", "em") if f"<{tag}>" in text), None)
    if tag is None:
        return False
    _, _, rest = text.partition(f"<{tag}>")
    mark = next((mark for mark in ("</i>", "</em>") if mark in rest), None)
    if mark is None:
        return False
    inside, _, after = rest.partition(mark)
    return bool(inside.strip()) and bool(after.strip())


@constraint("format:title_case", "No word is in small letters; the ends of shortened words (n't) are passed over.")
def title_case(text: str) -> bool:
    """Look for words in small letters."""
    return not any(_small(token) for token in tokens(text) if token[0].isalpha() and token.lower() != "n't")


def _small(token: str) -> bool:
    return token[0].islower() and (len(token) == 1 or token[1:].islower() or token[1:].isupper())
