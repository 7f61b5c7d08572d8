"""Compares single values: numbers and expressions, with units and percent signs, times of day, ratios, bases, words."""

from __future__ import annotations

import re
from fractions import Fraction
from math import gcd

from verigym.envs.math.build import literal, rebuild, scaled
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.unsimplified import is_unsimplified
from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.quantities.decimals import stands_for
from verigym.envs.math.judging.quantities.measured import Measure, measure
from verigym.envs.math.judging.quantities.measures import counts_things, is_asked, is_missable, same_unit
from verigym.envs.math.judging.quantities.requested import contradicts
from verigym.envs.math.judging.question import MAX_CHARS
from verigym.envs.math.judging.texts import choice_of, same_words, says_infinite, says_zero, words_of
from verigym.envs.math.tree import (
    Clock,
    Constant,
    Div,
    Ellipsis,
    InBase,
    Mul,
    NamedSet,
    Node,
    Number,
    Phrase,
    Pow,
    Relation,
    Symbol,
    Text,
    Verdict,
    walk,
)  # fmt: skip

# Nodes that are compared as a whole, without arithmetic.
_WHOLE = (Text, Phrase, Clock, InBase, Ellipsis, NamedSet)
MAX_SHOWN = 40
_COUNTING = re.compile(r"how many|number of", re.IGNORECASE)


def same_scalar(case: Case, gold: Node, answer: Node) -> Verdict:
    """Compare the single values `gold` and `answer` and return the verdict."""
    if gold == answer:
        return "same"
    match gold, answer:  # 40_{10} is no 40 in the base that is asked
        case InBase(digits, base), Number(number, 0) if re.search(rf"\b(?:in|to|into) base[-\s${{]*{base}\b", case.question):
            return "same" if str(number) == digits.lstrip("0") else case.refuse("another number")
        case Number(number, 0), InBase(digits, base) if base != 10 and _asks_base(case.question, base):
            return "same" if str(number) == digits.lstrip("0") else case.refuse("another number")
        case Symbol(name), InBase(digits, base) if base != 10 and _asks_base(case.question, base):
            return "same" if name.upper() == digits.lstrip("0") else case.refuse("another number")
    left, right = _counted(case, measure(gold)), _counted(case, measure(answer))
    if bool(left.unit) is not bool(right.unit):
        left, right = _with_unit(left, right.unit), _with_unit(right, left.unit)
    if left.unit != right.unit:
        if "degree" in (left.unit, right.unit) and _in_radians(left) and _in_radians(right):
            return case.values(_radians(left), _radians(right))
        if _units(case, left, right) == "different":
            return "different"
    if left.percent or right.percent:
        return _percent(case, left, right)
    return _value(case, left.value, right.value)


def _asks_base(question: str, base: int) -> bool:
    """Return whether the question asks for a number in this base."""
    named = {2: "|binary", 8: "|octal", 16: "|hexadecimal"}.get(base, "")
    return re.search(rf"\b(?:in|to|into|as an?) (?:base[-\s${{]*{base}\b{named})", question, re.IGNORECASE) is not None


def _counted(case: Case, measured: Measure) -> Measure:
    """Read a number followed by the counted noun of the question as a value with a unit: `12 factors`."""
    match measured.value:
        case Phrase((Number() as value, Text(words))) if not measured.unit and is_asked(words, case.question):
            return Measure(value, words)
    return measured


def _with_unit(measured: Measure, unit: str) -> Measure:
    r"""Read the last letters of a product as the other side's unit: `144 m^3` beside `144\text{ m}^3`."""
    if measured.unit or not unit or not isinstance(measured.value, Mul):
        return measured
    *factors, last = measured.value.factors
    match last:
        case Symbol(name):
            spelled = name
        case Pow(Symbol(name), Number(power, 0)):
            spelled = f"{name}^{power}"
        case _:
            return measured
    if not same_unit(spelled, unit):
        return measured
    return Measure(Mul(tuple(factors)) if len(factors) > 1 else factors[0], unit, measured.percent)


def _in_radians(angle: Measure) -> bool:
    """Return whether an angle can be converted to radians: it is in degrees, or has no unit and contains pi."""
    return angle.unit == "degree" or (not angle.unit and any(part == Constant("pi") for part in walk(angle.value)))


def _radians(angle: Measure) -> Node:
    return Mul((Div(Constant("pi"), Number(Fraction(180))), _grouped(angle.value))) if angle.unit else angle.value


def _grouped(node: Node) -> Node:
    return Div(node, Number(Fraction(1))) if isinstance(node, Mul) else node


