"""Checks of IFBench's instruction family `custom`. Each check is for one task of the benchmark.

Definitions: Pyatkin et al. (arXiv 2507.02833) and the benchmark's checkers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from verigym.envs.constraints.matching import plain_letters
from verigym.envs.constraints.sentences import sentences
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.wordlists import NORTHERN_CAPITALS
from verigym.envs.constraints.words import bare, without_punctuation

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NAPOLEON = range(1769, 1822)
_SPECIAL = re.compile(r"[^\d\w\s]")
_QUESTION = re.compile(r"Question \d+[.|):;]?")
_CHOICE = re.compile(r"[A-Ea-e][.|)]\s*\w")
_AFRICAN_LINES = 52


@constraint("custom:character_reverse", "`elgae dlab` occurs, in any case.")
def character_reverse(text: str) -> bool:
    """Look for the reversed name."""
    return "bald eagle"[::-1] in text.lower()


@constraint(
    "custom:word_reverse", "`bald eagle` occurs once the order of the words is reversed, punctuation and case put aside."
)
def word_reverse(text: str) -> bool:
    """Reverse the words."""
    return "bald eagle" in " ".join(reversed(without_punctuation(text.lower()).split()))


@constraint("custom:multiples", "The numbers in the text are 14, 21, 28, 35, 42, 49, in this order and no others.")
def multiples(text: str) -> bool:
    """Compare all numbers."""
    return re.findall(r"\d+", text) == [str(number) for number in range(14, 51, 7)]


@constraint("custom:date_format_list", "Dates as YYYY-MM-DD between commas, in the years 1769 to 1821, and nothing else.")
def date_format_list(text: str) -> bool:
    """Check each date."""
    dates = [_DATE.fullmatch(part.strip()) for part in text.split(",")]
    return all(date is not None and _possible(*map(int, date.groups())) for date in dates)


def _possible(year: int, month: int, day: int) -> bool:
    return year in _NAPOLEON and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1]


@constraint(
    "custom:european_capitals_sort",
    "27 capitals north of 45 degrees between commas, from north to south; accents may be left out.",
)
def european_capitals_sort(text: str) -> bool:
    """Compare with the list."""
    parts = [part.strip() for part in plain_letters(text).split(",")]
    return tuple(part for part in parts if part) == NORTHERN_CAPITALS


@constraint(
    "custom:reverse_newline",
    "From the line with Zimbabwe on, at least 52 lines that are not blank, in reverse alphabetical order.",
)
def reverse_newline(text: str) -> bool:
    """Check the order of lines."""
    lines = [line for line in map(bare, text.split("\n")) if line]
    start = next((number for number, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    names = [plain_letters(line) for line in lines[start:]]
    return len(names) >= _AFRICAN_LINES and names == sorted(names, reverse=True)


@constraint("custom:sentence_alphabet", "26 sentences whose first letters are a to z, in any case.")
def sentence_alphabet(text: str) -> bool:
    """Look at first letters."""
    return "".join(sentence[0].lower() for sentence in sentences(text)) == "abcdefghijklmnopqrstuvwxyz"


@constraint(
    "custom:mcq_count_length",
    "From `Question` on: four questions `Question 1`, each longer than the last, with five choices A to E.",
)
def mcq_count_length(text: str) -> bool:
    """Split into questions."""
    if not text.startswith("Question"):
        return False
    questions = [part.strip() for part in _QUESTION.split(text) if part.strip()]
    lengths = []
    for question in questions:
        lines = [line.strip() for line in question.split("\n")]
        choices = [number for number, line in enumerate(lines) if _CHOICE.match(line)]
        if len(choices) != 5:
            return False
        lengths.append(len(" ".join(lines[: choices[0]]).strip()))
    return len(lengths) == 4 and all(one < other for one, other in zip(lengths, lengths[1:], strict=False))


@constraint("custom:csv_city", "Comma-separated: the header ID, Country, City, Year, Count, then seven rows of five fields.")
def csv_city(text: str) -> bool:
    """Read as CSV."""
    table = _read(text, ",")
    return (
        len(table) == 8 and table[0] == ["ID", "Country", "City", "Year", "Count"] and all(len(row) == 5 for row in table[1:])
    )


@constraint(
    "custom:csv_special_character",
    "Comma-separated: the header ProductID, Category, Brand, Price, Stock, 14 rows; a quoted field holds a special character.",
)
def csv_special_character(text: str) -> bool:
    """Read as CSV with the quotation marks kept."""
    if not _header(text, ",", ("ProductID", "Category", "Brand", "Price", "Stock")):
        return False
    table = _read(text.replace('"', '"""'), ",")
    if len(table) != 15:
        return False
    for row in table[1:]:
        if len(row) != 5:
            return False
        if any(_holds_special(field.split("\n", 1)[0]) for field in row):
            return True
    return False


def _holds_special(field: str) -> bool:
    last = field.rfind('"')
    return field.startswith('"') and last > 1 and _SPECIAL.search(field, 1, last) is not None


@constraint(
    "custom:csv_quotes",
    "Tab-separated: the header StudentID, Subject, Grade, Semester, Score, three rows; every field in double quotes.",
)
def csv_quotes(text: str) -> bool:
    """Read as CSV with the quotation marks kept."""
    if not _header(text, "\t", ("StudentID", "Subject", "Grade", "Semester", "Score")):
        return False
    table = _read(text.replace('"', '"""'), "\t")
    fields = [field.strip() for row in table for field in row]
    return (
        len(table) == 4
        and all(len(row) == 5 for row in table)
        and all(len(field) > 1 and field[0] == field[-1] == '"' for field in fields)
    )


def _header(text: str, separator: str, names: Sequence[str]) -> bool:
    """Whether the first line names the columns, each plain or in quotation marks, with space after a separator or none."""
    fields = [
        field.lstrip(" \t") if number else field for number, field in enumerate(text.split("\n", 1)[0].strip().split(separator))
    ]
    return len(fields) == len(names) and all(field in (name, f'"{name}"') for field, name in zip(fields, names, strict=True))


def _read(text: str, separator: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error:  # a field beyond the reader's limit
        return []
