"""Texts that make a reader of Lean lose its place."""

from hypothesis import strategies as st

_PIECES = [
    "/-",
    "-/",
    "--",
    "\n",
    '"',
    "\\",
    "'",
    "«",
    "»",
    's!"',
    "{",
    "}",
    'r#"',
    '"#',
    "(",
    ")",
    "⟨",
    "⟩",
    "[",
    "]'",
    "@[",
    "#[",
]
_PIECES += [
    "theorem t",
    " ",
    ".",
    "..",
    "end",
    "x",
    "0x",
    "1e",
    ":=",
    "open",
    "in",
    "let",
    "set_option",
    "#eval",
    "by",
    "namespace A",
]
_PIECES += ["\t", "\r", "\0", "\ud800", "é", "λ", "```", "```lean\n", "\n```\n", "</think>"]

HOSTILE = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3)), max_size=60).map("".join)
"""Pieces at which a tokenizer can lose its place, put together."""

NESTS = [
    "(",
    "/-",
    "«",
    's!"{',
    "'",
    '"\\',
    "a.",
    "#",
    "1e",
    "r#",
    ".«",
    'r#" ',
    "⁻",
    "'\\",
    "--",
    "x\n",
    "0x",
    '"',
    "{}",
    "a«»",
]
NESTS += [
    "open ",
    "open a ",
    "open a in ",
    "set_option a b ",
    "set_option a b in ",
    "namespace A ",
    "let x := ",
    "theorem t ",
    "/-- ",
]
"""Pieces to repeat: each would take quadratic time in a careless reader."""

LENGTH = 8_000
"""Characters of a text made of one piece. Quadratic work on as many takes a second or more, linear work a twentieth of one."""


def repeated(piece):
    return piece * (LENGTH // len(piece))
