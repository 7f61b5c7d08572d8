"""The `math` environment: compares the final answer with the gold, in tiers from cheap and certain to costly.

The gold is the correct answer of the task. The first tier that can decide gives the verdict:
- equal spelling;
- the parsed trees, compared by the type of the gold (`judging/compare.py`): exact values, canonical forms, values at points;
- SymPy on the trees, in a process that can be killed;
- with the option `math_verify`, Math-Verify.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator

from verigym.envs.contract.base import BaseEnvironment
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score
from verigym.envs.extraction.methods import Extraction, Method, extract, strip_thinking
from verigym.envs.extras import install
from verigym.envs.math.judging.golds import GoldBoxes, explain_gold, gold_text, read
from verigym.envs.math.judging.tiers import Answer, Decision, TierOptions, Tiers
from verigym.envs.math.reading.spelling import mended, spelled, unescaped, unlabelled
from verigym.envs.math.tree import Listing, ParseError

_GOLD_FORMS: dict[Method, str] = {
    "boxed": r"\boxed{%s}",
    "hash": "#### %s",
    "final": "The final answer is $%s$.",
    "label": "A: %s",
    "last": "$%s$",
}


class MathReference(Reference):
    """The correct answer of a task, or several alternatives of which any is right."""

    answer: str | tuple[str, ...]
    r"""The gold: a number, or a text, plain or in `$...$`, `\(...\)` or `\boxed{...}`. A list holds alternatives, each of which
    is right."""

    @field_validator("answer", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(_number_as_text(item) for item in value)
        return _number_as_text(value)

    @field_validator("answer")
    @classmethod
    def _not_blank(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value or not all(spelled(gold) for gold in ([value] if isinstance(value, str) else value)):
            raise ValueError("the gold is empty; give the answer as text, a number, or a list of these")
        return value

    @property
    def golds(self) -> tuple[str, ...]:
        """All correct answers."""
        return (self.answer,) if isinstance(self.answer, str) else self.answer


def _number_as_text(value: Any) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("the gold is no finite number")
    return repr(value)


class MathOptions(TierOptions):
    """Options for extracting and comparing answers."""

    extract: tuple[Method, ...] = Field(("boxed",), min_length=1)
    """Where the answer stands: boxed, hash (after ####), final (after "final answer is"), label (after A: or Answer:) or last
    (the last number or formula). With a list of these, the first that finds an answer counts."""
    gold_boxes: GoldBoxes = "row"
    """Which boxes count if a gold has several. row: the last box, with the boxes before it that are joined to it by a comma,
    `and`, `or` or nothing. last: only the last box. all: all boxes."""
    labels: bool = False
    """Whether words that announce an answer may stand in the box with it: `Answer: 9`."""
    escapes: bool = False
    r"""Whether to mend texts in which `\t` and `\f` became control characters, so that `\text` lost its backslash."""
    string_tier: bool = True
    """Whether an answer spelled like the gold is right at once. If false, the later tiers judge it too, so that
    `verigym validate`, which submits golds as answers, tests these tiers."""
    max_answer_chars: int = Field(2000, gt=0, le=20_000)
    """A longer answer is not read: the status is limit."""

    @field_validator("extract", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class MathEnvironment(BaseEnvironment[MathReference, MathOptions]):
    """Grades the final answer to a mathematical problem."""

    name = "math"
    version = "11"
    reference_type = MathReference
    options_type = MathOptions

    def check(self) -> None:
        """Check that the packages that the options require are installed."""
        for option, wanted, module, remedy in (
            ("symbolic", self.options.symbolic, "sympy", "pip install sympy"),
            ("math_verify", self.options.math_verify, "math_verify", install("math_verify")),
        ):
            if wanted and importlib.util.find_spec(module) is None:
                raise EnvironmentFailure("unavailable", f"option {option} needs {module}, which is not installed; {remedy}")

    def examples(self) -> Sequence[Prompt]:
        """Return one example task for each kind of answer."""
        tasks = {
            "What is 17 * 23?": "391",
            "What is the positive root of x^2 = 2?": r"\sqrt{2}",
            "Solve x^2 = 4.": r"\{-2, 2\}",
            "For which x is |x - 2| < 1?": "(1, 3)",
            "Is 91 prime?": r"\text{No}",
        }
        return tuple(self.prompt(question, answer=answer) for question, answer in tasks.items())

    def prepare(self) -> None:
        """Import mpmath for the numerical comparison. Processes for symbolic comparison start at their first request."""
        importlib.import_module("mpmath")

    def gold(self, prompt: Prompt) -> str:
        """Return the first correct answer of `prompt`, written in the form that the option `extract` looks for."""
        text = gold_text(self._unescaped(self.reference(prompt).golds[0]), self.options.gold_boxes)
        return _GOLD_FORMS[self.options.extract[0]] % " ".join(text.split())

    def audit(self, prompt: Prompt) -> str | None:
        """Return a message that says which correct answers of `prompt` cannot be read, why, and what to do; None if all can."""
        reasons = [explain_gold(self._unescaped(gold), self.options.gold_boxes) for gold in self.reference(prompt).golds]
        return "; ".join(reason for reason in reasons if reason) or None

    def judge(self, prompt: Prompt, reference: MathReference, completion: Completion) -> Score:
        """Extract the answer from `completion`, compare it with each gold of `reference` in tiers, and return the score."""
        extracted = self._extract(completion)
        if isinstance(extracted, Score):
            return extracted
        if extracted.part:
            reason = f"the box holds only a part of what is stated, {extracted.part!r}; box all of the answer"
            return Score.incorrect(answer=extracted.text, reason=f"{extracted.method}: {reason}")
        text = self._mended(extracted.text)
        if not spelled(text):
            return Score.no_answer(reason=f"{extracted.method}: the answer is empty")
        call = Tiers(self.options, prompt.text, prompt.key)
        answer: Answer | None = None
        failure: EnvironmentFailure | None = None
        wrong = Decision(False, "no tier could tell it from a wrong answer")
        for written in reference.golds:
            gold = self._mended(gold_text(self._unescaped(written), self.options.gold_boxes))
            if self.options.string_tier and not extracted.row and not extracted.after and spelled(gold) == spelled(text):
                return Score.correct(answer=extracted.text, reason=f"{extracted.method}: the gold's text")
            answer = answer or self._read(text, extracted)
            try:
                decision = call.decide(gold, answer)
            except EnvironmentFailure as error:
                failure = error  # another of the golds may still be right
                continue
            if decision.correct:
                return Score.correct(answer=extracted.text, reason=f"{extracted.method}: {decision.reason}")
            wrong = decision
        if failure:
            raise failure
        if wrong.limit:
            return Score.limit(answer=extracted.text, reason=f"{extracted.method}: {wrong.reason}")
        return Score.incorrect(answer=extracted.text, reason=f"{extracted.method}: {wrong.reason}")

    def _unescaped(self, text: str) -> str:
        return unescaped(text) if self.options.escapes else text

    def _mended(self, text: str) -> str:
        text = mended(text)
        return unlabelled(text) if self.options.labels else text

    def _read(self, text: str, extracted: Extraction) -> Answer:
        comma = self.options.commas == "decimal"
        tree = read(text, comma)
        blank = "" if extracted.after.startswith("_") else " "
        extended = read(text + blank + extracted.after, comma) if extracted.after else None
        row = extracted.row
        boxes = [read(self._mended(box), comma) for box in row.boxes] if row else []
        broken = next((box for box in boxes if isinstance(box, ParseError)), None)
        if broken is not None and row is not None and not row.loose:
            return Answer(text, broken)
        values = tuple(box for box in boxes if not isinstance(box, ParseError))
        whole = Listing(values, row.joiner) if row and len(values) == len(boxes) else None
        return Answer(
            text,
            tree,
            None if isinstance(extended, ParseError) else extended,
            whole,
            bool(row and row.loose),
            bool(row and row.offered),
        )

    def _extract(self, completion: Completion) -> Extraction | Score:
        body = strip_thinking(self._unescaped(completion.text))
        extracted = None if body is None else extract(body, self.options.extract)
        if extracted is not None:
            if len(extracted.text) > self.options.max_answer_chars:
                length = f"the answer has {len(extracted.text)} characters, over {self.options.max_answer_chars}"
                return Score.limit(answer=extracted.text[:100], reason=f"{extracted.method}: {length}")
            return self._limited(extracted)
        wanted = " or ".join(self.options.extract)
        reason = f"the thinking never closes, so no {wanted} answer" if body is None else f"no {wanted} answer"
        if completion.cut_off:
            return Score.truncated(reason=f"cut off by the token limit: {reason}")
        return Score.no_answer(reason=reason)

    def _limited(self, extracted: Extraction) -> Extraction | Score:
        """Refuse a row of boxes that is too long; a row with words in it is reduced to its last box."""
        row = extracted.row
        if row is None:
            return extracted
        chars = sum(map(len, row.boxes))
        if chars <= self.options.max_answer_chars:
            return extracted
        if row.loose:
            return extracted._replace(row=None)
        return Score.limit(
            answer=extracted.text[:100],
            reason=f"{extracted.method}: a row of boxes with {chars} characters, over {self.options.max_answer_chars}",
        )
