r"""Control sequences to tokens, and the state of the lexer."""

from __future__ import annotations

import re

from verigym.envs.latex import vocabulary
from verigym.envs.latex.commands import (
    BOX_COMMANDS,
    COMMANDS,
    ENVIRONMENTS,
    TEXT_COMMANDS,
    UNPRINTED_ARGUMENT,
    UNPRINTED_COMMANDS,
    UPRIGHT_COMMANDS,
)
from verigym.envs.math.tree import ParseError

Token = tuple[str, str, bool, int]
"""Kind, text, whether blanks stand before it, position."""

_GROUP = re.compile(r"\s*+\{([^{}]*+)\}")
_BEGIN = re.compile(r"\s*+\{\s?([A-Za-z]++\*?)\s?\}")
_COLUMNS = re.compile(r"\s*+(?:\[[a-z]\]\s*+)?\{[^{}]*+\}")
_BLACKBOARD = re.compile(r"\s*+(?:\{\s?([A-Z])\s?\}|([A-Z]))")
_LETTER = re.compile(r"\s*+\{\s?\([A-H]\)\s?\}")
_NEGATED = re.compile(r"\s*+(=|\\in(?![A-Za-z])|\\equiv(?![A-Za-z]))")
_NEGATIONS = {"=": "!=", "\\in": "notin", "\\equiv": "!="}
_SPACES = frozenset(",;: !>/")
_BOLD = frozenset(("mathbf", "boldsymbol", "bm"))
_STARRED = frozenset(("operatorname", "hspace", "vspace"))
_ESCAPED = {"$": ("money", "dollar"), "%": ("%", "%"), "&": ("word", "and"), "#": ("word", "number"), "_": ("word", "_")}


class Commands:
    """The part of the lexer that holds its state and reads control sequences."""

    def __init__(self, text: str, decimal_comma: bool = False) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.decimal_comma = decimal_comma
        self.mode = self.base = "math"
        self.groups: list[tuple[str, bool]] = []  # the mode outside each open brace, and whether the brace is a token
        self.outside: list[str] = []  # the mode outside an open `$`
        self.pending = ""  # the mode of the next group
        self.brackets = 0
        self.ungrouped_until = 0
        self.alone: frozenset[str] | None = None
        self.apart = False  # an explicit space of TeX stands before
        self.side = ""  # `\left` or `\right` before a delimiter
        self.boxed = False  # the text starts with a box: its braces are no list in braces

    def command(self, start: int, place: int, spaced: bool) -> int:
        """Read the control sequence at `start` in the text and return the position after it.

        Args:
            start: position of the backslash.
            place: position after the command's name.
            spaced: whether a blank stands before it.
        """
        name = self.text[start + 1 : place]
        if name in _BOLD and _LETTER.match(self.text, place):  # the letter of a choice, and no factor of what follows
            self.pending = "text"
            return place
        if name in COMMANDS:
            kind, meaning = COMMANDS[name]
            if kind == "|" and self.side:
                kind = "lbar" if self.side == "left" else "rbar"
            self.side = ""
            if kind == "mod" and self.tokens and self.tokens[-1][0] == "(":  # (\bmod 7)
                self.tokens[-1] = ("pmod", "(", *self.tokens[-1][2:])
                return place
            self.tokens.append((kind, meaning, spaced, start))
            return place
        if self.text[place : place + 1] == "*" and name in _STARRED:
            place += 1
        if name in UNPRINTED_COMMANDS:
            self.side = name if name in ("left", "right") else self.side
            self.boxed = self.boxed or (name in BOX_COMMANDS and not self.tokens)
        elif name in TEXT_COMMANDS:
            self.pending = "upright" if name in UPRIGHT_COMMANDS else "text"
        elif name in UNPRINTED_ARGUMENT:
            group = _GROUP.match(self.text, place)
            return group.end() if group else place
        elif not name.isalpha():
            self._escaped(name, start, spaced)
        else:
            return self._special(name, start, place, spaced)
        return place

    def _special(self, name: str, start: int, place: int, spaced: bool) -> int:
        if name == "begin" or name == "end":
            return self._environment(name, start, place, spaced)
        if name == "not":
            return self._negated(start, place, spaced)
        if name == "mathbb":
            return self._blackboard(start, place, spaced)
        return self._glued(name, start, place, spaced)

    def _glued(self, name: str, start: int, place: int, spaced: bool) -> int:
        r"""Read a name that ran into what follows it: `\cotx`, `\quadx`."""
        split = vocabulary.split_function(name)
        if split is not None:
            self.tokens.append(("func", vocabulary.FUNCTIONS[split[0]], spaced, start))
            for letter in split[1]:
                self.letter(letter, False, start)
            return place
        if name.lstrip("q").startswith("uad") and name[0] == "q" and len(name) < 8:
            self.tokens.append(("quad", " ", spaced, start))
            return start + name.index("d") + 2
        raise ParseError(f"control sequence \\{name[:30]} at {start}")

    def _escaped(self, char: str, start: int, spaced: bool) -> None:
        if char in "{}":
            self.side = ""
            self.brackets += 1 if char == "{" else -1
            self.tokens.append(("\\" + char, char, spaced, start))
        elif char in "([":
            self.mode = "math"
        elif char in ")]":
            self.mode = self.base
        elif char == "|":
            self.side = ""
            self.tokens.append(("‖", "‖", spaced, start))
        elif char in _ESCAPED:
            self.tokens.append((*_ESCAPED[char], spaced, start))
        elif char not in _SPACES and not char.isspace():
            raise ParseError(f"control sequence \\{char} at {start}")

    def _environment(self, name: str, start: int, place: int, spaced: bool) -> int:
        match = _BEGIN.match(self.text, place)
        if match is None:
            raise ParseError(f"\\{name} without a name at {start}")
        kind = ENVIRONMENTS.get(match.group(1))
        if kind is None:
            raise ParseError(f"environment {match.group(1)[:30]!r} at {start}")
        self.tokens.append((name, kind, spaced, start))
        place = match.end()
        if name == "begin" and match.group(1) in ("array", "alignedat"):
            columns = _COLUMNS.match(self.text, place)
            place = columns.end() if columns else place
        return place

    def _negated(self, start: int, place: int, spaced: bool) -> int:
        match = _NEGATED.match(self.text, place)
        if match is None:
            raise ParseError(f"\\not before {self.text[place : place + 10]!r} at {start}")
        self.tokens.append(("rel", _NEGATIONS[match.group(1)], spaced, start))
        return match.end()

    def _blackboard(self, start: int, place: int, spaced: bool) -> int:
        match = _BLACKBOARD.match(self.text, place)
        if match is None:
            raise ParseError(f"\\mathbb without a letter at {start}")
        letter = match.group(1) or match.group(2)
        self.tokens.append(("set" if letter in "RZQNC" else "sym", letter, spaced, start))
        return match.end()

    def letter(self, letter: str, spaced: bool, start: int) -> None:
        """Add the token of one letter in a formula.

        Args:
            letter: a single character.
            spaced: whether a blank stands before it.
            start: its position in the text.
        """
        self.tokens.append(("const" if letter in "ei" else "sym", letter, spaced, start))
