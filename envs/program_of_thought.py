r"""Program of thought: the model writes a Python program, and what the program prints is the answer that `math` judges.

As in PoT (arXiv 2211.12588) and PAL (arXiv 2211.10435), the model writes the computation and the interpreter carries it out.
The program runs in the sandbox of `code`, without input, and never sees the gold. In its output, the answer is found as `math`
finds it in a completion: by its mark (`\boxed{}`, or as `extract` says), else as the last line that is not empty.
"""

from __future__ import annotations

import contextlib
import keyword
import re
from decimal import ROUND_HALF_EVEN, Context
from typing import Any, cast

from pydantic import Field, field_validator

from verigym.envs.code import show
from verigym.envs.code.outcome import ended, failure_of
from verigym.envs.code.reference import CodeLimits
from verigym.envs.code.sandboxed import SandboxedOptions, open_named
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Score, Status
from verigym.envs.extraction.boxes import box_spans
from verigym.envs.extraction.fences import Method, find_program
from verigym.envs.extraction.methods import extract, strip_thinking
from verigym.envs.math.environment import MathEnvironment, MathOptions, MathReference
from verigym.sandbox import Program, SandboxFailure

FLOAT_DIGITS = 15
"""A printed decimal with at least this many significant digits is taken for a float that Python printed."""

_DECIMAL = re.compile(
    r"(?<![\w.])(?P<mantissa>[0-9]++\.[0-9]++)(?P<exponent>[eE][-+]?[0-9]{1,4}+)?(?:(?=[ij](?!\w))|(?![\w.]))"
)

_IMAGINARY = re.compile(r"(?<![\w.])(?P<number>[0-9]++(?:\.[0-9]++)?(?:[eE][-+]?[0-9]{1,4}+)?)j(?!\w)")
"""An imaginary number as Python prints it: `2j`."""
_WORK = re.compile(r"[*/^\\]|[0-9)][-+]|[-+] ")
"""What stands in an answer that is more than numbers, their signs and words."""


