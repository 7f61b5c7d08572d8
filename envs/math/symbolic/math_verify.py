"""Compares two texts by Math-Verify. Imported only in a worker process, since Math-Verify passes texts to SymPy's parser."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from typing import Any

from verigym.envs.extras import install

SIGNIFICANT = 1e-13  # a decimal stands for an irrational gold only if it is right to the precision of a double

# One text for every construction the parser knows: it learns its decisions on first meeting, and forks inherit them.
WARM_UP = (
    r"\frac{1}{2}", r"-\frac{3\sqrt{7}}{5}", r"\sqrt{2}+\sqrt[3]{x}", "x^2-3x+1", r"(x-1)(x+2)^2", r"2\pi r^2", "[0,1)",
    r"(-\infty,2]\cup(3,\infty)", r"\{1,2,-3\}", "2,1,x", "x=5", "y=2x+1", "x<3", r"1\le x\le 2", r"x\ge-2", "3+4i", "0.5x",
    "5!", r"\begin{pmatrix}1&-2\\3&4\end{pmatrix}", r"e^{i\pi}", r"\binom{5}{2}", r"\text{even}", r"90^\circ", r"5\%",
    r"\infty", "x_1", r"\sin\theta\cos(2x)", r"\log_2 8+\ln x", r"(3,-1,\frac{\pi}{2})", r"1\pm\sqrt{19}", r"|x|", "2^{-n}",
    r"\frac{x^2+1}{y-2}", r"2\cdot10^{3}", "f(x)=x^2", r"\sum_{k=1}^{n}k", "a/b", r"3\sqrt{2}-\frac{\pi}{4}",
)  # fmt: skip


def load() -> Callable[[bytes], bytes]:
    """Import Math-Verify, warm its caches, and return a function that compares two LaTeX texts.

    The function takes a JSON object with both texts, and returns a JSON object with the result.

    Raises:
        ImportError: Math-Verify is not installed; the message says what to install.
    """
    try:
        from latex2sympy2_extended import NormalizationConfig
        from math_verify import LatexExtractionConfig, parse, verify
    except ImportError as error:
        raise ImportError(f"math-verify is not installed ({error}): {install('math_verify')}") from error

    # LaTeX only: the plain-expression extractor goes through SymPy's string parser. No units: "5m" is not 5.
    config = LatexExtractionConfig(
        boxed_match_priority=-1,
        normalization_config=NormalizationConfig(
            basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
        ),
    )

    def read(text: str) -> list[Any]:
        # No timeouts of its own, which are signals: the deadline is the kill.
        values: list[Any] = parse(f"$${text}$$", [config], fallback_mode="no_fallback", parsing_timeout=None)
        return [imaginary(value) for value in values]

    def equal(gold: list[Any], answer: list[Any]) -> bool:
        # 6 digits and 15 digits, the defaults, make 1e-7 equal 2e-7 and 2^-99 equal 2^-98.
        same = verify(gold, answer, float_rounding=10, numeric_precision=100, timeout_seconds=None)
        return bool(same) and near(gold[0], answer[0])

    def compare(payload: bytes) -> bytes:
        request = json.loads(payload)
        gold, answer = read(request["gold"]), read(request["answer"])
        same = bool(gold and answer) and equal(gold, answer)
        return json.dumps({"gold": bool(gold), "answer": bool(answer), "equal": same}).encode()

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for text in WARM_UP:
        compare(json.dumps({"gold": text, "answer": text}).encode())
    compare(json.dumps({"gold": r"\tan^2(y)+1", "answer": r"\sec^2(y)"}).encode())
    return compare


def near(gold: Any, answer: Any) -> bool:
    """Return whether the constants `gold` and `answer` agree to thirteen significant digits.

    The result is True if either is not a real constant. The check is needed because Math-Verify takes tiny numbers for zero,
    so that 1/2004! would equal 1/2006!.
    """
    if not (getattr(gold, "is_number", False) and getattr(answer, "is_number", False)):
        return True
    left, right = gold.evalf(40), answer.evalf(40)
    if not all(value.is_Float or value.is_Rational for value in (left, right)):
        return True
    if any(value.is_Float and value._prec == 1 for value in (left, right)):
        return True  # zero except for rounding noise, so there is nothing to compare
    return bool(abs(left - right) <= max(abs(left), abs(right)) * SIGNIFICANT)


def imaginary(value: Any) -> Any:
    """Return `value` with every free `i` replaced by the imaginary unit. Math-Verify's parser makes `i` a variable."""
    from sympy import I

    units = [symbol for symbol in getattr(value, "free_symbols", ()) if symbol.name == "i"]
    return value.xreplace(dict.fromkeys(units, I)) if units else value
