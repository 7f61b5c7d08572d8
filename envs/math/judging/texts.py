"""Compares answers in words: names, choices, yes and no; finds words that take an answer back or add a second answer."""

from __future__ import annotations

import re

from verigym.envs.math.judging.case import Case
from verigym.envs.math.tree import (
    Constant,
    Ellipsis,
    Group,
    Listing,
    Mul,
    NamedSet,
    Node,
    Phrase,
    Relation,
    Symbol,
    Text,
    Verdict,
    walk,
)

_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|either|neither|nor|not|or|if|unless|instead|wait|unsure|guess|answers?|might|"
    r"could|except|but|false|wrong|no)\b",
    re.IGNORECASE,
)
_NUMBER_WORD = re.compile(
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|billion|half|quarter|"
    r"(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|hundred|thousand|million)ths?)\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:an?|the) (?=\S)")
_THERE = re.compile(r"^(?:(?:the )?equation has|there (?:is|are|exists?)) (?=no )|(?<=solution) exists$|(?<=solutions) exist$")
_CHOICE = re.compile(r"(?:(?:option|choice) )?\(?([A-Z])\)?", re.IGNORECASE)
_CHOICE_WORDS = frozenset(map(Text, ("option", "Option", "choice", "Choice")))
CHOICES = frozenset("ABCDEFGH")
MAX_NAME_CHARS = 60


def hedges(words: str) -> bool:
    """Return whether `words` take back or extend the answer beside them."""
    return _HEDGE.search(words) is not None or _NUMBER_WORD.search(words) is not None or any(c.isdigit() for c in words)


def takes_back(words: str) -> bool:
    """Return whether `words` take back the answer beside them."""
    return _HEDGE.search(words) is not None


def names_something(words: str) -> bool:
    """Return whether `words`, which stand before an equals sign, can name the result: `Area`, `the number of ways`."""
    return len(words) <= MAX_NAME_CHARS and any(c.isalpha() for c in words) and not hedges(words)


def words_of(node: Node) -> str | None:
    """Return the words that `node` may be read as; None if there are none.

    `node` may be a text, or letters in a row, such as `even` parsed as a product.
    """
    if isinstance(node, Text):
        return node.words
    if isinstance(node, Symbol | Constant):
        return node.name
    if isinstance(node, Mul):
        parts = [part.name if isinstance(part, Symbol | Constant) and len(part.name) == 1 else "" for part in node.factors]
        return "".join(parts) if all(parts) else None
    if isinstance(node, Phrase):
        words = [words_of(part) for part in node.parts]
        return " ".join(word for word in words if word) if all(words) else None
    return None


_NOTHING = frozenset(
    ("no solution", "no solutions", "no real solution", "no real solutions", "none", "empty set", "no such solution",
     "no answer exists", "no values", "no value", "no real root", "no real roots", "no real values",
     "无解", "无实数解", "无实根", "空集", "不存在这样的数")
)  # fmt: skip
_UNDEFINED = frozenset(
    ("undefined", "dne", "d.n.e", "nexists", "does not exist", "doesn't exist", "doesn’t exist", "not defined",
     "limit does not exist", "不存在", "无定义", "未定义")
)  # fmt: skip
_TRUTHS = frozenset(("true", "false"))
_TRUE_OR_FALSE = re.compile(r"\btrue\b.{0,40}\bfalse\b|\bT\b.{0,40}\bF\b", re.IGNORECASE | re.DOTALL)
_VERBS = re.compile(r"\b(converg|diverg)(?:es?|ent|ing)\b")
_NOUN = re.compile(
    r"(?P<first>[^ ]+) (?P<after>function|series|sequence|integral|number|triangle|matrix|graph)"
    r"|(?P<before>quadrant|player|point|line|figure|graph|team|city|station) (?P<last>[^ ]+)"
)
_EVERYTHING = frozenset(
    ("all real numbers", "all reals", "real numbers", "set of all real numbers", "set of real numbers", "any real number",
     "every real number", "all real values")
)  # fmt: skip
_SETS = {"Z": "integers", "Q": "rational numbers", "N": "natural numbers", "C": "complex numbers"}
_INFINITE = re.compile(r"infinite(?:ly many| number of| amount of)?(?: \w+)?")


def says_set(node: Node, named: Node) -> bool:
    """Return whether the words `node` denote the set `named`, as `all integers` does."""
    if not isinstance(node, Text) or not isinstance(named, NamedSet) or named.name not in _SETS:
        return False
    words = _SETS[named.name]
    return _loose(node.words) in (words, f"all {words}", f"every {words[:-1]}", f"set of {words}", f"set of all {words}")


def says_infinite(node: Node) -> bool:
    """Return whether `node` consists of words for infinitely many."""
    return isinstance(node, Text) and _INFINITE.fullmatch(_loose(node.words)) is not None


def says_zero(node: Node) -> bool:
    """Return whether `node` is a word for zero things."""
    return isinstance(node, Text) and _loose(node.words) in ("none", "zero")


def says_nothing(node: Node) -> bool:
    """Return whether `node` consists of words for having no solution: `no solution`, `none`, `empty set`."""
    return isinstance(node, Text) and _nothing(_loose(node.words)) in _NOTHING


