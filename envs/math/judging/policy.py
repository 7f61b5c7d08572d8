"""Options for matters of taste in comparing answers. An option that decides a verdict is named in the verdict's reason."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from verigym.envs.contract.base import Options


class Policy(Options):
    """Options that decide what counts as the same answer where mathematics alone does not."""

    percent: Literal["value", "gold", "either", "number"] = "gold"
    r"""When a percent sign that only the gold or only the answer has may be ignored. value: never, since 50\% is the value 1/2.
    gold: if it is the gold that has the sign, or if the question asks for a percentage. either: always. number: always, and 9\%
    is then only 9, not 0.09."""
    tolerance: float = Field(0.0, ge=0, lt=1)
    """Error allowed in real numbers, relative to the gold; also in elements of lists and in ends of intervals. With 0, only the
    option `decimals` accepts rounded numbers."""
    decimals: Literal["exact", "double", "six"] = "six"
    r"""When a rounded decimal is right for the exact number. exact: never. double: if it has at least 15 significant digits and
    is correctly rounded or within 2^-52 of the number. six: if it has at least six decimal places and six significant digits
    and is correctly rounded: 0.333333 for 1/3, but not 0.333334 or 0.3333. If the gold is such a decimal, the exact number is
    right too."""
    order: Literal["any", "gold"] = "any"
    """Whether several answers without brackets (`-2, 1`) may come in any order, or must be in the gold's order. The elements of
    a tuple are always ordered, those of a set never."""
    symmetry: Literal["both", "gold", "strict"] = "both"
    """Whether a set of reals may be written in another form than the gold. both: an interval is right for an inequality, and an
    inequality for an interval. gold: only an interval is right for an inequality. strict: neither is."""
    unsimplified: Literal["accept", "refuse"] = "accept"
    """Whether less simplified answers are right: 2/4 for 1/2, 5.0 for 5, (x-1)(x+1) for x^2-1, and, if `unworked` also accepts
    it, 2+3 for 5."""
    echo: Literal["refuse", "accept"] = "refuse"
    """Whether an answer may repeat what the question asks to work out: (x-1)(x+1), if the question asks to expand it."""
    unworked: Literal["refuse", "arithmetic", "accept"] = "refuse"
    r"""Whether an answer may leave work to be done. arithmetic (for evaluation): an answer is refused if it has an integral,
    limit, sum, product, derivative, gcd, mod, floor, determinant or maximum and the gold has none of these (`\int_0^1 x^2 dx`
    for 1/3), or if it is an inequality that is not solved (`3x < 6` for x < 2). refuse: if a question is given, numbers must
    also be worked out: `17 \cdot 23` is refused for 391. accept: nothing is refused."""
    units: Literal["match", "ignore", "require"] = "match"
    """How units are compared. match: a unit may be missing but must not differ. ignore: units do not matter. require: the
    answer must have a unit if the gold has one."""
    commas: Literal["thousands", "decimal"] = "thousands"
    """How `1000,99`, `1,22` and `0,5` are read: as lists of two numbers (thousands), or as decimals (decimal). In both cases,
    `1,234` is one number with a comma for thousands, and `0,05` and `0,123` are decimals."""
    words: Literal["loose", "exact"] = "loose"
    """Whether case and a leading article matter in answers of words. loose: they do not, so that `a cat` is right for `Cat`.
    exact: they do."""
    name: Literal["optional", "required", "any"] = "optional"
    """How names such as the x in `x = 5` are compared. optional: a name may be missing but must not differ; y and f(x) count as
    the same name, and so do f(x) and f(t). required: the answer must have the gold's name. any: names do not matter."""
    chains: Literal["equal", "last"] = "equal"
    """Which sides of `x = 2 + 3 = 5` have to be right: all of them, or only the last. With last, `4 = 5` is right for 5."""
    brackets: Literal["optional", "required"] = "optional"
    """Whether `1, 2, 3` is right for `(1, 2, 3)`, and `(1, 2, 3)` for `1, 2, 3`. The order counts in both cases."""
    vectors: Literal["any", "written"] = "any"
    """Whether a tuple is right for a row or column vector of the same elements, or a sum of unit vectors (`2i - 3j`), and
    the other way round."""
    bases: Literal["written", "value"] = "written"
    """Whether `204_5` has to be given in its base, or may be given as 54."""
    max_values: int = Field(100, ge=1, le=1000)
    """Maximum number of values in an answer, or the gold's number of values if that is greater. An answer with more values is
    not compared, and the status is limit."""
