"""The parser on written cases: `tests/cases/math_parse.jsonl` holds text and tree, or text and the reason of the refusal."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from cases import cases
from mathgen.show import show

from verigym.envs.math.reading.parse import ParseError, TooLarge, parse
from verigym.envs.math.tree import Constant, Group, Number, Quantity, Symbol

CASES = Path(__file__).parents[2] / "cases" / "math_parse.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@cases("row", ROWS, ids=[row["text"] for row in ROWS])
def test_case(row: dict[str, str]) -> None:
    if "error" in row:
        with pytest.raises(ParseError, match=row["error"].replace("\\", "\\\\")):
            parse(row["text"])
    else:
        assert show(parse(row["text"])) == row["tree"]


def test_enough_cases() -> None:
    assert len({row["text"] for row in ROWS}) == len(ROWS) >= 300


def test_nodes_not_only_their_text() -> None:
    assert parse("1.50") == Number(Fraction(3, 2), 2)
    assert parse("1.5e3") == Number(Fraction(1500), 1, "scientific")
    assert parse(r"7\frac34") == Number(Fraction(31, 4), style="mixed")
    assert parse(r"0.\overline{3}") == Number(Fraction(1, 3), 1, "repeating")
    assert parse(r"15\mbox{ cm}^2") == Quantity(Number(Fraction(15)), "cm^2")
    assert parse("i") == Constant("i")
    assert parse(r"\mathbf{i}") == Symbol("i")
    assert parse("{1,2}") == Group("tex{", "}", (Number(Fraction(1)), Number(Fraction(2))))


SAME = [
    (r"\frac{1}{2}", r"\dfrac12", r"\tfrac{1}2", r"\cfrac 1 2", r"$\frac12$", r"\(\frac{1}{2}\)", r"\left(\frac12\right)", "½"),
    (r"\text{(C)}", "(C)", "C", r"\textbf{(C)}", r"\mathrm{C}", "C.", r"$\text{C}$", r"\boxed{\text{(C)}}"),
    (r"5\text{ cm}", "5 cm", "5cm", r"5\,\mathrm{cm}", "5 centimeters", r"5 \mbox{ centimetres}", "5 厘米", r"$5$ cm."),
    (r"50\%", "50%", "50 percent", r"50\text{ percent}", "50 pct", "50 per cent", "50％"),
    (r"90^\circ", "90°", "90 degrees", r"90^{\circ}", r"90\text{ degrees}", r"90\degree"),
    (r"\$5", "$5", "5 dollars", r"5\text{ dollars}", "5 USD"),
    (r"[0,\infty)", r"\left[0, \infty\right)", "[0,+∞)", "[0, inf)", "[0, oo)"),
    ("1,2", "1, 2", "1;2", "$1$, $2$", r"1,\ 2", "1，2", "1、2"),
    ("x^2", "x**2", "x²", "x^{2}", "{x}^{2}"),
    ("7,425,000", "7425000", r"7,\!425,\!000", "7{,}425{,}000", "7 425 000", r"7\,425\,000"),
    (r"\sqrt{2}", r"\sqrt2", r"\sqrt 2", "√2", "sqrt(2)", r"\sqrt(2)"),
    (r"\text{Evelyn}", "Evelyn", r"\mbox{Evelyn}", r"\text{ Evelyn }"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix} 1 \\[4pt] 2 \end{bmatrix}",
     r"\left(\begin{array}{c}1\\2\end{array}\right)"),
    ("9 a.m.", "9am", r"9\text{ a.m.}", "9:00 AM"),
    ("x=1 or x=2", r"x=1 \text{ or } x=2", "x=1或x=2", "$x=1$ or $x=2$"),
]  # fmt: skip


@pytest.mark.parametrize("texts", SAME, ids=[texts[0] for texts in SAME])
def test_ways_to_write_one_tree(texts: tuple[str, ...]) -> None:
    assert len({parse(text) for text in texts}) == 1


DIFFERENT = [
    ("(1,2)", "[1,2]", "{1,2}", r"\{1,2\}", "1,2", "(1,2]"),
    ("3", "3 (or maybe 4)", "3 or 4", "3 or", "3 not", "3 = 4", "(3,)", "about 3"),
    ("2x", "2^x", "2/x", "2+x"),
    ("1.5", "1,5", "15", "1 5"),
    ("5 cm", "5 m", "5 cm^2", "5"),
    ("12", "1,2", "1 2", "1.2", "1:2"),
    (r"\sqrt{2}x", r"\sqrt{2x}"),
    (r"2\frac{1}{2}", r"2\cdot\frac{1}{2}"),
]  # fmt: skip


@pytest.mark.parametrize("texts", DIFFERENT, ids=[texts[0] for texts in DIFFERENT])
def test_different_texts_stay_different(texts: tuple[str, ...]) -> None:
    assert len({parse(text) for text in texts}) == len(texts)


def test_comma_as_decimal_mark_is_an_option() -> None:
    assert show(parse("1000,99")) == "(comma 1000 99)"
    assert parse("1000,99", decimal_comma=True) == parse("1000.99")
    assert parse("7,425,000", decimal_comma=True) == parse("7425000")


def test_messages_name_what_was_found_and_where() -> None:
    with pytest.raises(ParseError, match=r"a number, a name or a bracket expected, found the end at 2 near '3\+'"):
        parse("3+")
    with pytest.raises(ParseError, match=r"control sequence \\frobnicate at 2"):
        parse(r"1+\frobnicate{2}")
    with pytest.raises(TooLarge, match="at most 10"):
        parse("1+1+1+1+1+1+1", max_chars=10)


@pytest.mark.parametrize(
    "text", ["", "   ", "$$", "()", r"\frac{1}{}", "(1,2", "1]", "{1", "1}", r"\left(1", "x^", "|x", r"\begin{x}1\end{x}"]
)
def test_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
