"""Lean statements: splits a row's header and formal statement into the reference fields of the `lean` environment.

The two columns are joined and read as one text, in which the last declaration is the statement. The boundary between the
columns is ignored, because some data sets set it by a regular expression: it may be inside a comment or after a declaration.
"""

from __future__ import annotations

import re

from verigym.datasets_cfg.adapters.base import AdaptedRow, Adapter, RawRow, without_empty
from verigym.datasets_cfg.fields import ColumnType, FieldProblem
from verigym.envs import UsageError
from verigym.envs.lean.lexer import tokens
from verigym.envs.lean.statement import Split, split_statement

_COMMENT = re.compile(r"/-[-!]?(.*)-/", re.DOTALL)


def statement(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, which has a Lean statement in the columns `header` and `formal_statement`.

    The problem in words is in `informal_prefix` (a comment) or `informal_statement` (plain text).
    """
    return _adapted(_split(row.get("header") or "", row["formal_statement"], "formal_statement"), _informal(row))


def proved(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, which has a Lean statement ending in `:=` or `:= by`, and its proof in `formal_proof`."""
    parts = _split(row.get("header") or "", row["formal_statement"], "formal_statement")
    adapted = _adapted(parts, _informal(row))
    opening = parts.tail.strip().removeprefix(":=").strip()
    if not parts.tail or opening not in ("", "by"):
        raise FieldProblem(
            "formal_statement", f"ends in {parts.tail.strip()!r}; expected `:=` or `:= by` for the proof to follow"
        )
    solution = f"{opening}\n{row['formal_proof']}".lstrip("\n")
    return AdaptedRow({**adapted.reference, "solution": solution}, adapted.task_id, adapted.prompt_texts)


def file(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a whole Lean file from `lean_files`; the text before its last declaration is the header."""
    return _adapted(_split("", row["text"], "text"), "")


def _split(header: str, text: str, column: str) -> Split:
    try:
        parts = split_statement(f"{header}\n{text}" if header.strip() else text)
    except UsageError as error:
        raise FieldProblem(column, f"cannot be split: {error}") from None
    if not parts.open_ended:
        raise FieldProblem(column, f"holds more than a statement: {parts.tail.strip()[:60]!r} follows it")
    return parts


def _adapted(parts: Split, informal: str) -> AdaptedRow:
    plain = _without_docstring(parts.statement)
    header = parts.before.strip()
    reference = without_empty({"name": parts.name, "statement": plain, "header": header})
    body = " := by\n  sorry" if parts.keyword in ("theorem", "lemma") else " :=\n  sorry"
    code = f"{header}\n\n{plain}{body}" if header else f"{plain}{body}"
    return AdaptedRow(reference, parts.name, {"informal": informal, "code": code})


def _without_docstring(declaration: str) -> str:
    """Leave the docstring out: it is the problem in words, which the prompt shows by itself."""
    first = next(tokens(declaration), None)
    return declaration[first.end :].lstrip() if first is not None and first.kind == "doc" else declaration


def _informal(row: RawRow) -> str:
    """Return the problem in words, without the marks of a comment."""
    text = row.get("informal_prefix") or row.get("informal_statement") or ""
    inside = _COMMENT.fullmatch(text.strip())
    return (inside[1] if inside else text).strip()


_ROW: dict[str, ColumnType] = {"name": "string", "formal_statement": "string"}
_GOLD = "header + formal_statement"

STATEMENT = Adapter(statement, {**_ROW, "header": "string"}, gold=_GOLD, prompt_texts=("informal", "code"))
PROVED = Adapter(proved, {**_ROW, "formal_proof": "string"}, gold="formal_proof", prompt_texts=("informal", "code"))
FILE = Adapter(file, {"name": "string", "text": "string"}, gold="text", prompt_texts=("informal", "code"))
