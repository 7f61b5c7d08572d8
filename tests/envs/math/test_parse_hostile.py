"""Hostile text: a tree or a ParseError, soon, whatever comes."""

import contextlib
import sys
import threading

import pytest
from cpu_time import within
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verigym.envs.math.reading.parse import ParseError, TooLarge, parse
from verigym.envs.math.tree import Node, children

SECONDS = 5.0


def attempt(text: str, max_chars: int = 20_000) -> Node | None:
    """Return the tree, None where the text is refused; anything else that is raised fails the test."""
    found: Node | None = None
    for _ in within(SECONDS):
        with contextlib.suppress(ParseError):
            found = parse(text, max_chars=max_chars)
    return found


def height(node: Node) -> int:
    """Return the number of levels."""
    level, count = [node], 0
    while level:
        level, count = [child for parent in level for child in children(parent)], count + 1
    return count


BOMBS = {
    "braces": ("{", "}"), "parentheses": ("(", ")"), "sets": (r"\{", r"\}"), "squares": ("[", "]"), "bars": ("|", "|"),
    "fractions": (r"\frac{1}{", "}"), "roots": (r"\sqrt{", "}"), "powers": ("x^{", "}"), "bare powers": ("2^", ""),
    "calls": ("f(", ")"), "functions": (r"\sin ", ""), "text": (r"\text{", "}"), "left": (r"\left(", r"\right)"),
    "subscripts": ("a_{", "}"), "matrices": (r"\begin{pmatrix}", r"\end{pmatrix}"), "accents": (r"\overline{", "}"),
    "sums": (r"\sum_{k=1}^{", "}"), "integrals": (r"\int ", ""), "angles": ("<", ">"), "hedges": ("3 (or ", ")"),
    "products": ("n(n+", ")"), "mixed": (r"2\frac{3}{", "}"), "moduli": ("1 (mod ", ")"), "money": (r"\$1 ", ""),
    "signs": ("-", ""), "factorials": ("", "!"), "primes": ("x", "'"), "slashes": ("1/", ""), "commas": ("1,", ""),
    "groups": ("111,", ""), "spaced": ("111 ", ""), "dollars": ("$", ""), "parens of TeX": (r"\(", r"\)"), "bar": ("x|", ""),
    "words": ("word ", ""), "letters": ("a", ""), "capitals": ("A", ""), "units": ("12 cm ", ""), "ideographs": ("元", ""),
    "connected": ("米和", ""), "accented": ("é", ""), "raised": ("²", ""), "backslashes": ("\\", ""), "rows": (r"\\", ""),
    "spaces": (" ", ""), "thin": (r"\,", ""), "dots": (".", ""), "ampersands": ("&", ""), "percent": ("", "%"),
    "repeating": (r"0.\overline{3}", ""), "clock": ("1:11", ""), "lefts": (r"\left", ""),
    "lines": (r"\begin{align}&", r"\end{align}"),
    "digits": ("1", ""), "nines": ("9e", ""), "nul": ("\0", ""), "combining": ("a\u0301\u0302", ""),
    "zero width": ("\u200b", ""),
    "bidi": ("\u202e", ""), "emoji": ("\U0001f600", ""), "private": ("\ue000", ""), "surrogate": ("\ud800", ""),
    "or": ("or ", ""),
}  # fmt: skip


@pytest.mark.parametrize("size", [200, 100_000, 1_000_000])
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.slow
def test_bombs(name: str, size: int) -> None:
    before, after = BOMBS[name]
    times = size // max(1, len(before), len(after))
    text = before * times + "1" + after * times
    attempt(text, max_chars=10_000_000)
    if size > 20_000 and len(text) > 20_000:
        with pytest.raises(TooLarge):
            parse(text)


def test_trees_are_low_enough_to_walk_by_recursion() -> None:
    for name, (before, after) in BOMBS.items():
        for times in (30, 39, 100, 3000):
            node = attempt(before * times + "1" + after * times, max_chars=10_000_000)
            assert node is None or height(node) <= 120, name
            hash(node)
            assert node == node


def test_deep_stacks() -> None:
    def down(left: int) -> Node | None:
        return down(left - 1) if left else attempt("(" * 39 + "1" + ")" * 39)

    assert down(10) == attempt("1")
    down(sys.getrecursionlimit() - 250)


def test_threads_see_the_same() -> None:
    texts = [r"\frac{1}{2}", "(" * 30 + "1" + ")" * 30, "x^{2}+1", "3 (or 4)", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"]
    expected = [attempt(text) for text in texts]
    seen: list[list[Node | None]] = []
    threads = [threading.Thread(target=lambda: seen.append([attempt(text) for text in texts])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 8


HIDING = [
    "1\u202e2",
    "1\u2066\u20692",
    "5\u0338",
    "x\u0301",
    "1\x002",
    "5\u05d0",
    "١٢",
    "5\x1b[8m6",
    "1\u20dd",
    "\u2064",
    "5\u00ad6",
]


@pytest.mark.parametrize("text", HIDING, ids=ascii)
def test_what_could_hide_or_reorder_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="character"):
        parse(text)


@pytest.mark.parametrize("char", "\u200b\u200c\u200d\u2060\ufeff\ufe0f")
def test_what_shows_nothing_changes_nothing(char: str) -> None:
    assert parse(f"1{char}2") == parse("12")
    assert parse(f"x{char}=5{char}") == parse("x=5")


PIECES = [
    *"0123456789xyabeinABdf+-*/^_!()[]{}|<>=,.;:'\"$%&~ \\",
    *(" or ", " and ", "dx", "cm", "percent", "é", "米", "²", "½", "°", "pm", "base", "million", "...", "{,}", "mod", "to"),
    *r"\frac \sqrt \text{ \left \right \pm \cup \begin{pmatrix} \end{pmatrix} \\ \sin \log_ \sum_{ \int \lim_ \circ".split(),
    *r"\overline{ \mathbb{R} \{ \} \dot \angle \not \langle \lfloor \bmod \pmod \quad \over \choose \left. \right.".split(),
    *r"\begin{cases} \end{cases} \begin{align} \end{align} \boxed{ \mathrm{ \$ \% \!".split(),
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
def test_random_pieces(text: str) -> None:
    attempt(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_random_text(text: str) -> None:
    attempt(text)
