r"""The `math` environment: is the final answer the gold? Tiers from cheap and certain to costly: text, exact numbers, symbols.

A tier sees one gold and one answer, and says right, wrong, or nothing; the first that speaks decides. A new tier is one
function in `MathEnvironment.tiers`. Before the symbolic tier stand two guards, against an answer that repeats the question and
against one that hedges (`shape.py`), because a computer algebra system accepts both.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from verigym.envs import exact, symbolic
from verigym.envs.base import BaseEnvironment, Options
from verigym.envs.copied import hands_back
from verigym.envs.errors import EnvironmentFailure
from verigym.envs.exact import PercentPolicy
from verigym.envs.extract import Extraction, Method, box_spans, extract, row_of_boxes, strip_thinking
from verigym.envs.mathtext import canonical, clean, split_unit, words
from verigym.envs.schema import Completion, Prompt, Reference, Score
from verigym.envs.shape import elements, shape, split_top

_GOLD_FORMS: dict[Method, str] = {
    "boxed": r"\boxed{%s}",
    "hash": "#### %s",
    "final": "The final answer is $%s$.",
    "label": "A: %s",
    "last": "$%s$",
}


class MathReference(Reference):
    """What the answer is compared with."""

    answer: str | tuple[str, ...]
    r"""The gold: plain, in `$...$`, `\(...\)` or `\boxed{...}`; or a number. A list means that any of them is right."""

    @field_validator("answer", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(_number_as_text(item) for item in value)
        return _number_as_text(value)

    @field_validator("answer")
    @classmethod
    def _not_blank(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value or not all(clean(gold) for gold in ([value] if isinstance(value, str) else value)):
            raise ValueError("the gold is empty; give the answer as text, a number, or a list of these")
        return value

    @property
    def golds(self) -> tuple[str, ...]:
        """Every answer that is right."""
        return (self.answer,) if isinstance(self.answer, str) else self.answer


def _number_as_text(value: Any) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("the gold is no finite number")
    return repr(value)


class MathOptions(Options):
    """How answers are found and compared."""

    extract: tuple[Method, ...] = Field(("boxed",), min_length=1)
    """Where the answer stands: boxed, hash (####), final ("final answer is"), label (A:, Answer:), last; or a list of these."""
    string_tier: bool = True
    """Whether equal text settles it. Off, a gold must pass the deeper tiers against itself (`verigym validate`)."""
    symbolic: bool = True
    """Whether Math-Verify, in a separate process, compares what is no literal number. Off, 17*23 is not 391."""
    percent: PercentPolicy = "gold"
    """When a percent sign may be missing: never (value), where the gold has one (gold), on either side (either)."""
    symbolic_timeout_s: float = Field(5.0, gt=0, le=600)
    """CPU seconds for one comparison."""
    symbolic_memory_mb: int = Field(1024, ge=256)
    """Address space for one comparison."""
    max_answer_chars: int = Field(2000, gt=0, le=20_000)
    """A longer answer is not read: the status is limit."""

    @field_validator("extract", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class Decision(NamedTuple):
    """A tier's word on one answer."""

    correct: bool
    reason: str


Tier = Callable[[str, str], Decision | None]


class MathEnvironment(BaseEnvironment[MathReference, MathOptions]):
    """Grades a final mathematical answer."""

    name = "math"
    version = "1"
    reference_type = MathReference
    options_type = MathOptions

    def tiers(self, question: str) -> Sequence[Tier]:
        """Return the tiers in the order in which they are asked; each takes a cleaned gold and a cleaned answer."""
        tiers: list[Tier] = [_same_text] if self.options.string_tier else []
        tiers += [_same_words, lambda gold, answer: _copied(question, gold, answer), self._exact]
        if self.options.symbolic:
            tiers.append(lambda gold, answer: self._symbolic(question, gold, answer))
        return tiers

    def check(self) -> None:
        """Look whether Math-Verify is installed, where the options need it."""
        if self.options.symbolic and importlib.util.find_spec("math_verify") is None:
            raise EnvironmentFailure("unavailable", "math-verify is not installed: pip install math-verify[antlr4_13_2]")

    def examples(self) -> Sequence[Prompt]:
        """Return a task for each tier."""
        tasks = {
            "What is 17 * 23?": "391",
            "What is the positive root of x^2 = 2?": r"\sqrt{2}",
            "Solve x^2 = 4.": r"\{-2, 2\}",
        }
        return tuple(self.prompt(question, answer=answer) for question, answer in tasks.items())

    def prepare(self) -> None:
        """Start the process that Math-Verify runs in, which takes a second, where the options need it."""
        if self.options.symbolic:
            symbolic.warm_up()

    def gold(self, prompt: Prompt) -> str:
        """Return the first gold in the form that the options extract."""
        return _GOLD_FORMS[self.options.extract[0]] % " ".join(_gold_text(self.reference(prompt).golds[0]).split())

    def judge(self, prompt: Prompt, reference: MathReference, completion: Completion) -> Score:
        """Find the answer, then let the tiers decide against each gold."""
        found = self._find(completion)
        if isinstance(found, Score):
            return found
        answer = clean(found.text)
        if not answer:
            return Score.no_answer(reason=f"{found.method}: the answer is empty")
        tiers = self.tiers(prompt.text)
        limit: symbolic.SymbolicLimit | None = None
        failure: EnvironmentFailure | None = None
        wrong = Decision(False, "no tier could tell it from a wrong answer")
        for text in reference.golds:
            gold = clean(_gold_text(text))
            try:
                # An answer that ran past a limit once is not paid for again: the other golds get the cheap tiers.
                decision = _decide(tiers[:-1] if limit else tiers, gold, self._spread(gold, found, completion) or answer)
            except EnvironmentFailure as error:
                failure = error  # another of the golds may still be right
            except symbolic.SymbolicLimit as error:
                limit, failure = error, self._control(gold, error) or failure
            else:
                if decision.correct:
                    return Score.correct(answer=found.text, reason=f"{found.method}: {decision.reason}")
                wrong = decision
        if failure:
            raise failure
        if limit:
            return Score.limit(answer=found.text, reason=f"{found.method}: {limit}")
        return Score.incorrect(answer=found.text, reason=f"{found.method}: {wrong.reason}")

    def _find(self, completion: Completion) -> Extraction | Score:
        body = strip_thinking(completion.text)
        found = None if body is None else extract(body, self.options.extract)
        if found is not None:
            if len(found.text) > self.options.max_answer_chars:
                return Score.limit(
                    answer=found.text[:100],
                    reason=f"{found.method}: the answer has {len(found.text)} characters, over {self.options.max_answer_chars}",
                )
            return found
        wanted = " or ".join(self.options.extract)
        reason = f"the thinking never closes, so no {wanted} answer" if body is None else f"no {wanted} answer"
        if completion.finish_reason == "length":
            return Score.truncated(reason=f"cut off by the token limit: {reason}")
        return Score.no_answer(reason=reason)

    def _spread(self, gold: str, found: Extraction, completion: Completion) -> str:
        """Return the answer that stands in a row of boxes, one a value, where the gold has as many values; else nothing."""
        parts = split_top(gold)
        wanted = len(parts) if len(parts) > 1 or gold.startswith("(") else len(elements(gold))
        if wanted == 1 or found.method != "boxed":
            return ""
        boxes = row_of_boxes(completion.text)
        whole = ", ".join(boxes)
        return clean(whole) if len(boxes) == wanted and len(whole) <= self.options.max_answer_chars else ""

    def _exact(self, gold: str, answer: str) -> Decision | None:
        same = exact.compare(gold, answer, self.options.percent)
        return None if same is None else Decision(same, "the same number" if same else "another number (exact)")

    def _symbolic(self, question: str, gold: str, answer: str) -> Decision:
        (left, left_unit), (right, right_unit) = split_unit(gold), split_unit(answer)
        if left_unit and right_unit and left_unit != right_unit:
            return Decision(False, f"refused: the unit is {right_unit!r}, not {left_unit!r}")
        form = shape(left, right, question)
        if form.refusal:
            return Decision(False, f"refused: {form.refusal}")
        # The percent policy is the exact tier's: Math-Verify would take 50 for 50\% whatever the option says.
        numbers = [exact.compare(left, side, self.options.percent) for side in form.sides]
        if False in numbers or all(numbers):
            return Decision(False not in numbers, "another number (exact)" if False in numbers else "the same number")
        found = self._compare(left, form.sides)
        if not found.gold_parsed:
            raise EnvironmentFailure("gold_invalid", f"the gold does not parse: {gold[:200]!r}")
        if not all(found.answers_parsed):
            return Decision(False, "the answer does not parse")
        return Decision(found.equal, "equal (symbolic)" if found.equal else "not equal (symbolic)")

    def _compare(self, gold: str, sides: tuple[str, ...]) -> symbolic.Comparison:
        return symbolic.compare(
            gold,
            sides,
            timeout_s=self.options.symbolic_timeout_s,
            memory_bytes=self.options.symbolic_memory_mb << 20,
        )

    def _control(self, gold: str, limit: symbolic.SymbolicLimit) -> EnvironmentFailure | None:
        """Compare the gold with itself in a fresh fork: where that works, the answer was at fault."""
        value = split_unit(gold)[0]
        try:
            if self._compare(value, (value,)).equal:
                return None
        except symbolic.SymbolicLimit as error:
            return EnvironmentFailure("timeout", f"even of the gold with itself {error}; raise the limits: {gold[:200]!r}")
        return EnvironmentFailure("gold_invalid", f"{limit}, and the gold does not equal itself: {gold[:200]!r}")


def _decide(tiers: Sequence[Tier], gold: str, answer: str) -> Decision:
    for tier in tiers:
        decision = tier(gold, answer)
        if decision is not None:
            return decision
    return Decision(False, "not the gold's text, and no number")


def _gold_text(gold: str) -> str:
    """Return what stands in a gold's box or boxes, or the gold as it is."""
    spans = box_spans(gold)
    return ", ".join(gold[start:end].strip() for _, start, end in spans) if spans else gold.strip()


def _same_text(gold: str, answer: str) -> Decision | None:
    return Decision(True, "the gold's text") if canonical(gold) == canonical(answer) else None


def _same_words(gold: str, answer: str) -> Decision | None:
    r"""Decide a gold that is nothing but `\text{words}`: as symbols, "cab" would equal "abc"."""
    if words(gold) is None or exact.parse(gold) is not None:
        return None
    same = canonical(gold) == canonical(answer)
    return Decision(same, "the gold's words" if same else "other words than the gold's")


def _copied(question: str, gold: str, answer: str) -> Decision | None:
    """Refuse what was copied from the question: "what is 2+2?" is not answered by 2+2, though it is equal."""
    return Decision(False, "refused: it repeats the question") if hands_back(question, gold, answer) else None
