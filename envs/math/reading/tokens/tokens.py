r"""The lexer: text to tokens, in one linear pass.

A token is (kind, text, spaced, position): its kind for the grammar, its text, whether blanks precede it, and where it starts.
The kind of a single character is the character itself. Runs of letters are words in `\text{...}`. If the text has formulas in
`$...$`, they are words outside of the formulas too. Elsewhere `latex/vocabulary.py` decides whether they are words. The braces
of `\text` do not become tokens.
"""

from __future__ import annotations

import re

from verigym.envs.latex.units import known_unit
from verigym.envs.math.numerals import grouped
from verigym.envs.math.reading.tokens.commands import Commands, Token
from verigym.envs.math.reading.tokens.runs import classify, is_article
from verigym.envs.math.tree import ParseError, TooLarge

MAX_TOKENS = 4_000

_TOKEN = re.compile(
    r"(?P<num>(?:[0-9]++(?:\.(?:[0-9]++|(?=(?:\s|\\[,;: ]){0,4}[/*^])))?|\.[0-9]++)"
    r"(?:[eE][-+]?[0-9]++(?![A-Za-z0-9_]|\.[0-9]))?)"
    r"|(?P<run>[A-Za-z]++)"
    r"|(?P<space>[\s~]++)"
    r"|(?P<row>\\\\\s*+(?:\[\s?-?[0-9.]++\s?(?:pt|em|ex|mm|cm|in|mu)\s?\])?)"
    r"|(?P<cmd>\\(?:[A-Za-z]++|.))"
    r"|(?P<foreign>[^\x00-\x7f])"
    r"|(?P<op><=|>=|!=|==|=<|\*\*|->|=>|\.\.\.+|\+/-|.)",
    re.DOTALL,
)
_ALONE = re.compile(r"(?<![A-Za-z\\])[A-Z](?![A-Za-z])")
_LONE_UNITS = frozenset("msNJL")
_UNIT_END = re.compile(r"(?:\^\s?(?:[23]|\{\s?[23]\s?\}))?\s*+[.$})]?+\s*+(?:\Z|,)")
_HALF = re.compile(r"[ap]\.\s?m(?:\.|(?![A-Za-z]))")
_BEFORE_EMPTY = frozenset(("num", "sym", "const", ")", "]"))
_AFTER_EMPTY = re.compile(r"\s*+(?:\^\s*+(?:\{\s*+)?\\circ|\Z|[,$])")
_SPEED = re.compile(r"\s?/\s?s(?![A-Za-z])")
_CURRENCIES = {
    "Rs": "rupee", "INR": "rupee", "USD": "dollar", "EUR": "euro", "GBP": "pound sterling", "RMB": "yuan", "CNY": "yuan",
    "JPY": "yen",
}  # fmt: skip
_PRICE = re.compile(r"\.?(?=[\s~]{0,4}(?:\}[\s~]{0,4})?[0-9])")
_VALUE_ENDS = frozenset(("num", "sym", "const", "}", ")", "]"))
_PER = re.compile(r"\s?/\s?\(?\s?(?:kg|cm|mm|km|mol|m[lL]|hr|min|day)(?![A-Za-z])")
_OPERATORS: dict[str, tuple[str, str]] = {
    "<=": ("rel", "<="), "=<": ("rel", "<="), ">=": ("rel", ">="), "!=": ("rel", "!="), "==": ("rel", "="), "=": ("rel", "="),
    "**": ("^", "^"), "->": ("rel", "to"), "=>": ("arrow", "=>"), "+/-": ("±", "+"),
    "/": ("/", "/"), "`": ("'", "'"),
}  # fmt: skip
_PLAIN = frozenset("+-*/^_!',;:()[]{}|<>&%.\"")


