"""Checks of IFEval's instructions on the layout of a response: lists, sections, lengths, beginning and end.

Definitions: Zhou et al., "Instruction-Following Evaluation for Large Language Models" (arXiv 2311.07911) and its checkers.
Every regular expression takes linear time: its quantifiers are possessive, or stand where they cannot backtrack.
"""

from __future__ import annotations

import json
import re

from verigym.envs import strict_json
from verigym.envs.constraints.arguments import Count, Position, Relation, Text
from verigym.envs.constraints.matching import holds
from verigym.envs.constraints.sentences import sentences
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.words import count_words

_HIGHLIGHT = re.compile(r"\*([^\n*]*+)\*")
_DOUBLE_HIGHLIGHT = re.compile(r"\*\*([^\n*]*+)\*\*")
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCES = ("```json", "```Json", "```JSON", "```")
_DIVIDER = re.compile(r"\s?\*\*\*\s?")


@constraint("detectable_format:number_bullet_lists", "Exactly `num_bullets` lines begin with `*` (not `**`) or `-`.")
def number_bullet_lists(text: str, *, num_bullets: Count) -> bool:
    """Count bullets."""
    lines = [line.lstrip() for line in text.split("\n")]
    stars = dashes = 0
    taken = False
    for number, line in enumerate(lines):
        dashes += line.startswith("-")
        if taken:  # the line belongs to the star that stood alone on the line before
            taken = False
        elif line.startswith("*"):
            taken = line == "*" and number + 1 < len(lines)
            stars += taken or (len(line) > 1 and line[1] != "*")
    return stars + dashes == num_bullets


@constraint(
    "detectable_format:number_highlighted_sections",
    "At least `num_highlights` parts stand in `*...*`; one in `**...**` counts too.",
)
def number_highlighted_sections(text: str, *, num_highlights: Count) -> bool:
    """Count highlights."""
    found = [match[1] for pattern in (_HIGHLIGHT, _DOUBLE_HIGHLIGHT) for match in pattern.finditer(text)]
    return sum(bool(part.strip()) for part in found) >= num_highlights


@constraint(
    "detectable_format:multiple_sections", "`section_spliter` with a number after it occurs at least `num_sections` times."
)
def multiple_sections(text: str, *, section_spliter: Text, num_sections: Count) -> bool:
    """Count section marks."""
    mark = re.compile(re.escape(section_spliter.strip()) + r"\s?\d")
    return sum(1 for _ in mark.finditer(text)) >= num_sections


@constraint("detectable_format:title", "A line holds a title in `<<...>>` that is not blank.")
def title(text: str) -> bool:
    """Look for a title."""
    for line in text.split("\n"):
        first, last = line.find("<<"), line.rfind(">>")
        if 0 <= first < last - 2 and line[first:last].lstrip("<").rstrip(">").strip():
            return True
    return False


@constraint("detectable_format:json_format", "The text, out of one code fence if it stands in one, is JSON.")
def json_format(text: str) -> bool:
    """Parse as JSON."""
    content = text.strip()
    for fence in _FENCES:
        content = content.removeprefix(fence)
    content = content.removesuffix("```").strip()
    try:
        strict_json.refuse_depth(content)
        json.loads(content)
    except ValueError:
        return False
    return True


@constraint(
    "detectable_format:constrained_response",
    "The text holds `My answer is yes.`, `My answer is no.` or `My answer is maybe.`",
)
def constrained_response(text: str) -> bool:
    """Look for one of three answers."""
    return any(answer in text for answer in _ANSWERS)


@constraint(
    "length_constraints:number_words", "`at least` or `less than` `num_words` words (runs of letters, digits, underscores)."
)
def number_words(text: str, *, num_words: Count, relation: Relation) -> bool:
    """Count words."""
    return holds(count_words(text), relation, num_words)


@constraint("length_constraints:number_sentences", "`at least` or `less than` `num_sentences` sentences.")
def number_sentences(text: str, *, num_sentences: Count, relation: Relation) -> bool:
    """Count sentences."""
    return holds(len(sentences(text)), relation, num_sentences)


@constraint(
    "length_constraints:number_paragraphs", "Exactly `num_paragraphs` parts between dividers `***`, none blank but at the ends."
)
def number_paragraphs(text: str, *, num_paragraphs: Count) -> bool:
    """Count parts between dividers."""
    parts = [part.strip() for part in _DIVIDER.split(text)]
    blank_ends = (not parts[0]) + (not parts[-1] and len(parts) > 1)
    return all(parts[1:-1]) and len(parts) - blank_ends == num_paragraphs


def _within(nth_paragraph: int, num_paragraphs: int, **_: object) -> str:
    return "" if nth_paragraph <= num_paragraphs else f"nth_paragraph={nth_paragraph} is above num_paragraphs={num_paragraphs}"


@constraint(
    "length_constraints:nth_paragraph_first_word",
    "`num_paragraphs` parts between empty lines; number `nth_paragraph` begins with `first_word`, in any case.",
    rule=_within,
)
def nth_paragraph_first_word(text: str, *, num_paragraphs: Count, nth_paragraph: Position, first_word: Text) -> bool:
    """Count paragraphs and look at one."""
    parts = [part.strip() for part in text.split("\n\n")]
    filled = sum(bool(part) for part in parts)
    if filled != num_paragraphs or nth_paragraph > filled or not parts[nth_paragraph - 1]:
        return False
    word = parts[nth_paragraph - 1].split(maxsplit=1)[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", word, maxsplit=1)[0].lower() == first_word.lower()


@constraint("startend:end_checker", "The text ends with `end_phrase`, in any case; quotation marks may follow.")
def end_checker(text: str, *, end_phrase: Text) -> bool:
    """Check the text's end."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@constraint("startend:quotation", "The text begins and ends with a double quotation mark.")
def quotation(text: str) -> bool:
    """Check for quotation marks around the text."""
    content = text.strip()
    return len(content) > 1 and content.startswith('"') and content.endswith('"')


@constraint("punctuation:no_comma", "There is no comma.")
def no_comma(text: str) -> bool:
    """Look for a comma."""
    return "," not in text
