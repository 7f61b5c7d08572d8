r"""Rewrites of the layout: spaces, brackets' sizes, wrappers, Unicode signs. What they print is the same."""

from __future__ import annotations

import random
import re

from mathgen.registry import Registry, pure
from mathgen.text import compact, is_words, kind, shell, stripped, tokens, words_in

LAYOUT = Registry()

_BINARY = frozenset(("+", "-", "=", "<", ">", r"\cup", r"\in", r"\le", r"\leq", r"\ge", r"\geq", r"\cdot", r"\times", "/"))
_BEFORE_SIGN = frozenset(("(", "[", "{", r"\{", "&", "^", "_", ",", "|", r"\\", r"\left", r"\right", r"\pm", ":"))


def _around(text: str, glue: str) -> str:
    out, last = "", ""
    for token in tokens(text):
        if token in _BINARY and last and last not in _BEFORE_SIGN and last not in _BINARY and not last.startswith(r"\begin"):
            out += f"{glue}{token}{glue}" + (" " if glue.startswith("\\") and glue[-1].isalpha() else "")
        else:
            out += token
        last = last if token.isspace() else token
    return out


def _spaced(text: str, glue: str) -> str | None:
    body = pure(text)
    if body is None:
        return None
    wide = _around(body, glue)
    return wide if wide != body else f"{glue}{body}{glue}"


@LAYOUT
def thin_spaces(text: str, question: str, rng: random.Random) -> str | None:
    return _spaced(text, r"\,")


@LAYOUT
def thick_spaces(text: str, question: str, rng: random.Random) -> str | None:
    return _spaced(text, r"\;")


@LAYOUT
def backslash_spaces(text: str, question: str, rng: random.Random) -> str | None:
    return _spaced(text, "\\ ")


