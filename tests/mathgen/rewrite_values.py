r"""Rewrites of numbers, fractions, roots, products, percentages, units, words: the same value in another spelling."""

from __future__ import annotations

import random
import re
from fractions import Fraction

from mathgen.registry import Registry, pure
from mathgen.text import TEXT_COMMAND, compact, kind, plain_number, shell, words_in

VALUES = Registry()

_ARG = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
_INT_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{(-?\d+)\}|\s*(\d))\s*(?:\{(\d+)\}|\s*(\d))")
_NUMBER_CLASS = ("integer", "decimal")


def _fraction(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1] or match[2]), int(match[3] or match[4])


@VALUES
def separators(text: str, question: str, rng: random.Random) -> str | None:
    number = plain_number(shell(text))
    if number is None:
        return None
    whole, dot, rest = number.lstrip("-").partition(".")
    if len(whole) < 4:
        return None
    mark = rng.choice([",", "{,}", r"\,", r",\!", "", " "])
    grouped = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", lambda _: mark, whole)
    return ("-" if number.startswith("-") else "") + grouped + dot + rest


@VALUES
def as_decimal(text: str, question: str, rng: random.Random) -> str | None:
    number = plain_number(shell(text))
    if number is None:
        return None
    return number + (rng.choice(["0", "00"]) if "." in number else rng.choice([".0", ".00"]))


@VALUES
def leading_zero(text: str, question: str, rng: random.Random) -> str | None:
    number = plain_number(shell(text)) or ""
    if re.match(r"-?0\.", number):
        return number.replace("0.", ".", 1)
    return re.sub(r"^(-?)\.", r"\g<1>0.", number) if re.match(r"-?\.", number) else None


@VALUES
def decimal_to_fraction(text: str, question: str, rng: random.Random) -> str | None:
    number = plain_number(shell(text))
    if kind(text, question) != "decimal" or number is None or len(number) > 9:
        return None
    value = Fraction(number)
    return (
        rf"{'-' if value < 0 else ''}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}" if value.denominator > 1 else None
    )


@VALUES
def integer_over_one(text: str, question: str, rng: random.Random) -> str | None:
    return rf"\frac{{{shell(text)}}}{{1}}" if re.fullmatch(r"\d{1,4}", shell(text)) else None


@VALUES
def fraction_to_decimal(text: str, question: str, rng: random.Random) -> str | None:
    def decimal(match: re.Match[str]) -> str:
        top, bottom = _fraction(match)
        value, before, after = Fraction(top, bottom or 1), body[: match.start()].rstrip(), body[match.end() :].lstrip()
        if not bottom or (value * 10**4).denominator > 1 or before[-1:].isdigit() or re.match(r"[\d^.!\\{(]", after):
            return match[0]
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.4f}".rstrip("0")

    body = pure(text) or ""
    return None if not body or re.search(r"[\^_]\s*\\[dtc]?frac", body) else _INT_FRACTION.sub(decimal, body)


@VALUES
def mixed_number(text: str, question: str, rng: random.Random) -> str | None:
    body = compact(shell(text))
    if kind(text, question) == "mixed":
        whole, rest = re.match(r"(-?\d+)(.*)", body).groups()  # type: ignore[union-attr]
        top, bottom = _fraction(_INT_FRACTION.fullmatch(rest))  # type: ignore[arg-type]
        improper = rf"\frac{{{abs(int(whole)) * bottom + top}}}{{{bottom}}}"
        return ("-" if whole.startswith("-") else "") + rng.choice([improper, f"{whole.lstrip('-')} {top}/{bottom}"])
    match = _INT_FRACTION.fullmatch(body.lstrip("-"))
    if not match:
        return None
    top, bottom = _fraction(match)
    if top < bottom or bottom == 1 or top % bottom == 0:
        return None
    sign = "-" if body.startswith("-") else ""
    return rf"{sign}{top // bottom}\frac{{{top % bottom}}}{{{bottom}}}"


