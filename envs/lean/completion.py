"""Finds the submission in a completion: the last complete fenced block, and in slot mode the proof inside it.

In slot mode the model is asked for the proof alone, but it may answer with the whole `theorem NAME : ... := proof`.
If the repeated statement is the task's, up to white space and comments, only the proof is kept. Header and statement always
come from the grader, so the repetition has no effect.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from verigym.envs.extraction.fences import find_program
from verigym.envs.lean.lexer import Token, code, tokens
from verigym.envs.lean.statement import DECLARATIONS, MODIFIERS, commands, normal_form

Reason = Literal["no_code", "empty", "bad_text", "too_long", "other_statement", "extra_declarations", "no_body"]

MAX_KB = 256
"""Lean's parser takes seconds for megabytes."""
TAB = 4
"""Width of a tab in columns. Lean refuses tabs, but models write them as indentation."""
# What may stand before a repeated statement. It is dropped, for the grader's own header holds what the task allows.
_HEADER = frozenset({"import", "open", "set_option", "universe", "namespace", "section"})
# With an `in` they begin a term as well, `open Nat in proof`; the guard knows which it is.
_SCOPES = frozenset({"open", "set_option"})
_DECLARING = DECLARATIONS | MODIFIERS | _HEADER


class Refused(NamedTuple):
    """Reason why there is nothing to compile."""

    reason: Reason
    """no_code and empty: nothing was submitted. too_long: over the size limit. Any other: the format is not the task's."""
    detail: str
    """What was found, for a person."""


def read_submission(
    text: str,
    mode: Literal["slot", "file"],
    *,
    statement: str = "",
    header: str = "",
    unfenced: bool = False,
    max_kb: int = MAX_KB,
) -> str | Refused:
    """Return the submission in a completion, or `Refused` with the reason. `text` may be any text.

    Args:
        text: the text that the model wrote. Only the text after its last closing think tag counts.
        mode: with `slot` the submission is a proof or the whole declaration; with `file` it is a whole file.
        statement: the reference's statement. With it, a submission for a slot may repeat the statement.
        header: the reference's header. Its declarations may be repeated too.
        unfenced: whether a text without any fence counts as the submission.
        max_kb: maximum size of a submission in KiB of UTF-8; a larger one is refused.
    """
    extraction = find_program(text, "lean", "fenced_or_all" if unfenced else "fenced")
    if extraction.program is None:
        return Refused("no_code", extraction.reason)
    submission = extraction.program.replace("\r\n", "\n").removeprefix("\ufeff")
    if "\0" in submission:
        return Refused("bad_text", "the submission holds a NUL character")
    try:
        size_kb = len(submission.encode()) / 1024
    except UnicodeEncodeError:
        return Refused("bad_text", "the submission holds a lone surrogate, which no file can store")
    if size_kb > max_kb:
        return Refused("too_long", f"the submission has {size_kb:.0f} KB, over {max_kb}")
    submission = expand_tabs(submission)
    if mode == "slot" and statement:
        return _slot(submission, statement, header)
    return submission if submission.strip() else Refused("empty", "the fenced block is empty")


def expand_tabs(text: str) -> str:
    """Return the text with each tab between tokens replaced by spaces up to the next multiple of `TAB` columns.

    Tabs in strings and comments are left as they are.
    """
    if "\t" not in text:
        return text
    pieces: list[str] = []
    done = 0
    for token in tokens(text):
        pieces += (_spaced(text, done, token.start), text[token.start : token.end])
        done = token.end
    pieces.append(_spaced(text, done, len(text)))
    return "".join(pieces)


def _spaced(text: str, start: int, end: int) -> str:
    """Return the white space text[start:end] without tabs."""
    gap = text[start:end]
    if "\t" not in gap:
        return gap
    head, line_end, last = gap.rpartition("\n")
    if line_end:
        return "\n".join(line.expandtabs(TAB) for line in head.split("\n")) + "\n" + last.expandtabs(TAB)
    return gap.replace("\t", " " * TAB)


def _slot(submission: str, statement: str, header: str) -> str | Refused:
    """Return the proof in a slot's submission."""
    code_tokens = code(submission)
    if not code_tokens:
        return Refused("empty", "the fenced block holds no code")
    wanted = normal_form(statement)
    if code_tokens[0].kind != "ident" or code_tokens[0].text not in _DECLARING:
        return submission  # a proof begins with no command; if a command comes later, the guard says so
    at = next((place for place in range(len(code_tokens) - 1) if _declares(code_tokens, place, wanted[1])), None)
    if at is None and code_tokens[0].text in _SCOPES:
        return submission
    if at is None:
        return Refused("other_statement", f"the submission declares something, but not {wanted[1]}")
    extra = _extra(code_tokens[:at], header)
    if extra:
        return Refused("extra_declarations", f"before the statement stands {extra!r}; a slot holds one proof")
    given = tuple(token.text for token in code_tokens[at : at + len(wanted)])
    if given[1:] != wanted[1:]:
        return Refused("other_statement", f"the declaration of {wanted[1]} is not the one that was asked for")
    after = code_tokens[at + len(wanted) :]
    if not after or after[0].text != ":=":
        return Refused("no_body", "the repeated statement is not followed by := and a proof")
    proof = submission[after[0].end :]
    return proof if code(proof) else Refused("empty", "nothing follows the := of the repeated statement")


def _declares(code_tokens: list[Token], place: int, name: str) -> bool:
    return (
        code_tokens[place].kind == "ident" and code_tokens[place].text in DECLARATIONS and code_tokens[place + 1].text == name
    )


def _extra(before: list[Token], header: str) -> str:
    """Return the keyword of the first command before a repeated statement that is neither harmless nor the header's own."""
    own = code(header)
    known = {_words(own[part.start : part.end]) for part in commands(own)}
    for part in commands(before):
        if part.keyword not in _HEADER and _words(before[part.start : part.end]) not in known:
            return part.keyword
    return ""


def _words(code_tokens: list[Token]) -> tuple[str, ...]:
    return tuple(token.text for token in code_tokens)
