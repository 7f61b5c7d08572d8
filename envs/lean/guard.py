"""Refuses a slot (the text that the model writes after `:=`) that contains more than a proof.

This is a cheap first defence. A slot that passes is not yet accepted: the judge decides about it.

At a command's keyword, in any column, Lean ends the proof term and reads a command. The command could redefine notation, add
instances or axioms, or close the namespace that the header opened. Only whole tokens count as keywords, so the same letters may
occur in names (`not_sorry`, `h.end`), comments and strings. The guard also refuses some texts that the judge would accept:
attributes on local functions, and docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from verigym.envs.lean.keywords import BANNED, COMMANDS, HASH_COMMANDS, METAPROGRAMS
from verigym.envs.lean.lexer import Token, tokens

_HASH = re.compile("|".join(HASH_COMMANDS))


def refusal(slot: str, banned: frozenset[str] = BANNED) -> str | None:
    """Return why `slot`, the text after `:=`, is refused, or None if it is not. Any text may be passed.

    Reasons are `empty`, `command:theorem`, `token:native_decide`, and `unbalanced:` followed by a bracket, `end`, `comment`,
    `string` or `name`.
    """
    code_tokens: list[Token] = []
    openings: list[str] = []
    for token in tokens(slot):
        if token.kind == "unclosed":
            return _unclosed(slot, token)
        problem = _comment(token) if token.kind in ("comment", "doc") else _bracket(token, openings)
        if problem:
            return problem
        if token.kind != "comment":
            code_tokens.append(token)
    for index, token in enumerate(code_tokens):
        problem = _word(code_tokens, index, banned) if token.kind == "ident" else _hash(slot, token)
        if problem:
            return problem
    if openings:
        return f"unbalanced:{openings[-1]}"
    return None if code_tokens else "empty"


def file_refusal(text: str, banned: frozenset[str] = METAPROGRAMS) -> str | None:
    """Return why a whole file is refused (`empty`, `metaprogram:#eval` and the like), or None if it is not.

    It is refused if it contains a metaprogram: code that Lean would run while it compiles the file. Such code could do no harm,
    because the sandbox confines it and no verdict depends on its output, but no proof needs it.
    """
    blank = True
    for token in tokens(text):
        if token.kind in ("comment", "doc"):
            continue
        blank = False
        hashed = _HASH.match(text, token.start) if token.text == "#" else None
        word = hashed[0] if hashed else token.text
        if word in banned:
            return f"metaprogram:{word}"
    return "empty" if blank else None


_CLOSING = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "⦃": "⦄"}


def _bracket(token: Token, openings: list[str]) -> str | None:
    if token.kind == "open":
        if token.text == "@[":
            return "command:@["
        openings.append(token.text[-1])
    elif token.kind == "close" and (not openings or _CLOSING[openings.pop()] != token.text[0]):
        return f"unbalanced:{token.text[0]}"
    return None


def _comment(token: Token) -> str | None:
    """Refuse a docstring, which begins a declaration, and a comment about whose end versions of Lean may differ."""
    if token.kind == "doc":
        return f"command:{token.text[:3]}"
    return "unbalanced:comment" if token.text.startswith("/-/") else None


def _unclosed(slot: str, token: Token) -> str:
    opening = slot[token.start : token.start + 2]
    return "unbalanced:comment" if opening == "/-" else "unbalanced:name" if opening.startswith("«") else "unbalanced:string"


def _word(code_tokens: Sequence[Token], index: int, banned: frozenset[str]) -> str | None:
    """Look at an identifier."""
    text = code_tokens[index].text
    if text == "open":
        return _open(code_tokens, index, banned)
    if text == "set_option":
        return _set_option(code_tokens, index, banned)
    if text in COMMANDS and not _is_field(code_tokens, index):
        return "unbalanced:end" if text == "end" else f"command:{text}"
    return f"token:{text}" if text in banned else None


def _is_field(code_tokens: Sequence[Token], index: int) -> bool:
    """Return whether the word names a field, as in `(f x).end`: after a dot that touches a closing bracket and the word."""
    if index < 2 or code_tokens[index - 1].text != ".":
        return False
    target, dot, word = code_tokens[index - 2 : index + 1]
    return target.kind == "close" and target.end == dot.start and dot.end == word.start


def _open(code_tokens: Sequence[Token], index: int, banned: frozenset[str]) -> str | None:
    """`open X Y in` is part of a term or a tactic; without the `in` it is a command."""
    for place in range(index + 1, len(code_tokens)):
        token = code_tokens[place]
        if token.text == "in":
            return None
        word = _plain(token.text).split(".")[0]
        if f"open {word}" in banned:
            return f"token:open {word}"
        if token.kind not in ("ident", "open", "close") and token.text not in ("→", "->", ","):
            break
        if token.text in ("open", "set_option") or token.text in COMMANDS:
            break
    return "command:open"


def _set_option(code_tokens: Sequence[Token], index: int, banned: frozenset[str]) -> str | None:
    """`set_option name value in` is part of a term or a tactic; without the `in` it is a command."""
    rest = code_tokens[index + 1 : index + 4]
    name = _plain(rest[0].text) if rest else ""
    for entry in sorted(banned):
        kind, _, prefix = entry.partition(" ")
        if kind == "set_option" and name.startswith(prefix):
            return f"token:{entry}"
    return None if len(rest) == 3 and rest[2].text == "in" else "command:set_option"


def _plain(name: str) -> str:
    """Return a name without quotes: `«debug».skipKernelTC` names the same option as without them."""
    return name.replace("«", "").replace("»", "")


def _hash(slot: str, token: Token) -> str | None:
    command = _HASH.match(slot, token.start) if token.text == "#" else None
    return f"command:{command[0]}" if command else None