class Lexer(Commands):
    """Splits one text into tokens, in one pass."""

    def run(self) -> list[Token]:
        """Return the tokens; the last one is of kind `end`."""
        text, outside = delimit(self.text)
        if outside:
            self.mode = self.base = "outer"
        self.text = text
        match = _TOKEN.match
        tokens = self.tokens
        readers = {
            "num": self._number, "run": self._letters, "foreign": self._letters, "op": self._operator, "cmd": self.command,
            "row": self._row,
        }  # fmt: skip
        place, size, spaced = 0, len(text), False
        while place < size:
            lexeme = match(text, place)
            kind = lexeme.lastgroup if lexeme else None
            if lexeme is None or kind is None:  # cannot be: the pattern ends in "any character"
                raise ParseError(f"unreadable at {place}")
            start, place = place, lexeme.end()
            if kind == "space":
                spaced = True
                self.apart = self.apart or text[start] == "~"
                continue
            before = len(tokens)
            place = readers[kind](start, place, spaced)
            if len(tokens) == before and kind == "cmd":  # spacing and the like
                if text[start + 1 : place] != "!":
                    spaced = True
                    self.apart = place - start == 2
                continue
            if self.pending and text[start] != "\\":
                self.pending = ""
            spaced = self.apart = False
            if before >= MAX_TOKENS:
                raise TooLarge(f"more than {MAX_TOKENS} tokens")
        if self.groups:
            raise ParseError(f"{len(self.groups)} braces are not closed")
        tokens.append(("end", "", spaced, size))
        return tokens

    def _number(self, start: int, end: int, spaced: bool) -> int:
        text = self.text
        digits = text[start:end]
        follow = text[end : end + 1]
        separable = follow != "" and follow in ",{ \\~" and start >= self.ungrouped_until and digits.isdigit()
        if separable or (follow == "," and "." in digits):
            end, digits, self.ungrouped_until = grouped(text, start, end, self.brackets != 0, self.decimal_comma)
        self.tokens.append(("num", digits, spaced, start))
        return end

    def _row(self, start: int, end: int, spaced: bool) -> int:
        self.tokens.append(("row", "\\\\", spaced, start))
        return end

    def _operator(self, start: int, place: int, spaced: bool) -> int:
        add = self.tokens.append
        char = self.text[start:place]
        if char == "{":
            self._open(start, spaced)
        elif char == "}":
            self._close(start, spaced)
        elif char in _OPERATORS:
            kind, text = _OPERATORS[char]
            if char == "!=" and not spaced and self.tokens and self.tokens[-1][0] in ("num", ")"):  # 5!=120
                add(("!", "!", False, start))
                kind, text = "rel", "="
            add((kind, text, spaced, start))
        elif char == "$":
            if self.outside:
                self.mode = self.outside.pop()
            else:
                self.outside.append(self.mode)
                self.mode = "math"
        elif char[0] == "." and len(char) > 1:
            add(("dots", "...", spaced, start))
        elif char in _PLAIN:
            if char in "([":
                self.brackets += 1
            elif char in ")]":
                self.brackets -= 1
            if char in "|<>." and self.side:
                self._delimiter(char, start, spaced)
            else:
                add((char, char, spaced, start))
        else:
            raise ParseError(f"character {char!r} at {start}")
        self.side = ""
        return place

    def _delimiter(self, char: str, start: int, spaced: bool) -> None:
        r"""Add what follows `\left` or `\right`: bars and angles know their side, a point is no bracket."""
        left = self.side == "left"
        if char == "|":
            self.tokens.append(("lbar" if left else "rbar", "|", spaced, start))
        elif char == ".":
            if not left:
                self.tokens.append(("nothing", ".", spaced, start))
        else:
            self.tokens.append(("⟨" if char == "<" else "⟩", char, spaced, start))

    def _open(self, start: int, spaced: bool) -> None:
        shown = not self.pending and self.mode in ("math", "outer")
        if self.pending:
            self.groups.append((self.mode, False))
            self.mode = self.pending
            self.pending = ""
            return
        self.groups.append((self.mode, shown))
        if shown:
            self.tokens.append(("{", "{", spaced, start))

    def _close(self, start: int, spaced: bool) -> None:
        if not self.groups:
            raise ParseError(f"a closing brace without an opening one at {start}")
        self.mode, shown = self.groups.pop()
        if shown and self.tokens[-1][0] == "{" and len(self.tokens) > 1 and self.tokens[-2][0] in _BEFORE_EMPTY:
            if _AFTER_EMPTY.match(self.text, start + 1):  # 90{}^\circ
                self.tokens.pop()
                return
        if shown:
            self.tokens.append(("}", "}", spaced, start))

    def _closes(self, end: int) -> bool:
        r"""Tell whether a letter set apart by an explicit space is a unit: `5\,m`, `9\;m^2`, but not `2\,m+1`."""
        return self.tokens[-1][0] in ("num", "}", "const") and _UNIT_END.match(self.text, end) is not None

    def _divides_unit(self) -> bool:
        """Tell whether what comes next stands under a unit: `J/kg`, `J/(kg K)`."""
        kinds = [token[0] for token in self.tokens[-3:]]
        return kinds[-2:] == ["unit", "/"] or kinds == ["unit", "/", "("]

    def _measure(self, start: int, end: int, spaced: bool) -> int:
        """Read the name of a currency before a number, or of a unit under another; return where it ends, or 0."""
        tokens, name = self.tokens, self.text[start:end]
        if name in _CURRENCIES and not (tokens and tokens[-1][0] in _VALUE_ENDS):
            price = _PRICE.match(self.text, end)
            if price:
                tokens.append(("money", _CURRENCIES[name], spaced, start))
            return price.end() if price else 0
        if self.mode == "math" and self._divides_unit() and known_unit(name):
            tokens.append(("unit", name, spaced, start))
            return end
        return 0

    def _letters(self, start: int, end: int, spaced: bool) -> int:
        text = self.text
        tokens = self.tokens
        if end - start == 1 and self.mode == "math" and text[start] < "\x7f" and text[end : end + 1] < "\x7f":
            letter = text[start]
            half = _HALF.match(text, start) if letter in "ap" and tokens and tokens[-1][0] == "num" else None
            if half:  # 9 p.m.
                tokens.append(("half", f"{letter}m", spaced, start))
                return half.end()
            if letter == "a" and text[end : end + 1] == " " and is_article(text, end):
                tokens.append(("word", letter, spaced, start))
            elif self.apart and letter in _LONE_UNITS and tokens and self._closes(end):
                tokens.append(("unit", letter, spaced, start))
            elif letter == "m" and tokens and tokens[-1][0] in ("num", "unit") and _SPEED.match(text, end):
                tokens.append(("unit", letter, spaced, start))
            elif spaced and tokens and tokens[-1][0] == "num" and known_unit(letter) and _PER.match(text, end):
                tokens.append(("unit", letter, spaced, start))
            elif len(tokens) > 1 and tokens[-1][0] == "/" and tokens[-2][0] == "unit" and known_unit(letter):
                tokens.append(("unit", letter, spaced, start))
            else:
                self.letter(letter, spaced, start)
            return end
        before = tokens[-1][0] if tokens else ""
        measured = self._measure(start, end, spaced)
        if measured:
            return measured
        if self.alone is None:
            self.alone = frozenset(_ALONE.findall(text))
        pieces, end = classify(text, start, end, self.mode, before, self.alone)
        if pieces[0][0] == "mod" and tokens and tokens[-1][0] == "(":  # (mod 7)
            tokens[-1] = ("pmod", "(", *tokens[-1][2:])
            return end
        for kind, word in pieces:
            tokens.append((kind, word, spaced, start))
            spaced = False
        return end


