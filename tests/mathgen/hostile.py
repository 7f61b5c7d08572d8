r"""Hostile and broken texts: soup of LaTeX pieces, mutilated golds, and texts that have hung or crashed graders."""

from __future__ import annotations

import random

from mathgen.text import seeded

PIECES = (
    *"0123456789+-*/^_=<>()[]{}|!%$&~,.;:'\"\\ \n\t",
    *"abcdefinxyzABRZ", *"√π∞½²³°−×÷≤≥≠∪∩∈∅±‰％１２一二三", "\u200b", "\u202e", "\u2066", "\ufeff", "\x00",
    "\u0301", "\U0001d7d9",
    r"\frac", r"\dfrac", r"\sqrt", r"\sqrt[", r"\left", r"\right", r"\left(", r"\right)", r"\{", r"\}", r"\text{", r"\mathrm{",
    r"\begin{pmatrix}", r"\end{pmatrix}", r"\begin{cases}", r"\end{cases}", r"\\", r"\pi", r"\infty",
    r"\pm", r"\cdot", r"\times",
    r"\le", r"\ge", r"\in", r"\cup", r"\cap", r"\mid", r"\sum_{n=1}^", r"\int_0^", r"\lim_{x\to", r"\binom", r"\log_", r"\sin",
    r"\overline{", r"\circ", r"\%", r"\$", r"\,", r"\boxed{", r"\mathbb{R}", r"\ldots", r"\operatorname{", r"\not", r"\overset",
    " and ", " or ", "x=", "10^", "!!", "e5", "e99999", "^{10", "_{", "cm", " degrees", "not sure", "maybe", "0.",
    ".5", "1,000",
)  # fmt: skip


def soup(seed: str) -> str:
    """Return pieces in a random row, mostly short."""
    rng = seeded("soup", seed)
    return "".join(rng.choices(PIECES, k=rng.choice([1, 2, 4, 8, 16, 32, 64, 200])))


def mutilated(text: str, seed: str) -> str:
    """Return a text with a few characters or pieces taken out, put in, doubled or exchanged."""
    rng = seeded("mutilated", text, seed)
    for _ in range(rng.randint(1, 6)):
        at, to = sorted(rng.choices(range(len(text) + 1), k=2))
        text = _one(text, at, min(to, at + 12), rng)
    return text


def _one(text: str, at: int, to: int, rng: random.Random) -> str:
    part = text[at:to]
    middle: str = rng.choice(["", part * 2, rng.choice(PIECES), part[::-1], part.upper(), part + rng.choice(PIECES)])
    return text[:at] + middle + text[to:]


def known_bad() -> dict[str, str]:
    """Return texts by what is bad about them."""
    nested_logs = "x"
    for _ in range(40):
        nested_logs = rf"\log({nested_logs})"
    tower = "5"
    for _ in range(60):
        tower = f"5^{{{tower}}}"
    return {
        "power tower": "10^{10^{10}}",
        "deeper tower": "2^{2^{2^{49}}}",
        "sixty fives": tower,
        "huge factorial": "(10^7)!",
        "factorial of a factorial": "((99!)!)!",
        "many factorials": "9" + "!" * 500,
        "200 braces": "{" * 200 + "5" + "}" * 200,
        "200 braces opened": "{" * 200,
        "5000 parentheses": "(" * 5000 + "5" + ")" * 5000,
        "unclosed parentheses": "(" * 2000,
        "200 roots": r"\sqrt{" * 200 + "5" + "}" * 200,
        "200 fractions": r"\frac{1}{" * 200 + "5" + "}" * 200,
        "series of 800 terms": "+".join(rf"\frac{{1}}{{{n}}}" for n in range(1, 801)),
        "powers of 800 terms": "+".join(f"x^{{{n}}}" for n in range(800)),
        "product of binomials": "".join(f"(x+{n})" for n in range(60)),
        "power of a sum": "(a+b+c+d+e+f+g+h)^{40}",
        "power of a power of a sum": "((((x+y)^{20})^{20})^{20})^{20}",
        "nested logs": nested_logs,
        "signs": "-" * 3000 + "5",
        "plus and minus": "+-" * 1500 + "5",
        "plus-minus pairs": r"\pm 1" + r" \pm x" * 60,
        "commas": "1," * 3000 + "1",
        "a long list": ", ".join(map(str, range(5000))),
        "sets in sets": r"\{" * 300 + "1" + r"\}" * 300,
        "a large matrix": r"\begin{pmatrix}" + r" \\ ".join(["1 & " * 60 + "1"] * 60) + r"\end{pmatrix}",
        "digits": "9" * 20_000,
        "decimals": "0." + "3" * 5000,
        "large exponent": "1e999999999",
        "small exponent": "1e-999999999",
        "digits in a base": "1" * 3000 + "_{2}",
        "long sum": r"\sum_{n=1}^{10^{12}} n^{100}",
        "long product": r"\prod_{n=1}^{10^{9}} n",
        "large binomial": r"\binom{10^{9}}{5\cdot 10^{8}}",
        "deep sine": r"\sin(" * 100 + "x" + ")" * 100,
        "large argument": r"\sin(10^{10^{5}})",
        "equal signs": "=" * 2000,
        "chain": "=".join(["5"] * 2000),
        "inequalities": "<".join(["x"] * 500),
        "bars": "|" * 999 + "x" + "|" * 999,
        "backslashes": "\\" * 3001,
        "dollars": "$" * 3001,
        "nested boxes": r"\boxed{" * 300 + "5" + "}" * 300,
        "text in text": r"\text{" * 300 + "5" + "}" * 300,
        "bidi": "\u202e5\u202c \u2066123\u2069 \u200f7",
        "zero width": "\u200b".join("12345" * 100),
        "NULs": "\x00".join("12345") + "\x00" * 500,
        "combining marks": "5" + "\u0301" * 3000,
        "lone surrogates": "\ud800 5 \udfff",
        "letters from everywhere": "".join(map(chr, range(0x100, 0x3000, 7))),
        "primes": "f" + "'" * 2000,
        "subscripts": "x" + "_{1" * 200 + "}" * 200,
        "words": "maybe " * 2000,
        "a megabyte of digits": "7" * 1_000_000,
        "a megabyte of braces": "{" * 1_000_000,
        "a megabyte of fractions": r"\frac{1}{2}+" * 80_000,
        "a megabyte of commands": r"\left" * 200_000,
    }