def says_everything(node: Node) -> bool:
    """Return whether `node` consists of words for all real numbers being solutions: `all real numbers`."""
    return isinstance(node, Text) and _loose(node.words) in _EVERYTHING


def same_words(case: Case, gold: str, answer: str) -> Verdict:
    """Compare the answers in words `gold` and `answer` as texts, and return the verdict.

    With the policy `words=loose`, case, a leading article, quotes and a full stop do not matter.
    """
    if _plain(gold) == _plain(answer):
        return "same"
    one, two = _loose(gold), _loose(answer)
    alike = one == two or any(one in words and two in words for words in (_UNDEFINED, _EVERYTHING))
    alike = alike or all(_INFINITE.fullmatch(words) for words in (one, _counted_infinity(two, case.question)))
    alike = alike or _briefly(one, case.question) == _briefly(two, case.question)
    alike = alike or (_nothing(one) in _NOTHING and _nothing(two) in _NOTHING)
    truth = one in _TRUTHS and two == one[0] and _TRUE_OR_FALSE.search(case.question) is not None
    if (len(gold) > 1 and len(answer) > 1 and alike) or truth:
        return case.decided("words", case.policy.words == "loose", "the words differ")
    return case.refuse("other words than the gold's")


def _counted_infinity(words: str, question: str) -> str:
    """Return `infinitely many` for `infinity` where the question counts."""
    return "infinitely many" if words == "infinity" and re.search("how many|number of", question, re.IGNORECASE) else words


def _briefly(words: str, question: str) -> str:
    """Return loose words in one form of the verb and without a noun of the question: `odd function`, `quadrant II`."""
    words = _VERBS.sub(lambda verb: verb[1], words)
    noun = _NOUN.fullmatch(words)
    said = noun and re.search(rf"\b{noun['after'] or noun['before']}", question, re.IGNORECASE)
    return (noun["first"] or noun["last"]) if noun and said else words


def _nothing(words: str) -> str:
    """Return loose words without phrases of non-existence: `there are ... `, `... exist`."""
    return _THERE.sub("", words)


def _plain(words: str) -> str:
    return " ".join(words.strip(" .,;:!\"'").split())


def _loose(words: str) -> str:
    return _ARTICLE.sub("", _plain(words).casefold())


def choice_of(node: Node) -> str | None:
    r"""Return the capital letter of the choice that `node` names; None if it names none.

    Accepted are `E`, `\text{(E)}`, `(E) 12` and `option E`.
    """
    if isinstance(node, Symbol | Text):
        match = _CHOICE.fullmatch(node.name if isinstance(node, Symbol) else node.words)
        return match.group(1) if match and match.group(1).isupper() else None
    if isinstance(node, Phrase) and len(node.parts) == 2 and node.parts[0] in _CHOICE_WORDS:
        return choice_of(node.parts[1]) if isinstance(node.parts[1], Symbol) else None
    label = labelled(node)
    return label[0] if label else None


def labelled(node: Node, *, lists: bool = False) -> tuple[str, Node] | None:
    """Split a labelled answer, such as `(E) 12`, `E: 12` or `E. none of these`, into the letter and its text.

    Args:
        node: the tree of an answer.
        lists: whether the text may be a list without brackets.

    Returns:
        The letter and the tree of its text; None if `node` is not such a pair.
    """
    pair = None if isinstance(node, Mul) else lettered(node)
    return pair if pair and _is_label_text(pair[1], lists) else None


def lettered(node: Node) -> tuple[str, Node] | None:
    """Split `node` into the letter of a choice and any text after the letter; None if it cannot be split.

    Examples are `(B) no`, and `(B) (2,3)`, which is parsed as a product.
    """
    match node:
        case Phrase((Symbol() as label, rest)) | Relation((Symbol() as label, rest), (":",)):
            letter = choice_of(label)
        case Mul((Symbol() as label, Group() as rest)):
            letter = choice_of(label)
        case _:
            return None
    return (letter, rest) if letter is not None and letter in CHOICES else None


def names_choices(gold: Node, answer: Node) -> bool:
    """Return whether `gold` and `answer` are both only letters of choices."""
    items = [item for node in (gold, answer) for item in (node.items if isinstance(node, Listing) else (node,))]
    return all(choice_of(item) is not None or lettered(item) is not None for item in items)


def without_letters(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both trees, with the letter in a tree such as `(E) 12` removed if the other tree is a plain value."""
    left, right = labelled(gold, lists=True), labelled(answer, lists=True)
    if left and not right and choice_of(answer) is None:
        return left[1], answer
    if right and not left and choice_of(gold) is None:
        return gold, right[1]
    return gold, answer


def _is_label_text(node: Node, lists: bool) -> bool:
    """Whether what stands after a label is what a choice may say: no doubt, no dots, and no second label, alone or in it."""
    if isinstance(node, Symbol) or (isinstance(node, Listing) and not lists):
        return False
    for part in walk(node):
        if isinstance(part, Text) and (takes_back(part.words) or re.search(r"\b[A-Z]\b", part.words)):
            return False
        if isinstance(part, Ellipsis) or (isinstance(part, Symbol) and part.name in CHOICES):
            return False
        if isinstance(part, Relation) and ":" in part.comparators and choice_of(part.sides[0]) is not None:
            return False
    return True
