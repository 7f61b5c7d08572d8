"""Multiple choice (GPQA, MMLU-Pro, SAT) and knights and knaves: the reference is made from more than one column of a row."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from verigym.datasets_cfg.adapters.base import AdaptedRow, Adapter, RawRow, texts
from verigym.datasets_cfg.fields import FieldProblem
from verigym.envs.contract.schema import sha256_hex

_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_MARK = re.compile(r"(?:^|(?<=\s))([A-J])(?:\)\s*|\.\s)")


def _choice(task_id: str, choices: Sequence[str], right: int) -> AdaptedRow:
    letters = string.ascii_uppercase
    shown = "\n".join(f"{letter}) {text}" for letter, text in zip(letters, choices, strict=False))
    return AdaptedRow({"answer": letters[right], "choices": list(choices)}, task_id, {"choices": shown})


def gpqa(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of GPQA.

    The right answer and three wrong ones have a column each; their order is determined by a hash of the question.
    """
    right = row["Correct Answer"].strip()
    choices = [right, *(row[column].strip() for column in _WRONG)]
    choices.sort(key=lambda text: sha256_hex(f"{row['Question']}/{text}"))
    return _choice(str(row.get("Record ID") or sha256_hex(row["Question"])[:12]), choices, choices.index(right))


def mmlu_pro(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of MMLU-Pro: up to ten options in a list, and the index of the right one from 0."""
    options, right = texts(row["options"], "options"), row["answer_index"]
    if not 0 <= right < len(options):
        raise FieldProblem("answer_index", f"is {right}, but there are {len(options)} options")
    return _choice(str(row["question_id"]), options, right)


def lettered(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, which has all options in one text, `A) ... B) ...`, and the letter of the right one."""
    pieces = _MARK.split(row["options"])
    letters, choices = pieces[1::2], [piece.strip() for piece in pieces[2::2]]
    if letters != list(string.ascii_uppercase[: len(letters)]) or len(letters) < 2:
        raise FieldProblem("options", f"has the marks {letters}; expected A), B) and so on, each once and in order")
    if row["Answer"] not in letters:
        raise FieldProblem("Answer", f"is {row['Answer']!r}; expected one of {letters}")
    return _choice(row["id"], choices, letters.index(row["Answer"]))


def knights_and_knaves(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of Knights and Knaves. The answer is the list of the people who are knights.

    The row holds everyone's name, and for each person whether he is a knight.
    """
    names, kinds = texts(row["names"], "names"), row["solution"]
    if len(names) != len(kinds) or not all(isinstance(kind, bool) for kind in kinds):
        raise FieldProblem("solution", f"has {len(kinds)} values; expected true or false for each of {len(names)} names")
    knights = ", ".join(name for name, kind in zip(names, kinds, strict=True) if kind)
    return AdaptedRow({"answer": knights or "none"}, sha256_hex(row["quiz"])[:12])


GPQA = Adapter(
    gpqa,
    {"Question": "string", "Correct Answer": "string", **dict.fromkeys(_WRONG, "string")},
    gold="Correct Answer",
    prompt_texts=("choices",),
)
MMLU_PRO = Adapter(
    mmlu_pro,
    {"question_id": "integer", "question": "string", "options": "list", "answer_index": "integer"},
    gold="answer_index",
    prompt_texts=("choices",),
)
LETTERED = Adapter(
    lettered,
    {"id": "string", "question": "string", "options": "string", "Answer": "string"},
    gold="Answer",
    prompt_texts=("choices",),
)
KNIGHTS_AND_KNAVES = Adapter(knights_and_knaves, {"quiz": "string", "names": "list", "solution": "list"}, gold="solution")
