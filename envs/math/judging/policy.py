"""Options for matters of taste in comparing answers. An option that decides a verdict is named in the verdict's reason."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from verigym.envs.contract.base import Options


class Policy(Options):
    """Options that decide what counts as the same answer where mathematics alone does not."""

    percent: Literal["value", "gold", "either", "number"] = "gold"
    r"""When a percent sign may be missing. value: never, since 50\% is the value 1/2. gold: where the gold has one, or the
    question asks for a percentage. either: on either side. number: the sign is ignored, and 9\% is 9, not 0.09."""
    tolerance: float = Field(0.0, ge=0, lt=1)
    """Relative error allowed in real numbers, elements and interval ends too. 0 leaves only the rule of `decimals`."""
    decimals: Literal["exact", "double", "six"] = "six"
    r"""When a rounded decimal counts as the number it is rounded from. exact: never. double: with 15 significant digits,
    correctly rounded or within 2^-52. six: with at least six decimals and six significant digits, all correctly rounded
    (0.333333 for 1/3, not 0.333334, nor 0.3333). The same rule accepts an exact answer where the gold is such a decimal."""
    order: Literal["any", "gold"] = "any"
    """The order of several answers without brackets (`-2, 1`): free, or the gold's. Tuples have one, sets have none."""
    symmetry: Literal["both", "gold", "strict"] = "both"
    """Which forms of a set of reals go together: intervals and inequalities (both); an interval as the answer to an inequality,
    not the other way (gold); neither (strict)."""
    unsimplified: Literal["accept", "refuse"] = "accept"
    """Whether 2/4 is right for 1/2, 5.0 for 5, (x-1)(x+1) for x^2-1; and 2+3 for 5 where `unworked` lets it stand."""
    echo: Literal["refuse", "accept"] = "refuse"
    """Whether an answer may hand back what the question asks to work out: (x-1)(x+1) where that is to be expanded."""
    unworked: Literal["refuse", "arithmetic", "accept"] = "refuse"
    r"""Whether work may be left to do. With refuse, if a question is given, a number must be worked out: `17 \cdot 23` is
    refused for 391. With arithmetic (for evaluation) such numbers are accepted; still refused are an integral, limit, sum,
    product, derivative, gcd, mod, floor, determinant or maximum for a gold that has none (`\int_0^1 x^2 dx` for 1/3), and an
    inequality that is not solved (`3x < 6` for x < 2). With accept all are accepted."""
    units: Literal["match", "ignore", "require"] = "match"
    """A unit may be missing but not differ (match); does not matter (ignore); has to be there if the gold has one (require)."""
    commas: Literal["thousands", "decimal"] = "thousands"
    """Whether `1000,99` and `1,22` are lists (or errors) or decimals. `1,234` always has thousands, and `0,5` is a decimal."""
    words: Literal["loose", "exact"] = "loose"
    """Whether case and a leading article of words matter: `a cat` is `Cat` (loose)."""
    name: Literal["optional", "required", "any"] = "optional"
    """The name in `x = 5`. optional: it may be missing but not differ; y and f(x) are the same name, and so are f(x) and f(t).
    required: it has to be the gold's. any: it does not matter."""
    chains: Literal["equal", "last"] = "equal"
    """Which sides of `x = 2 + 3 = 5` have to be right: all of them, or only the last. With last, `4 = 5` is right for 5."""
    brackets: Literal["optional", "required"] = "optional"
    """Whether `1, 2, 3` in the written order is right for `(1, 2, 3)`, and the other way round."""
    vectors: Literal["any", "written"] = "any"
    """Whether a tuple is right for a row or column vector of the same elements, or a sum of unit vectors (`2i - 3j`), and
    the other way round."""
    bases: Literal["written", "value"] = "written"
    """Whether `204_5` has to be given in its base, or may be given as 54."""
    max_values: int = Field(100, ge=1, le=1000)
    """An answer of more values is not read: the status is limit. Where the gold has more, its count is the limit."""
