from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verigym.envs.exact import MAX_CHARS, PercentPolicy, compare, is_bare, parse

F = Fraction


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3/4", F(3, 4)),
        (r"\frac{3}{4}", F(3, 4)),
        (r"\dfrac34", F(3, 4)),
        (r"-\frac{1}{2}", F(-1, 2)),
        (r"\frac{-1}{2}", F(-1, 2)),
        (r"2\frac{1}{3}", F(7, 3)),
        ("2 1/3", F(7, 3)),
        (r"-2\frac13", F(-7, 3)),
        ("1,234", F(1234)),
        ("1{,}234", F(1234)),
        (r"1\,234", F(1234)),
        ("1 000", F(1000)),
        (r"\$5", F(5)),
        (r"32,\! 349", F(32349)),
        (r"50\%", F(1, 2)),
        ("28 pct", F(7, 25)),
        (r"\frac12\%", F(1, 200)),
        ("1.5e3", F(1500)),
        (r"1.5 \times 10^{3}", F(1500)),
        (r"2\cdot10^{-2}", F(1, 50)),
        (".4", F(2, 5)),
        ("5.", F(5)),
        ("- 5", F(-5)),
        ("+7", F(7)),
        ("-(-5)", F(5)),
        (r"\left(\frac13\right)", F(1, 3)),
        (r"\text{42}", F(42)),
        (r"10\text{ cm}", F(10)),
        ("120 degrees", F(120)),
        ("74°", F(74)),
        ("\u22123", F(-3)),
        ("$16386.20$", F(1638620, 100)),
    ],
)
def test_literals(text: str, value: Fraction) -> None:
    number = parse(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "5m",
        "5 m",
        "5 pi",
        "2 million",
        "3 or 4",
        "1,23",
        "0,111",
        "32, 349",
        "4 10/3",
        "1/0",
        "1/-2",
        "--5",
        "1.2.3",
        "(0,)",
        "[0]",
        "1_000",
        "\u0661\u0662",
        "10^3",
        r"\pi",
        "1e99999",
        "10^{10^{10}}",
        r"3 \text{ (or maybe 4)}",
        r"3\text{ or }4",
        "2+2",
        "nan",
        "inf",
        "Infinity",
        "9" * (MAX_CHARS + 1),
        "1e",
        "\x00",
        "0x10",
    ],
)
def test_not_literals(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("1/3", "0.333", False),
        ("1/3", "2/6", True),
        ("4", "4.0", True),
        ("5 cm", "5", True),
        ("5 cm", "5 kg", False),
        ("5", "x", None),
        ("x", "5", None),
    ],
)
def test_compare(gold: str, answer: str, same: bool | None) -> None:
    assert compare(gold, answer) is same


@pytest.mark.parametrize(
    ("gold", "answer", "accepted_by"),
    [
        (r"50\%", "0.5", ("value", "gold", "either")),
        ("0.5", r"50\%", ("value", "gold", "either")),
        (r"50\%", "50", ("gold", "either")),
        ("50", r"50\%", ("either",)),
        ("0.5", r"0.5\%", ("either",)),
        (r"50\%", "0.005", ()),
    ],
)
@pytest.mark.parametrize("policy", ["value", "gold", "either"])
def test_percent(gold: str, answer: str, accepted_by: tuple[str, ...], policy: PercentPolicy) -> None:
    assert compare(gold, answer, policy) is (policy in accepted_by)


def test_bare_literals_have_nothing_to_work_out() -> None:
    assert all(is_bare(text) for text in ("391", "-3.5", "1,000", r"50\%", "5 cm"))
    assert not any(is_bare(text) for text in ("6/8", r"\frac{6}{8}", "2+2", "x"))


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30))
def test_every_spelling_of_a_fraction_agrees(top: int, bottom: int) -> None:
    for text in (f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}", rf"\left(\dfrac{{{top}}}{{{bottom}}}\right)"):
        number = parse(text)
        assert number is not None
        assert number.value == F(top, bottom)
    assert compare(str(top), f"{top:,}") is True
    assert compare(str(top), str(top + 1)) is False


@given(st.text(alphabet="0123456789.,/+-eE%$\\{}() fractxmi^", max_size=60))
def test_any_text_gets_a_number_or_none(text: str) -> None:
    number = parse(text)
    assert number is None or isinstance(number.value, Fraction)
