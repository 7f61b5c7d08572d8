"""Splits a declaration into statement and body.

The first `:=` does not always end the statement, because the type may contain one: `(h : x = 1 := by simp)`, `{ re := 1 }`,
`let y := 2; y = x`. So these are skipped: each `:=` inside brackets, and outside brackets each that belongs to a `let` or
`have`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verigym.envs.contract.errors import UsageError
from verigym.envs.lean.keywords import COMMANDS
from verigym.envs.lean.lexer import Token, code, tokens

DECLARATIONS = frozenset({"theorem", "lemma", "def", "abbrev", "instance"})
MODIFIERS = frozenset(
    {"private", "protected", "noncomputable", "unsafe", "partial", "nonrec", "public", "meta", "local", "scoped"}
)
PLACEHOLDERS = (
    (),
    (":=",),
    (":=", "by"),
    (":=", "sorry"),
    (":=", "by", "sorry"),
)
"""Texts that may stand in place of a proof in a data set's statement."""
_COMMANDS = (COMMANDS - MODIFIERS) | {"open", "set_option"}
_PREFIXES = frozenset({"open", "set_option", "variable", "attribute", "include", "omit"})  # those that `... in` may follow
_BINDERS = frozenset({"let", "have", "letI", "haveI", "let'", "have'", "set", "letFun", "let_fun"})


class Split(NamedTuple):
    """A text split at its last declaration: `before + statement + tail` is the text, except for white space."""

    before: str
    """The text before the declaration: imports and other declarations."""
    statement: str
    """The declaration from its modifiers up to its type: `theorem target : 1 + 1 = 2`."""
    name: str
    """The declared name with the namespaces that `before` leaves open."""
    keyword: str
    """theorem, lemma, def, abbrev or instance."""
    tail: str
    """From the `:=` of the body to the end, or nothing."""

    @property
    def open_ended(self) -> bool:
        """Return whether the tail has no proof: it is empty, `:=`, `:= by`, `:= sorry` or `:= by sorry`."""
        return tuple(token.text for token in code(self.tail)) in PLACEHOLDERS


class Command(NamedTuple):
    """A top-level command: its keyword, and the range [start, end) of its tokens, which includes modifiers and docstring."""

    keyword: str
    start: int
    at: int
    end: int


def commands(token_list: Sequence[Token]) -> list[Command]:
    """Return the top-level commands in `token_list`. A command begins at each command keyword outside brackets.

    `open X in` belongs to the command after it.
    """
    starts: list[tuple[int, int]] = []
    depth = 0
    pending = -1  # where modifiers, attributes and docstring of the next command begin
    for index, token in enumerate(token_list):
        if token.kind == "open":
            if token.text == "@[" and not depth and pending < 0:
                pending = index
            depth += 1
        elif token.kind == "close":
            depth = max(0, depth - 1)
        elif depth:
            continue
        elif token.kind == "doc" and pending < 0:
            pending = index
        elif token.kind == "ident" and token.text in MODIFIERS and pending < 0 and not _inside_open(token_list, index):
            pending = index
        elif token.kind == "ident" and token.text in _COMMANDS and not _is_term(token_list, index):
            start = pending if pending >= 0 else index
            if starts and start and token_list[start - 1].text == "in" and token_list[starts[-1][1]].text in _PREFIXES:
                start = starts.pop()[0]
            starts.append((start, index))
            pending = -1
    ends = [start for start, _ in starts[1:]] + [len(token_list)]
    return [Command(token_list[at].text, start, at, end) for (start, at), end in zip(starts, ends, strict=False)]


def split_statement(text: str) -> Split:
    """Return the last theorem, lemma, def, abbrev or instance in `text`, split from the text around it.

    Raises:
        UsageError: there is no such declaration, it has no name, or a comment, string or bracket never closes.
    """
    token_list = list(tokens(text))
    if token_list and token_list[-1].kind == "unclosed":
        raise UsageError(
            f"Lean text: what opens at character {token_list[-1].start} never closes: {text[token_list[-1].start :][:40]!r}"
        )
    parts = commands(token_list)
    own = next((part for part in reversed(parts) if part.keyword in DECLARATIONS), None)
    if own is None:
        raise UsageError(f"Lean text declares no theorem, lemma, def, abbrev or instance: {text.strip()[:80]!r}")
    name = _name(token_list, own)
    if name is None:
        raise UsageError(f"Lean text: the {own.keyword} at character {token_list[own.at].start} has no name")
    body = _body(token_list, own.at + 1)
    start = token_list[own.start].start
    end = token_list[body].start if body < len(token_list) else len(text)
    before = text[:start]
    return Split(before, text[start:end].rstrip(), qualified(before, name), own.keyword, text[end:])


def qualified(before: str, name: str) -> str:
    """Return `name` prefixed with the namespaces that are still open at the end of `before`, the text in front of it.

    A name that begins with `_root_.` is returned without this prefix and without namespaces.
    """
    if name.startswith("_root_."):
        return name.removeprefix("_root_.")
    scopes: list[str] = []
    code_tokens = code(before)
    for part in commands(code_tokens):
        following = code_tokens[part.at + 1].text if part.at + 1 < part.end and code_tokens[part.at + 1].kind == "ident" else ""
        if part.keyword in ("namespace", "section", "mutual"):
            scopes.append(following if part.keyword == "namespace" else "")
        elif part.keyword == "end":
            if scopes:
                scopes.pop()
    return ".".join([scope for scope in scopes if scope] + [name])


def normal_form(statement: str) -> tuple[str, ...]:
    """Return the tokens of `statement` from its keyword on, without comments and with `lemma` replaced by `theorem`."""
    code_tokens = code(statement)
    at = next((part.at for part in commands(code_tokens) if part.keyword in DECLARATIONS), 0)
    words = tuple(token.text for token in code_tokens[at:])
    return ("theorem", *words[1:]) if words[:1] == ("lemma",) else words


def _name(token_list: Sequence[Token], own: Command) -> str | None:
    """Return the declared name, None where the next token is no identifier."""
    following = next((token for token in token_list[own.at + 1 :] if token.kind not in ("comment", "doc")), None)
    return following.text if following is not None and following.kind == "ident" else None


def _body(token_list: Sequence[Token], index: int) -> int:
    """Return the index of the token that begins the body: the first `:=` outside brackets that no `let` or `have` owns."""
    depth = owed = 0
    for place in range(index, len(token_list)):
        token = token_list[place]
        if token.kind == "open":
            depth += 1
        elif token.kind == "close":
            depth -= 1
        elif depth > 0:
            continue
        elif token.kind == "ident" and token.text in _BINDERS:
            owed += 1
        elif token.text in ("←", "<-") and owed:
            owed -= 1
        elif token.text == ":=" and token.kind == "symbol":
            if not owed:
                return place
            owed -= 1
    return len(token_list)


def _is_term(token_list: Sequence[Token], index: int) -> bool:
    """Return whether a command's word is part of a term here: `open X in` and `set_option` after an operator."""
    return token_list[index].text in ("open", "set_option") and index > 0 and token_list[index - 1].kind in ("symbol", "open")


def _inside_open(token_list: Sequence[Token], index: int) -> bool:
    """Return whether a modifier's word is an argument of `open`: `open scoped X`, `open private x`."""
    return index > 0 and token_list[index - 1].text == "open"