_COMMAND = re.compile(r"(?<!\\)\\[A-Za-z]")
_DOUBLED_COMMAND = re.compile(r"\\\\[A-Za-z{]")
_DOUBLED = re.compile(
    r"\\\\(?=(?:frac|dfrac|tfrac|left|right|text|sqrt|begin|end|pi|cdot|times|boxed|cup|infty|le|ge|in|pm|circ)(?![a-z]))"
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_PRICE_DOLLAR = re.compile(r"(?<!\\)\$(?=\s?[0-9])")
_MARKED = re.compile(r"\s*+(\*\*|[`\"])([^*`\"]++)\1\s*+[.]?+")
_GAP = re.compile(r"\$\s++\$")


def delimit(text: str) -> tuple[str, bool]:
    """Return `text` with single backslashes and plain delimiters, and whether it has delimited formulas.

    - Marks of emphasis, code and quotation around the whole text are removed: `**73**`.
    - If all backslashes are doubled, they were escaped twice, and one of each pair is removed. In a text without environments,
      this is also done for single commands with a doubled backslash.
    - If every dollar sign stands before a digit, all of them mean money: `$5`, `$5 and $10`.
    - If the number of dollar signs is odd, the text was cut somewhere, and none of them delimits a formula.
    """
    wrapped = _MARKED.fullmatch(text)
    if wrapped:
        text = wrapped.group(2)
    if "\\\\" in text:
        if "\\\\begin" in text or not _COMMAND.search(text):
            text = text.replace("\\\\", "\\") if _DOUBLED_COMMAND.search(text) else text
        elif "\\begin" not in text:
            text = _DOUBLED.sub(lambda _: "\\", text)
    outside = "\\(" in text or "\\[" in text
    if "$" not in text:
        return text, outside
    text = text.replace("$$", "$")
    if text.strip()[:1] != "$":
        text = _GAP.sub(" ", text)  # formulas that broke off: x+$ $y
    count = len(_DOLLAR.findall(text))
    if count == len(_PRICE_DOLLAR.findall(text)):
        return _PRICE_DOLLAR.sub(lambda _: "\\$", text), outside
    if count % 2:
        return _DOLLAR.sub(" ", text), outside
    return text, True
