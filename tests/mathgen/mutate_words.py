r"""Mutations in words: other words and choices, hedges, chains, bounds, and answers that have nothing to do with the gold."""

from __future__ import annotations

import random
import re

from mathgen.registry import Registry, pure
from mathgen.text import TEXT_COMMAND, kind, plain_number, shell

WORDS = Registry()

_SCALARS = ("integer", "decimal", "fraction", "scalar", "expression", "mixed")
_ORDERED = ("tuple", "interval")


@WORDS
def other_choice(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) != "choice":
        return None
    letter = re.search(r"([A-Z])\)?\}?\)?$", shell(text))[1]  # type: ignore[index]
    new = rng.choice([other for other in "ABCDEFGHK" if other != letter])
    return rng.choice(["%s", "(%s)", r"\text{%s}", r"\text{(%s)}"]) % new


@WORDS
def two_choices(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) != "choice":
        return None
    letter = re.search(r"([A-Z])\)?\}?\)?$", shell(text))[1]  # type: ignore[index]
    other = rng.choice([other for other in "ABCDE" if other != letter])
    return rng.choice(["%s, %s", r"%s \text{ or } %s", "%s%s", r"\text{%s and %s}", r"\text{(%s) or (%s)}"]) % (letter, other)


_WORDS = ("odd", "even", "Monday", "circle", "Evelyn", "neither", "hyperbola", "west", "Saturn", "increasing", "yes", "blue")


@WORDS
def capital_changed(text: str, question: str, rng: random.Random) -> str | None:
    found = [match.start() for match in re.finditer(r"(?<=[A-Z])[A-Z]|[A-Z](?=[A-Z])", text)]
    if kind(text, question) != "prose" or not found:
        return None
    at = rng.choice(found)
    return text[:at] + rng.choice([letter for letter in "BDFGHJ" if letter != text[at]]) + text[at + 1 :]


@WORDS
def other_word(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) != "words":
        return None
    return rf"\text{{{rng.choice([word for word in _WORDS if word.lower() not in text.lower()])}}}"


@WORDS
def word_negated(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(rf"({TEXT_COMMAND}\s*\{{)(.*)\}}", shell(text))
    if kind(text, question) not in ("words", "choice") or not match:
        return None
    return match[1] + rng.choice(["not {0}", "{0} is wrong", "never {0}", "anything but {0}"]).format(match[2]) + "}"


@WORDS
def letter_changed(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(rf"({TEXT_COMMAND}\s*\{{)(.*)\}}", shell(text))
    words = re.finditer(r"[A-Za-z]{2,}|(?<![ a-z])[A-Z]", match[2] if match else "")  # an article may be missing
    letters = [at for word in words for at in range(word.start(), word.end())]
    if kind(text, question) != "words" or not match or not letters:
        return None
    at = rng.choice(letters)
    new = rng.choice([letter for letter in "bdfgkmpqvwxz" if letter != match[2][at].lower()])
    new = new.upper() if match[2][at].isupper() else new
    return match[1] + match[2][:at] + rng.choice([new, ""]) + match[2][at + 1 :] + "}"


@WORDS
def word_hedged(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(rf"({TEXT_COMMAND}\s*\{{)(.*)\}}", shell(text))
    if kind(text, question) not in ("words", "choice") or not match:
        return None
    other = rng.choice([word for word in _WORDS if word.lower() not in text.lower()])
    return match[1] + rng.choice(["{0} or {1}", "{1} or {0}", "maybe {0}, maybe {1}", "{0}, {1}"]).format(match[2], other) + "}"


def _other(text: str, question: str, rng: random.Random) -> str | None:
    """Another value of the same sort, written to stand beside the gold."""
    body = pure(text)
    what = kind(text, question)
    if body is None or what not in (*_SCALARS, "percent", "degrees", "money", "quantity", "tuple", "interval"):
        return None
    if what == "integer" and plain_number(body):
        return str(int(plain_number(body) or 0) + rng.choice([1, 2, -1]))
    return "(97, 98)" if what in _ORDERED else rng.choice(["97", r"\frac{113}{7}", "-41"])


@WORDS
def hedged_or(text: str, question: str, rng: random.Random) -> str | None:
    other = _other(text, question, rng)
    form = rng.choice([r"{0} \text{{ or }} {1}", r"{1} \text{{ or }} {0}", "{0} or {1}", r"{0}\text{{ and }}{1}"])
    return form.format(pure(text), other) if other else None


@WORDS
def hedged_maybe(text: str, question: str, rng: random.Random) -> str | None:
    other = _other(text, question, rng)
    forms = [
        r"{0} \text{{ (or maybe {1})}}",
        "{0} (maybe {1})",
        r"\text{{either }} {0} \text{{ or }} {1}",
        r"{0}\text{{, possibly }}{1}",
    ]
    return rng.choice(forms).format(pure(text), other) if other else None


@WORDS
def not_sure(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in _SCALARS:
        return None
    return rng.choice([r"\text{{not }} {0}", r"\neq {0}", r"\text{{anything but }}{0}"]).format(body)


@WORDS
def chain_right_first(text: str, question: str, rng: random.Random) -> str | None:
    other = _other(text, question, rng)
    return f"{pure(text)} = {other}" if other and kind(text, question) in _SCALARS else None


@WORDS
def chain_right_last(text: str, question: str, rng: random.Random) -> str | None:
    other = _other(text, question, rng)
    return (
        f"{rng.choice(['', 'x = '])}{other} = {pure(text)}"
        if other and kind(text, question) in ("integer", "decimal", "fraction", "mixed")
        else None
    )


@WORDS
def bounded(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) not in ("integer", "decimal", "fraction"):
        return None
    return rng.choice(["x > {0}", r"x \le {0}", r"{0} \pm 1", "{0}n", r"\sqrt{{{0}}} + 41", "> {0}"]).format(shell(text))


@WORDS
def plus_one(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return (
        None
        if body is None or kind(text, question) not in _SCALARS
        else f"{body.rstrip('.')} + {rng.choice(['1', '0.001', '10', 'x'])}"
    )


@WORDS
def times_two(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in _SCALARS or plain_number(body) in ("0", "0.0"):
        return None
    return rng.choice(["2({0})", r"\frac{{{0}}}{{2}}", "({0})x", r"({0})\pi", r"({0})i"]).format(body.rstrip("."))


@WORDS
def percent_added(text: str, question: str, rng: random.Random) -> str | None:
    number = plain_number(shell(text))
    return None if number is None or float(number) == 0 else rf"{number}{rng.choice(['00', ''])}1\%"


@WORDS
def nothing(text: str, question: str, rng: random.Random) -> str | None:
    return rng.choice([r"\text{none}", r"\emptyset", r"\text{DNE}", "?", r"\infty", r"\varnothing", "[]", r"\text{undefined}"])


@WORDS
def unrelated(text: str, question: str, rng: random.Random) -> str | None:
    new = rng.choice(
        ["91357", r"\frac{211}{223}", "xyzzy", r"41\sqrt{43}", "(31, 37, 41)", r"\{53, 59\}", "q^{11} - 3", r"[61, 67)"]
    )
    return new