def _units(case: Case, gold: Measure, answer: Measure) -> Verdict:
    policy = case.policy.units
    if gold.unit and answer.unit:
        if same_unit(gold.unit, answer.unit):
            return "same"
        return case.decided("units", policy == "ignore", f"the unit is {answer.unit[:MAX_SHOWN]!r}, not {gold.unit!r}")
    unit = gold.unit or answer.unit
    if answer.unit == "degree" and counts_things(case.question):
        return case.refuse("degrees where things are counted")
    if not gold.unit and case.question and contradicts(answer.unit, case.question):
        return case.refuse(f"the question asks for another unit than {unit[:MAX_SHOWN]!r}")
    if not is_missable(unit) and not is_asked(unit, case.question):
        return case.refuse(f"{unit[:MAX_SHOWN]!r} is no unit that may be missing")
    missing = policy != "require" or not gold.unit
    return case.decided("units", missing, f"the unit {gold.unit!r} is missing")


def _percent(case: Case, gold: Measure, answer: Measure) -> Verdict:
    policy = case.policy.percent
    if gold.percent != answer.percent and (gold.unit or answer.unit):
        return case.decided("units", False, "a unit where the other has a percent sign")
    if gold.percent == answer.percent:
        return _value(case, gold.value, answer.value)
    bare = policy in ("either", "number") or (policy == "gold" and (gold.percent or wants_percent(case.question)))
    if bare and _value(case, gold.value, answer.value) == "same":
        return case.decided("percent", True, "")
    asked = answer.percent and policy == "gold" and (rational(gold.value) or 0) >= 1  # of 25, 2500% is no other form
    if policy == "number" or (bare and asked):
        return case.decided("percent", False, "another number, the percent sign ignored")
    hundredth = Fraction(1, 100)
    return _value(
        case,
        scaled(gold.value, hundredth) if gold.percent else gold.value,
        scaled(answer.value, hundredth) if answer.percent else answer.value,
    )


def _value(case: Case, gold: Node, answer: Node) -> Verdict:
    if gold == answer:
        return "same"
    if isinstance(gold, _WHOLE) or isinstance(answer, _WHOLE):
        return _whole(case, gold, answer)
    if any(isinstance(part, Ellipsis) for node in (gold, answer) for part in walk(node)):
        return case.refuse("an ellipsis")
    if _is_ratio(gold) or _is_ratio(answer):
        return _ratio(case, gold, answer)
    if _same_letter(gold, answer):
        return "same"
    verdict = case.values(gold, answer)
    if verdict == "same" and case.policy.unsimplified == "refuse" and is_unsimplified(gold, answer, case.work):
        return case.decided("unsimplified", False, "the answer is not simplified")
    if verdict != "same" and stands_for(case, gold, answer) == "same":
        return "same"
    return case.refuse("another value") if verdict == "different" else verdict


def _whole(case: Case, gold: Node, answer: Node) -> Verdict:
    if isinstance(gold, Clock):
        return _clock(case, gold, answer)
    if isinstance(gold, InBase) or isinstance(answer, InBase):
        return _base(case, gold, answer)
    chosen = choice_of(gold)
    if chosen is not None and choice_of(answer) is not None:
        return "same" if chosen == choice_of(answer) else case.refuse("another choice")
    infinite = gold == Constant("infinity") and says_infinite(answer)
    if (infinite or (gold == Number(Fraction(0)) and says_zero(answer))) and _COUNTING.search(case.question):
        return case.decided("words", case.policy.words == "loose", "words where a number is asked")
    if infinite and answer == Text("infinite"):
        return case.decided("words", case.policy.words == "loose", "words where a number is asked")
    if isinstance(gold, Text) or isinstance(answer, Text):
        words, other = words_of(gold), words_of(answer)
        if words is not None and other is not None:
            return same_words(case, words, other)
    return case.refuse(f"{_kind(answer)} where {_kind(gold)} is asked")


def _clock(case: Case, gold: Clock, answer: Node) -> Verdict:
    if not isinstance(answer, Clock):
        if isinstance(answer, Relation) and _is_ratio(answer) and _may_be_ratio(gold):
            return _ratio(case, _as_ratio(gold), answer)
        return case.refuse("no time of day")
    if gold.half is None or answer.half is None:
        # 3:05 may stand for 3:05 pm as 5 does for 5 cm, and 15:05 is no other time.
        if (gold.hour % 12, gold.minute, gold.second or 0) != (answer.hour % 12, answer.minute, answer.second or 0):
            return case.refuse("another time")
        if gold.half is None and answer.half is None:
            return "same" if gold.hour == answer.hour else case.refuse("another time")
        timed, bare = (gold, answer) if gold.half else (answer, gold)
        if bare.hour == _hour(timed):
            return "same"
        fits = 1 <= bare.hour <= 12
        return case.decided("units", fits and (case.policy.units != "require" or gold.half is None), "am or pm is missing")
    same = (_hour(gold), gold.minute, gold.second or 0) == (_hour(answer), answer.minute, answer.second or 0)
    return "same" if same else case.refuse("another time")


