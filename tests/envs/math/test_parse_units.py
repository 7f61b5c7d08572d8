"""Units, and the words that are none; the string tier's spaces, which tell a list from a number."""

import pytest
from cases import cases

from verigym.envs.math.judging.quantities.conversions import converted
from verigym.envs.math.judging.quantities.measured import measure
from verigym.envs.math.judging.quantities.measures import factors, same_unit
from verigym.envs.math.reading.parse import ParseError, TooLarge, parse
from verigym.envs.math.reading.spelling import spelled, unescaped
from verigym.envs.math.tree import Phrase, Quantity

COUNTED = [
    "apples",
    "children",
    "ordered pairs",
    "children tickets",
    "square feet",
    "miles per hour",
    "fish",
    "radians",
    "MW",
    "mW",
    "T",
]
NO_UNITS = (
    "permille halves inverse reciprocal hex incorrect wrong none undefined unknown something etc too_small VI vi XI M B "
    "dozen bil mill thou myriad googol promille ppm twentieths thirtieths twentyone fold divided factor approx ca circa "
    "ballpark lower_bound upper_bound minimum seems_right idk lol never rejected excluded impossible invalid versus_XI "
    "oder_elf ou_onze resp_XI Ms PA G"
).split()


@pytest.mark.parametrize("words", COUNTED)
def test_units(words: str) -> None:
    assert isinstance(parse(rf"5\text{{ {words}}}"), Quantity)


@cases("words", NO_UNITS)
def test_words_that_are_no_units(words: str) -> None:
    assert isinstance(parse(rf"5\text{{ {words.replace('_', ' ')}}}"), Phrase)


def test_singular_nouns_after_one_and_parts_of_it() -> None:
    assert parse(r"1\text{ bushel}") == Quantity(parse("1"), "bushel")
    assert parse(r"\frac{1}{2}\text{ bushel}") == Quantity(parse(r"\frac{1}{2}"), "bushel")
    assert isinstance(parse(r"5\text{ bushel}"), Phrase)
    assert isinstance(parse(r"1\text{ incorrect}"), Phrase)


def test_scale_words_multiply_and_suffixes_do_not_vanish() -> None:
    assert parse(r"5\text{ lakh}") == parse("500000")
    assert parse(r"2\text{ crore}") == parse("20000000")
    assert isinstance(parse(r"5\text{K}"), Phrase)
    assert parse(r"300\text{ K}") == Quantity(parse("300"), "kelvin")


def test_case_tells_units_apart() -> None:
    assert not same_unit("mW", "MW")
    assert same_unit("Apple", "apple")
    assert not same_unit(*(parse(rf"5\text{{ {unit}}}").unit for unit in ("mg", "Mg")))  # type: ignore[union-attr]


def test_the_factors_of_a_unit_in_any_order() -> None:
    assert factors("kg*m^2/second^2") == factors("m*kg*m/second/second") == (("kg", 1), ("m", 2), ("second", -2))
    assert factors("cm/cm") == ()
    assert not same_unit("J/kg*K", "J/K*kg")  # nobody can tell what is divided
    assert same_unit("\u00a5/hour", "yen/hour")
    assert not same_unit("yen/hour", "yuan/hour")


def test_arithmetic_with_quantities() -> None:
    assert measure(parse(r"60\text{ km/h}\cdot 2\text{ h}")).unit == "hour*km/hour"
    assert measure(parse(r"\frac{6\text{ cm}}{3\text{ cm}}")).unit == ""
    assert measure(parse(r"6\text{ cm}+3\text{ m}")).unit == ""
    assert converted(parse(r"2\text{ h}"), "minute") == parse(r"60\cdot 2\text{ min}")
    assert converted(parse(r"2\text{ h}"), "cm") == parse(r"2\text{ h}")


def test_escapes_that_became_characters_are_those_of_commands() -> None:
    assert unescaped("\frac{1}{2}\text{ a}\times\r\n\tthe \to\n") == "\\frac{1}{2}\\text{ a}\\times\r\n\tthe \to\n"
    assert unescaped("\boxed{\x07lpha\right}") == r"\boxed{\alpha\right}"


def test_a_blank_behind_a_comma_separates_numbers() -> None:
    assert spelled("1, 200") != spelled("1,200")
    assert spelled("1 , 200") != spelled("1,200")
    assert spelled("1,\\ 200") != spelled("1,200")
    assert spelled("(1, x)") == spelled("(1,x)")
    assert spelled("$1, 200$") == spelled("1,  200")


@pytest.mark.parametrize(
    ("text", "unit"),
    [(r"108\text{ in}^2", "inch^2"), (r"108\mathrm{in}^{2}", "inch^2"), (r"3\text{ in}", "inch"), ("5 cm^{12}", "cm^12"),
     (r"\frac{40}{3} \text{sq cm}", "cm^2"), (r"5\text{ cm}^{1}", "cm")],
)  # fmt: skip
def test_powers_and_inches(text: str, unit: str) -> None:
    found = parse(text)
    assert isinstance(found, Quantity)
    assert found.unit == unit


def test_in_before_a_set_is_no_inch() -> None:
    assert isinstance(parse(r"3\text{ in }S"), Phrase)
    assert isinstance(parse(r"2\text{ in }\mathbb{Z}"), Phrase)


def test_numbers_out_of_bounds() -> None:
    with pytest.raises(ParseError):
        parse("1e-3 base 16")
    with pytest.raises(TooLarge):
        parse("1" + "亿" * 600)


@pytest.mark.parametrize(
    ("text", "same"),
    [(r"\frac{|x|}{2}", r"\frac{\lvert x\rvert}{2}"), (r"\sqrt{|x|^2}", r"\sqrt{\lvert x\rvert^2}"),
     ("{|x|^2}/x", r"\lvert x\rvert^2/x"), (r"\{|x|, |y|\}", r"\{\lvert x\rvert, \lvert y\rvert\}"),
     (r"\frac{|ax_0+by_0+c|}{\sqrt{a^2+b^2}}", r"\frac{\lvert ax_0+by_0+c\rvert}{\sqrt{a^2+b^2}}")],
)  # fmt: skip
def test_bars_open_what_stands_in_braces(text: str, same: str) -> None:
    assert parse(text) == parse(same)