@VALUES
def slash_fraction(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None:
        return None
    if kind(text, question) == "fraction" and "/" in body:
        return re.sub(r"(\d+)\s*/\s*(\d+)", r"\\frac{\1}{\2}", body)
    if re.search(r"\d\s*\\[dtc]?frac|[\^_]\s*\\[dtc]?frac|\\frac[^}]*\}[^}]*\}\s*[\^!(\\a-zA-Z\d]", body):
        return None
    return _INT_FRACTION.sub(lambda m: "{}/{}".format(*_fraction(m)), body)


@VALUES
def symbolic_slash(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(rf"(-?)\\[dtc]?frac{_ARG}{_ARG}", compact(shell(text)))
    return f"{match[1]}({match[2]})/({match[3]})" if match and "," not in text else None


@VALUES
def short_fraction(text: str, question: str, rng: random.Random) -> str | None:
    short = re.sub(r"(\\[dtc]?frac)\{(\d)\}\{(\d)\}(?!\d)", r"\1\2\3" if rng.random() < 0.5 else r"\1 \2 \3", text)
    return short if short != text else _INT_FRACTION.sub(lambda m: r"\frac{{{}}}{{{}}}".format(*_fraction(m)), text)


@VALUES
def minus_in_fraction(text: str, question: str, rng: random.Random) -> str | None:
    body = compact(shell(text))
    inside = re.fullmatch(rf"-(\\[dtc]?frac){_ARG}{_ARG}", body)
    if inside:
        top = inside[2] if re.fullmatch(r"[\w\\]+(?:\{\w+\})?", inside[2]) else f"({inside[2]})"
        return rng.choice([rf"{inside[1]}{{-{top}}}{{{inside[3]}}}", rf"-({inside[1]}{{{inside[2]}}}{{{inside[3]}}})"])
    outside = re.fullmatch(rf"(\\[dtc]?frac)\{{-(\d+)\}}{_ARG}", body)
    return rf"-{outside[1]}{{{outside[2]}}}{{{outside[3]}}}" if outside else None


@VALUES
def root_as_power(text: str, question: str, rng: random.Random) -> str | None:
    def power(match: re.Match[str]) -> str:
        base = match[2] if re.fullmatch(r"\d|[a-z]", match[2]) else f"({match[2]})"
        form = rng.choice([r"^{1/%s}", r"^{\frac{1}{%s}}"])
        return base + form % (match[1] or 2)

    body = pure(text)
    if body is None or re.search(rf"\d\s*\\sqrt|\\sqrt(?:\[\d+\])?{_ARG}\s*[\^\d]|[\^_]\s*\\sqrt|\d\)?\s*\\sqrt", body):
        return None
    return re.sub(rf"\\sqrt\s*(?:\[(\d+)\])?{_ARG}", power, re.sub(r"\\sqrt\s*(\d)", r"\\sqrt{\1}", body))


@VALUES
def coefficient_under_root(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"(-?)(\d+)\\sqrt(?:\{(\d+)\}|(\d))", compact(shell(text)))
    if not match:
        return None
    root = rf"\sqrt{{{int(match[2]) ** 2 * int(match[3] or match[4])}}}"
    return None if root in question else match[1] + root  # "simplify \sqrt{8}" is not answered by \sqrt{8}


@VALUES
def root_without_braces(text: str, question: str, rng: random.Random) -> str | None:
    short = re.sub(r"\\sqrt\{(\d)\}(?!\d)", r"\\sqrt\1" if rng.random() < 0.5 else r"\\sqrt \1", text)
    return short if short != text else re.sub(r"\\sqrt\s*(\d)", r"\\sqrt{\1}", text)


@VALUES
def product_sign(text: str, question: str, rng: random.Random) -> str | None:
    sign = rng.choice([r"\cdot ", r" \cdot ", r"\times ", "*", " * ", "×", "·"])
    if (
        re.search(r"\d\s*\\[dtc]?frac|\\(?:sin|cos|tan|sec|csc|cot|log|ln)", text)
        or "_" in text
        or kind(text, question) in ("quantity", "prose", "clock")
    ):
        return None
    put = re.sub(r"(?<=\d)\s*(?=\\(?:sqrt|pi)(?![A-Za-z])|[a-df-zA-Z](?![a-zA-Z]))", lambda _: sign, text)
    return re.sub(r"\s*(?:\\cdot|\\times)(?![a-z])\s*", lambda _: sign, put)


@VALUES
def percent_sign(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) != "percent":
        return None
    number = re.sub(r"\\?%$|\s", "", shell(text))
    return number + rng.choice([r"\%", r" \%", "%", r"\text{ percent}", " percent", r"\text{\%}", "％"])


@VALUES
def percent_value(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) != "percent":
        return None
    value = Fraction(re.sub(r"\\?%$|\s", "", shell(text))) / 100
    return rng.choice([rf"\frac{{{value.numerator}}}{{{value.denominator}}}", f"{float(value):.6f}".rstrip("0").rstrip(".")])


@VALUES
def degree_sign(text: str, question: str, rng: random.Random) -> str | None:
    sign = rng.choice([r"^{\circ}", r"^\circ", "°", r"\text{ degrees}", " degrees", r"\degree", r"^{\circ }"])
    return re.sub(r"\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])\s*)", lambda _: sign, text)


@VALUES
def unit_dropped(text: str, question: str, rng: random.Random) -> str | None:
    what = kind(text, question)
    if what == "degrees":
        return re.match(r"-?[\d.]+", shell(text))[0]  # type: ignore[index]
    if what == "money":
        return shell(text).replace(r"\$", "").strip()
    if what != "quantity" or re.search(r"[ap]\.?m\.?\}", text):
        return None
    return re.split(TEXT_COMMAND, shell(text))[0].rstrip(" \\,")


@VALUES
def unit_spelling(text: str, question: str, rng: random.Random) -> str | None:
    what = kind(text, question)
    if what == "money":
        number = shell(text).replace(r"\$", "").strip()
        return rng.choice([rf"\$ {number}", rf"{number}\text{{ dollars}}", rf"{number} dollars", rf"\text{{\${number}}}"])
    if what != "quantity":
        return None
    number, unit, power = re.fullmatch(rf"(.*?)({TEXT_COMMAND}\s*\{{.*\}})(.*)", shell(text), re.DOTALL).groups()  # type: ignore[union-attr]
    word, number = " ".join(words_in(unit).split()), number.rstrip(" \\,")
    forms = [r"%s\text{ %s}%s", r"%s\,\mathrm{%s}%s", "%s %s%s", r"%s\ \text{%s}%s", r"%s~\mbox{%s}%s"]
    return rng.choice(forms if " " not in word else forms[:1] + forms[3:]) % (number, word, power)


@VALUES
def scientific(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)e(-?\d+)", shell(text))
    forms = [r"%s \times 10^{%s}", r"%s\cdot 10^{%s}", "%sE%s", "%s×10^{%s}", r"%s * 10^{%s}"]
    return rng.choice(forms) % match.groups() if match else None


@VALUES
def base_spelling(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"([\dA-F.]+)_\{?(\d+)\}?", shell(text))
    forms = ["%s_{%s}", r"%s_{\text{%s}}", r"%s_{(%s)}", "(%s)_{%s}", r"\text{%s}_{%s}", r"%s\,_{%s}"]
    return rng.choice(forms) % match.groups() if match else None


@VALUES
def choice_spelling(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) != "choice":
        return None
    letter = re.search(r"([A-Z])\)?\}?\)?$", shell(text))[1]  # type: ignore[index]
    forms = [
        "%s",
        "(%s)",
        r"\text{%s}",
        r"\text{(%s)}",
        r"\mathrm{%s}",
        r"\textbf{(%s)}",
        r"(\text{%s})",
        "$%s$",
        r"\mathbf{%s}",
    ]
    return rng.choice(forms) % letter


@VALUES
def words_spelling(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(rf"{TEXT_COMMAND}\s*\{{(.*)\}}", shell(text))
    if kind(text, question) != "words" or not match:
        return None
    words = match[1]
    forms = ["%s", r"\text{%s}", r"\textbf{%s}", r"\mbox{%s}", r"\text{ %s }", r"\mathrm{%s}", r"\textit{%s}.", r"$\text{%s}$"]
    cases = [words] if words.isupper() or len(words) < 3 else [words, words.lower(), words.upper(), words.capitalize()]
    return rng.choice(forms if " " not in words else forms[1:5]) % rng.choice(cases)
