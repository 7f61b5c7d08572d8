r"""Rewrites an answer in another notation into the gold's, to be compared like any other answer.

Examples: `P(2,-1)` for a point, `x = y = z = 1` for a triple, `\operatorname{rank}(A) = 2` for a rank, `x \mapsto x + 1` for
a function, `a < b < c` for a sorted list.
"""

from __future__ import annotations

import re

from verigym.envs.math.build import rebuild
from verigym.envs.math.equality.budget import ANSWER_WORK, WorkBudget
from verigym.envs.math.equality.values import approximation
from verigym.envs.math.judging.question import MAX_CHARS
from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import (
    FUNCTIONS,
    Call,
    Group,
    InBase,
    Listing,
    NamedSet,
    Node,
    Number,
    Phrase,
    Pow,
    Relation,
    Symbol,
    Text,
    symbols,
    walk,
)  # fmt: skip

_SHORT = {"tr": "trace"}
_LOWERED = re.compile(r"C_\{?([A-Za-z0-9+-]{1,12})\}?")
_OTHER_BASE = re.compile(r"log ?_|log ?10|\\lg|\blg")
_CALCULUS = re.compile(
    r"\\i{0,2}int(?![a-z])|\bintegra|derivative|differentia|\\frac\{?d|dy/dx|d/dx|[a-z]'+ ?[(=+]|\\ln|\bln\b", re.IGNORECASE
)
_IN_ORDER = re.compile(r"\b(?:order|arrange|sort|rank)", re.IGNORECASE)


def written_as(gold: Node, answer: Node, question: str) -> tuple[Node, Node]:
    """Return both trees, with `answer` rewritten into the notation of `gold` if it uses another notation."""
    if any(isinstance(part, Call) and part.name == "binom" for part in walk(gold)):
        answer = rebuild(answer, _combinations)
    match answer:
        case Relation(sides, comparators) if set(comparators) == {"="} and len(sides) > 2:
            return gold, _alike(gold, answer)
        case Relation((left, body), ("to",)):
            return gold, _mapped(gold, left, body) or answer
        case Relation(sides, comparators) if len(set(comparators)) == 1 and comparators[0] in ("<", ">", "<=", ">="):
            ordered = isinstance(gold, Listing) and len(sides) == len(gold.items) and _IN_ORDER.search(question[:MAX_CHARS])
            plain = not any(symbols(side) for side in (gold, *sides)) and _is_true(sides, comparators[0])
            return (_tuple(gold.items), _tuple(sides)) if isinstance(gold, Listing) and ordered and plain else (gold, answer)
        case Listing((Relation((Relation((Symbol(), NamedSet()), (":",)), NamedSet()), ("to",)), rest), "comma"):
            return written_as(gold, rest, question)  # f: R -> R, x -> x + 1
        case Listing(items, joiner) if isinstance(gold, Listing) and len(items) == len(gold.items):
            pairs = zip(gold.items, items, strict=True)
            return gold, Listing(tuple(_point(one, two) for one, two in pairs), joiner)
        case Call():
            return gold, _point(gold, answer)
        case Phrase((Number(), *_)) if isinstance(gold, InBase):
            return gold, _based(answer)
        case Phrase((Text(words), Relation((Symbol() as of, *values), ("=",)))) if _is_operator(words, question):
            return gold, Relation((Call(words, (of,)), *values), ("=",))
    return gold, answer


def natural_logarithms(gold: Node, answer: Node, text: str, question: str) -> Node:
    r"""Return `answer` with `\ln` for a `\log` without a base, if the gold has `\ln` and the question is one of calculus.

    Args:
        gold: the correct answer.
        answer: the answer to judge.
        text: the answer as it is written, which tells `\log` from `\log_{10}`.
        question: the task's text.
    """
    natural = any(isinstance(part, Call) and part.name == "ln" for part in walk(gold))
    if not natural or _OTHER_BASE.search(text) or "log" in question or not _CALCULUS.search(question[:MAX_CHARS]):
        return answer
    return rebuild(answer, lambda part: Call("ln", part.args[:1]) if isinstance(part, Call) and part.name == "log" else part)


def _based(phrase: Phrase) -> Node:
    """Return 1102_6 for `1102 (base 6)` and `1102 in base 6`."""
    match phrase.parts:
        case (Number(value, 0), Phrase((Text("base"), Number(base, 0)))) | (Number(value, 0), Text("in base"), Number(base, 0)):
            fits = value >= 0 and base.denominator == 1 and 2 <= base <= 10 and int(max(str(value))) < base
            return InBase(str(value), int(base)) if fits else phrase
    return phrase


def _combinations(part: Node) -> Node:
    """Return the binomial for `C(2n, n)` and `C_{2n}^n`."""
    match part:
        case Call("C", (total, some)):
            return Call("binom", (total, some))
        case Pow(Symbol(name), some) if lowered := _LOWERED.fullmatch(name):
            try:
                return Call("binom", (parse(lowered[1]), some))
            except ParseError:
                return part
    return part


def _is_true(sides: tuple[Node, ...], comparator: str) -> bool:
    """Return whether numbers stand in the order that the signs between them state."""
    work = WorkBudget(ANSWER_WORK)
    values = [approximation(side, work=work) for side in sides]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return False
    pairs = zip(known, known[1:], strict=False)
    return all((one < two) if comparator[0] == "<" else (one > two) for one, two in pairs if one != two or len(comparator) == 1)


def _is_operator(words: str, question: str) -> bool:
    r"""Return whether the question asks for what an operator is short for: `\operatorname{Var}(X)` for the variance of X."""
    short = words.strip().casefold()
    spelled = _SHORT.get(short, short)
    return len(spelled) > 2 and spelled.isalpha() and re.search(rf"\b{spelled}", question[:MAX_CHARS].casefold()) is not None


def _tuple(items: tuple[Node, ...]) -> Node:
    return Group("(", ")", items)


def _alike(gold: Node, answer: Relation) -> Node:
    """Return `x = 1, y = 1` for `x = y = 1` where the gold is a tuple of as many values."""
    *names, value = answer.sides
    wanted = gold.sides[-1] if isinstance(gold, Relation) and gold.comparators == ("=",) else gold
    letters = all(isinstance(name, Symbol) for name in names) and len(set(names)) == len(names) and not symbols(value)
    if not letters or not isinstance(wanted, Group) or wanted.opening != "(" or len(wanted.items) != len(names):
        return answer
    return Listing(tuple(Relation((name, value), ("=",)) for name in names))


def _mapped(gold: Node, left: Node, body: Node) -> Node | None:
    r"""Return `f(x) = x + 1` for `x \mapsto x + 1` and `f: x \mapsto x + 1`; None of another arrow: `x \to 5`."""
    name = gold.sides[0].name if isinstance(gold, Relation) and isinstance(gold.sides[0], Call) else "f"
    if isinstance(left, Relation) and left.comparators == (":",) and isinstance(left.sides[0], Symbol):
        name, left = left.sides[0].name, left.sides[1]
    if not isinstance(left, Symbol) or left.name not in symbols(body) or name in FUNCTIONS:
        return None
    return Relation((Call(name, (left,)), body), ("=",))


def _point(gold: Node, answer: Node) -> Node:
    """Return (2, -1) for P(2, -1), where the gold is a pair or a triple."""
    if not isinstance(gold, Group) or gold.opening != "(" or not isinstance(answer, Call):
        return answer
    point = re.fullmatch(r"[A-Z]'?(?:_\w)?", answer.name) and len(answer.args) == len(gold.items) > 1
    return _tuple(answer.args) if point else answer