def _may_be_ratio(clock: Clock) -> bool:
    """Return whether `7:32` may be a ratio: one in lowest terms."""
    return clock.second is None and clock.half is None and gcd(clock.hour, clock.minute) == 1


def _hour(clock: Clock) -> int:
    if clock.half is None or clock.hour > 12:
        return clock.hour
    return clock.hour % 12 + (12 if clock.half == "pm" else 0)


def _base(case: Case, gold: Node, answer: Node) -> Verdict:
    if isinstance(gold, InBase) and isinstance(answer, InBase) and gold.base == answer.base:
        return "same" if _based(gold) == _based(answer) else case.refuse("another number")
    if case.values(in_ten(gold), in_ten(answer)) != "same":
        return case.refuse("another number or base")
    return case.decided("bases", case.policy.bases == "value", "the base is another or missing")


def in_ten(node: Node) -> Node:
    """Return `node` with all numbers converted to base ten."""
    return rebuild(node, _in_ten) if any(isinstance(part, InBase) for part in walk(node)) else node


def _in_ten(node: Node) -> Node:
    value = _based(node) if isinstance(node, InBase) else None
    return literal(value) if isinstance(value, Fraction) else node


def _based(node: InBase) -> Fraction | str:
    """Return the value of digits in a base, possibly with a point; the node unchanged if the digits do not fit the base."""
    whole, _, part = node.digits.partition(".")
    try:
        return Fraction(int(whole + part, node.base), node.base ** len(part))
    except ValueError:
        return node.digits


def _is_ratio(node: Node) -> bool:
    return isinstance(node, Relation) and set(node.comparators) == {":"}


def _as_ratio(clock: Clock) -> Relation:
    return Relation((Number(Fraction(clock.hour)), Number(Fraction(clock.minute))), (":",))


def _ratio(case: Case, gold: Node, answer: Node) -> Verdict:
    """Compare `a : b : c` by the quotients of neighbours; of two parts, also with the quotient itself."""
    if isinstance(answer, Clock):
        answer = _as_ratio(answer)
    one = gold.sides if isinstance(gold, Relation) and _is_ratio(gold) else None
    two = answer.sides if isinstance(answer, Relation) and _is_ratio(answer) else None
    if one and two:
        if len(one) != len(two):
            return case.refuse(f"a ratio of {len(two)} parts where {len(one)} are asked")
        pairs = zip(_quotients(one), _quotients(two), strict=True)
        verdict = all_of(case.values(left, right) for left, right in pairs)
        return case.refuse("another ratio") if verdict == "different" else verdict
    if len(one or two or ()) != 2:
        return case.refuse(f"{_kind(answer)} where {_kind(gold)} is asked")
    if not one and not isinstance(gold, Div | Number):
        return case.refuse("a ratio where a value is asked")
    return case.values(_quotients(one)[0] if one else gold, _quotients(two)[0] if two else answer)


def _quotients(sides: tuple[Node, ...]) -> list[Node]:
    return [Div(left, right) for left, right in zip(sides, sides[1:], strict=False)]


def _same_letter(gold: Node, answer: Node) -> bool:
    r"""Whether both are the same letter, parsed as a constant or as a name: `e` and `\text{e}`."""
    names = [node.name for node in (gold, answer) if isinstance(node, Symbol | Constant)]
    return len(names) == 2 and names[0] == names[1]


def _kind(node: Node) -> str:
    if rational(node) is not None:
        return "a number"
    kinds = {Text: "words", Phrase: "a phrase", Clock: "a time", InBase: "a number in a base", Symbol: "a letter"}
    kind = kinds.get(type(node))
    return kind or ("a formula" if any(isinstance(part, Symbol) for part in walk(node)) else "a value")


_PERCENT = re.compile(
    r"\b(?:what|how many|which|find|determine|calculate|compute|give|state)(?: is| was| are| were)?(?: the| its)?"
    r"(?: (?:total|overall|approximate|exact|average|final|least|greatest|smallest|largest|maximum|minimum|annual|net))?"
    r" percent(?:age)?s?\b|\b(?:as|to|into) an? percent(?:age)?\b|\b(?:in|nearest(?: [a-z]+)?) percent\b|"
    r"\b(?:percent(?:age)?|%) (?:sign|symbol)\b",
    re.IGNORECASE,
)


def wants_percent(question: str) -> bool:
    """Return whether the answer to `question` is a percentage: `what percent of 80 is 20`, not `what is 20 percent of 80`."""
    return _PERCENT.search(question[:MAX_CHARS]) is not None