class ProgramOfThoughtOptions(MathOptions, SandboxedOptions):
    """Options for finding and running the program, and those of `math` for comparing its output."""

    labels: bool = True
    """Whether words that announce an answer may stand before it on its line: `The answer is 9`."""
    program: Method = "fenced"
    """What the program is. fenced: the last fenced block. fenced_or_all: the last fenced block, or the whole text if there is
    none. all: the whole text."""
    function: str | None = None
    """A function that the program defines, such as PAL's `solution`. Its value is printed after the program. Null: the program
    prints the answer itself."""
    float_digits: int | None = Field(12, ge=6, le=FLOAT_DIGITS)
    """Printed decimals with 15 or more significant digits are rounded to this many: 0.30000000000000004 becomes 0.3. Null: no
    rounding."""
    limits: CodeLimits = CodeLimits(output_kb=256)
    """What a run may use."""
    max_program_kb: int = Field(256, ge=1, le=16 * 1024)
    """A longer program is not run: the status is limit."""

    @field_validator("function")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and (not value.isidentifier() or keyword.iskeyword(value)):
            raise ValueError(f"{value!r}: expected the name of a function, such as solution")
        return value

    @field_validator("extract")
    @classmethod
    def _boxes_too(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if "boxed" not in value:
            raise ValueError("the last line that is printed is judged as if it were boxed; name boxed among the methods, too")
        return value


class ProgramOfThoughtEnvironment(MathEnvironment):
    """Grades a program by what it prints."""

    name = "program_of_thought"
    version = f"2.{MathEnvironment.version}"
    """Our own and that of `math`, whose verdicts these are."""
    options_type = ProgramOfThoughtOptions

    @property
    def _options(self) -> ProgramOfThoughtOptions:
        return cast(ProgramOfThoughtOptions, self.options)

    def check(self) -> None:
        """Check that the sandbox works on this machine and that the packages named in the options are installed."""
        super().check()
        box = open_named(self._options)
        try:
            box.check()
        except SandboxFailure as error:
            raise failure_of(error) from None

    def prepare(self) -> None:
        """Load what judging needs and start a worker of the sandbox. If that fails, each verdict reports the failure."""
        super().prepare()
        with contextlib.suppress(EnvironmentFailure):
            self.check()

    def gold(self, prompt: Prompt) -> str:
        """Return a program that prints the first gold."""
        printed = super().gold(prompt)
        function = self._options.function
        program = f"print({printed!r})" if function is None else f"def {function}():\n    return {printed!r}"
        return program if self._options.program == "all" else f"```python\n{program}\n```"

    def judge(self, prompt: Prompt, reference: MathReference, completion: Completion) -> Score:
        """Return the score that `math` gives to the output of the program in `completion`."""
        found = find_program(completion.text, "python", self._options.program)
        if found.program is None:
            if completion.cut_off:
                return Score.truncated(reason=f"cut off by the token limit: {found.reason}")
            return Score.no_answer(reason=found.reason)
        # A lone surrogate cannot be written to a file; in its place stands what every editor would show.
        program = found.program.encode("utf-8", "replace").decode()
        if len(program.encode()) > self._options.max_program_kb * 1024:
            return Score.limit(reason=f"the program has more than {self._options.max_program_kb} KB")
        if self._options.function is not None:
            program = f"{program}\n\nprint({self._options.function}())\n"
        printed = self._run(program)
        if isinstance(printed, Score):
            return printed.model_copy(update={"components": {"ran": 0.0}})
        if not any("j" in gold for gold in reference.golds):  # else it is the gold's name for something
            printed = _IMAGINARY.sub(r"\g<number>i", printed)
        score = self._judged(prompt, reference, printed)
        return score.model_copy(update={"components": {"ran": 1.0}})

    def _run(self, source: str) -> str | Score:
        """Return what the program prints; where it does not end well, its score."""
        limits = self._options.limits
        box = open_named(self._options)
        try:
            result = box.run(Program(source=source), b"", limits.for_sandbox())
        except SandboxFailure as error:
            raise failure_of(error) from None
        if result.ok:
            return result.stdout.decode("utf-8", "replace")
        outcome = ended(result, limits)
        reason = f"the program: {outcome.reason}"
        return Score.limit(reason=reason) if outcome.limit else Score.incorrect(reason=reason)

    def _judged(self, prompt: Prompt, reference: MathReference, printed: str) -> Score:
        if not printed.strip():
            return Score.no_answer(reason="the program printed nothing")
        body = strip_thinking(printed)
        if body is None or extract(body, self.options.extract) is None:
            line = printed.rstrip().rpartition("\n")[2].strip()
            printed = rf"\boxed{{{line}}}"
            if len(line) <= self.options.max_answer_chars and not _one_box(printed):
                return Score.incorrect(answer=line, reason=f"printed {show.quoted(line)}: its braces do not fit together")
        rounded = printed if self._options.float_digits is None else _DECIMAL.sub(self._rounded, printed)
        score = super().judge(prompt, reference, Completion(text=rounded))
        # A long decimal may be no noise: 1234567890123.45. Of formulas the rounded one alone counts, for the guards know it.
        if score.status is Status.INCORRECT and rounded != printed and not _WORK.search(_DECIMAL.sub("0", score.answer or "*")):
            exact = super().judge(prompt, reference, Completion(text=printed))
            score = exact if exact.status is Status.CORRECT else score
        return score.model_copy(update={"reason": f"printed {show.quoted(score.answer or printed)}: {score.reason}"})

    def _rounded(self, number: re.Match[str]) -> str:
        """Return a printed decimal without the digits that a binary float does not have."""
        if len(number["mantissa"].replace(".", "").lstrip("0")) < FLOAT_DIGITS:
            return number[0]
        context = Context(prec=self._options.float_digits, rounding=ROUND_HALF_EVEN)
        rounded = context.create_decimal(number["mantissa"])
        text = format(rounded, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text + (number["exponent"] or "")


def _one_box(text: str) -> bool:
    """Return whether the text is one box from its beginning to its end."""
    spans = box_spans(text)
    return [(start, end) for start, _, end in spans] == [(0, len(text) - 1)]
