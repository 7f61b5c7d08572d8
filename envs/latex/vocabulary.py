r"""The vocabulary of formulas: functions, constants, connectives, number words; and whether a run of letters is a word.

Inside `\text` and outside `$...$` every run of letters is a word. In formulas TeX reads `abc` as a product, but models omit
`\text`, so these rules apply:
- Known functions, constants, Greek letters and connectives keep their meaning (`sin`, `pi`, `or`).
- Several capitals are one name (`APC`), except two capitals that also stand alone elsewhere (`RC+R+C`).
- A capital before small letters starts a word (`Evelyn`).
- Small letters are a product if they go up the alphabet in steps of at most two (`abc`, `xyz`, `def`). Otherwise they are a
  word if there are five or more with a vowel among them, or three or four with a vowel and no operator beside them.
- A function's name followed by one or two letters is that function of a variable (`sinx`, `lnx`), except for English words.
"""

from __future__ import annotations

import re

FUNCTIONS = {
    **{name: name for name in (
        "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh exp ln log lg det arg gcd lcm max min floor ceil "
        "abs binom sqrt cbrt deg dim ker cis").split()},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "tg": "tan", "ctg": "cot", "arctg": "arctan", "cosec": "csc",
    "ceiling": "ceil", "sign": "sign", "hcf": "gcd", "sgn": "sign", "factorial": "factorial",
    "Arcsin": "arcsin", "Arccos": "arccos", "Arctan": "arctan", "Log": "log", "Ln": "ln", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "LCM": "lcm", "GCD": "gcd", "gcf": "gcd", "Re": "re", "Im": "im", "comb": "binom",
}  # fmt: skip
CONSTANTS = {
    "pi": "pi",
    "inf": "infinity",
    "infinity": "infinity",
    "infty": "infinity",
    "oo": "infinity",
    "Infinity": "infinity",
}
GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()
)
PERCENT = frozenset("percent pct percentage percents".split())
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "lakh": 10**5,
          "crore": 10**7,
          "万": 10**4, "亿": 10**8, "百万": 10**6, "千": 10**3}  # fmt: skip
CONNECTIVES = {
    "and": "and",
    "or": "or",
    "或": "or",
    "或者": "or",
    "和": "and",
    "且": "and",
    "与": "and",
    "及": "and",
    "以及": "and",
}
DAY_HALVES = {"am": "am", "pm": "pm", "a.m": "am", "p.m": "pm", "a.m.": "am", "p.m.": "pm"}
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
NUMBER_WORDS = {name: value for value, name in enumerate(_NUMBERS.split())}

NOT_UNITS = frozenset(
    "maybe perhaps possibly probably not likely unsure sure guess or and if for where when with is are was were be the a an "
    "but so since because then thus hence therefore as that which some any all no each every from to than by at of in on "
    "approximately about roughly nearly almost around either neither nor both also wait hmm i it we you this these those "
    "answer correct wrong true false yes would could should might may can cannot must only else otherwise unless except".split()
)
"""Words that are never units, since they begin a condition, express a doubt or belong to a sentence."""

ALWAYS_WORDS = frozenset("yes no Yes No true false none odd even all any not never undefined YES NO TRUE FALSE NONE".split())
_SHORT_WORDS = frozenset("is of if no an be by we it at to so us my he".split())
_VOWELS = frozenset("aeiouyAEIOUY")
_PREFIX = re.compile(
    r"(arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|sqrt|exp)([a-zA-Z]{1,2})(?![a-zA-Z])"
)
_ENGLISH = frozenset("cost tank tang sing sink sine since cosine logo logs lone sects tans expo single expel".split())


def split_function(run: str) -> tuple[str, str] | None:
    """Return `sinx` as (`sin`, `x`)."""
    match = _PREFIX.fullmatch(run)
    return (match.group(1), match.group(2)) if match and run not in _ENGLISH else None


def is_product(run: str) -> bool:
    """Return whether the letters of `run` ascend the alphabet in small steps, as in a product of variables."""
    return all(0 < ord(after) - ord(before) <= 2 for before, after in zip(run, run[1:], strict=False))


def is_word(run: str, before: str, after: str) -> bool:
    """Return whether `run`, two or more letters in a formula, is a word.

    `before` and `after` are the nearest printed characters on either side.
    """
    if run in ALWAYS_WORDS:
        return True
    size = len(run)
    if size == 2:
        return run.lower() in _SHORT_WORDS and before not in _TIGHT and after not in _TIGHT
    if _VOWELS.isdisjoint(run):
        return False
    if run[0].isupper() and run[1:].islower():
        return True
    if not run.islower():
        return size >= 5 and not run.isupper()
    if is_product(run):
        return False
    return size >= 5 or (before not in _TIGHT and after not in _TIGHT)


_TIGHT = frozenset("+-*/^_<>{}\\|")