@LAYOUT
def wide_spaces(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return None if body is None else f"  {_around(body, '   ')} \n"


@LAYOUT
def no_break_spaces(text: str, question: str, rng: random.Random) -> str | None:
    return rng.choice(["\u00a0{0}\u00a0", "\u2009{0}\u2009", "\u3000{0}", "~{0}~"]).format(shell(text))


@LAYOUT
def no_spaces(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    # 48, 384 are two numbers, and 48,384 is one
    unsafe = body is None or kind(text, question) in ("prose", "words") or r"\begin" in body or re.search(r"\d,? \d", body)
    return None if body is None or unsafe else compact(body)


@LAYOUT
def spaces_in_braces(text: str, question: str, rng: random.Random) -> str | None:
    if "{,}" in text or r"\begin" in text:
        return None
    return "".join({"{": "{ ", "}": " }"}.get(token, token) for token in tokens(text))


@LAYOUT
def other_frac(text: str, question: str, rng: random.Random) -> str | None:
    return re.sub(r"\\[dtc]?frac(?![A-Za-z])", "\\\\" + rng.choice(["dfrac", "tfrac", "cfrac", "frac"]), text)


@LAYOUT
def left_right(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or not re.search(r"[(\[]|\\\{", body) or re.search(r"\\left|\\begin|\\sqrt\[", body):
        return None
    opening, closing = ("(", "[", r"\{"), (")", "]", r"\}")
    parts = tokens(body)
    if sum(part in opening for part in parts) != sum(part in closing for part in parts):
        return None
    left, right = rng.choice([(r"\left", r"\right"), (r"\bigl", r"\bigr"), (r"\Big", r"\Big")])
    return "".join(left + part if part in opening else right + part if part in closing else part for part in parts)


@LAYOUT
def no_left_right(text: str, question: str, rng: random.Random) -> str | None:
    return re.sub(r"\\(?:left|right)(?![A-Za-z])\s*", "", text)


@LAYOUT
def displaystyle(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return None if body is None else rf"\displaystyle {body}"


@LAYOUT
def dollars(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return None if body is None else rng.choice(["${0}$", "\\({0}\\)", "$${0}$$", "\\[{0}\\]", "$ {0} $"]).replace("{0}", body)


@LAYOUT
def dollars_removed(text: str, question: str, rng: random.Random) -> str | None:
    return pure(text)


@LAYOUT
def words_into_text(text: str, question: str, rng: random.Random) -> str | None:
    parts = shell(text).split("$")
    if len(parts) < 3 or len(parts) % 2 == 0 or any("\\" in part for part in parts[::2]):
        return None
    return "".join(part if index % 2 or not part.strip() else rf"\text{{{part}}}" for index, part in enumerate(parts))


@LAYOUT
def nested_box(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return None if body is None else rf"\boxed{{{body}}}"


@LAYOUT
def full_stop(text: str, question: str, rng: random.Random) -> str | None:
    return None if text.rstrip(" $").endswith(".") else f"{stripped(text)}."


@LAYOUT
def braces(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return None if body is None or kind(text, question) in ("list", "prose", "words", "choice") else f"{{{body}}}"


@LAYOUT
def parentheses(text: str, question: str, rng: random.Random) -> str | None:
    wanted = ("integer", "decimal", "fraction", "scalar", "expression", "percent")
    if kind(text, question) not in wanted or "," in text:  # (1,200) is a pair
        return None
    return rng.choice(["({0})", r"\left({0}\right)"]).replace("{0}", shell(text))


@LAYOUT
def bold(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or r"\begin" in body or any(is_words(token) for token in tokens(body)):
        return None
    return rf"\{rng.choice(['mathbf', 'boldsymbol', 'bm', 'pmb'])}{{{body}}}"


@LAYOUT
def text_wrapper(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) not in ("integer", "decimal"):
        return None
    return rf"\{rng.choice(['text', 'textbf', 'mathrm', 'mbox', 'mathit'])}{{{shell(text)}}}"


@LAYOUT
def other_text_command(text: str, question: str, rng: random.Random) -> str | None:
    command = rng.choice([r"\text", r"\mbox", r"\textrm", r"\textbf", r"\mathrm", r"\textit"])
    out = [f"{command}{{{words_in(part)}}}" if re.match(r"\\(?:text|mbox)\b", part) else part for part in tokens(text)]
    return None if command == r"\mathrm" and kind(text, question) == "prose" else "".join(out)


@LAYOUT
def superscript_braces(text: str, question: str, rng: random.Random) -> str | None:
    braced = re.sub(r"([\^_])(\d|[a-z](?![a-z]))", r"\1{\2}", text)
    return braced if braced != text else re.sub(r"([\^_])\{(\d|[a-z])\}", r"\1\2", text)


_SIGNS = {
    r"\times": "×", r"\cdot": "·", r"\pi": "π", r"\infty": "∞", r"\le": "≤", r"\leq": "≤", r"\ge": "≥", r"\geq": "≥",
    r"\cup": "∪", r"\in": "∈", r"\theta": "θ", r"\alpha": "α", r"\omega": "ω", r"\circ": "∘", r"\pm": "±", "-": "−",
}  # fmt: skip


@LAYOUT
def unicode_signs(text: str, question: str, rng: random.Random) -> str | None:
    return "".join(_SIGNS.get(token, token) for token in tokens(text))


@LAYOUT
def unicode_minus(text: str, question: str, rng: random.Random) -> str | None:
    return text.replace("-", "−") if r"\text" not in text else None


@LAYOUT
def full_width_digits(text: str, question: str, rng: random.Random) -> str | None:
    return None if "\\" in text else re.sub(r"\d", lambda m: chr(ord(m.group()) + 0xFEE0), text)


@LAYOUT
def unicode_superscripts(text: str, question: str, rng: random.Random) -> str | None:
    return re.sub(r"\^(?:\{([23])\}|([23])(?!\d))", lambda m: "²³"[int(m[1] or m[2]) - 2], text)


@LAYOUT
def unicode_root(text: str, question: str, rng: random.Random) -> str | None:
    return re.sub(
        r"\\sqrt\s*(?:\{(\d+|[a-z])\}|(\d))", lambda m: f"√{m[1] or m[2]}" if len(m[1] or m[2]) == 1 else f"√({m[1]})", text
    )
