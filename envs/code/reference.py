"""Reference of the `code` environment: language, tests, limits and policy."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from verigym.envs import strict_json
from verigym.envs.code.json_values import Json, storable_text
from verigym.envs.contract.schema import Reference
from verigym.sandbox import Limits
from verigym.sandbox.spec import MOST_PROCESSES, Prelude

Language = Literal["python", "bash", "c", "cpp", "javascript"]
Trust = Literal["separate", "shared"]
Whitespace = Literal["tokens", "lines", "exact"]

Text = Annotated[str, BeforeValidator(storable_text)]


class _Part(BaseModel):
    """A null counts as absent wherever none is a value: tables fill in what other rows, or other types of tests, have."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        needed = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: given for name, given in value.items() if given is not None or name in needed}


def _identifier(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r}: expected the name of a function; no program can define this")
    return name


class StdioTest(_Part):
    """Run the program with this input and compare what it prints."""

    type: Literal["stdio"]
    stdin: Text = ""
    stdout: Text


class CallTest(_Part):
    """Test that calls a function of the program, or a method of its `class Solution`, and compares the returned value."""

    type: Literal["call"]
    function: Annotated[str, AfterValidator(_identifier)]
    args: Annotated[tuple[Json, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)] = ()
    kwargs: dict[str, Json] = {}
    expected: Json


class AssertTest(_Part):
    """Test that runs assertions against the program: plain statements, or `def check(candidate)` called with `entry_point`."""

    type: Literal["assert"]
    code: Text = Field(min_length=1)
    entry_point: str | None = None


class UnittestTest(_Part):
    """Test that runs the `unittest.TestCase` classes in `code`, which can import the program as `solution`."""

    type: Literal["unittest"]
    code: Text = Field(min_length=1)


class PytestTest(_Part):
    """Test that runs `code` as a pytest file, which can import the program under the name in `module`."""

    type: Literal["pytest"]
    code: Text = Field(min_length=1)
    module: str = Field("solution", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")


class FileTest(_Part):
    """Test that runs the program with an input and compares a file that it writes."""

    type: Literal["file"]
    stdin: Text = ""
    path: str
    content: Text

    @model_validator(mode="after")
    def _inside(self) -> Self:
        path = PurePosixPath(self.path)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in self.path:
            raise ValueError(f"path is {self.path!r}; give a file below the work directory, such as 'output.txt'")
        return self


class CheckerTest(_Part):
    """Test that runs the program with an input; `check(stdin, stdout) -> bool` in `code` decides if the output is right."""

    type: Literal["checker"]
    code: Text = Field(min_length=1)
    stdin: Text = ""


Test = Annotated[
    StdioTest | CallTest | AssertTest | UnittestTest | PytestTest | FileTest | CheckerTest,
    Field(discriminator="type"),
]


def _from_json(value: Any) -> Any:
    """Return the value of a JSON text: columns of tables have one type, and the arguments of tests have many."""
    if not isinstance(value, str):
        return value
    try:
        return strict_json.loads(value)
    except ValueError as error:
        raise ValueError(f"expected a list, or the JSON text of one, which this is not: {error}") from None


PYTHON_ONLY = (CallTest, AssertTest, UnittestTest, PytestTest)


class CodeLimits(_Part):
    """What one run (one test, or one call) may use."""

    wall_s: float = Field(10.0, gt=0, le=3600)
    """Seconds from start to end."""
    cpu_s: float = Field(10.0, gt=0, le=3600)
    """Seconds of CPU time."""
    memory_mb: int = Field(512, ge=32, le=1 << 24)
    """MiB of memory."""
    processes: int = Field(32, gt=0, le=MOST_PROCESSES)
    """Processes and threads at one time."""
    output_kb: int = Field(4096, gt=0)
    """KiB on standard output, and as many on standard error."""
    files_mb: int = Field(64, gt=0)
    """MiB of files in the work directory."""

    def for_sandbox(self) -> Limits:
        """Return the same as the sandbox takes it."""
        return Limits(**self.model_dump())


class Policy(_Part):
    """Rules for turning test results into a verdict and for comparing output."""

    partial: bool = False
    """Whether all tests run and the reward is the fraction that passed. Otherwise all tests must pass."""
    stop_at_first_failure: bool = True
    """Whether no test is started after a test has failed. It has no effect with `partial`, which runs all tests."""
    float_tolerance: float = Field(0.0, ge=0, lt=1)
    """Numbers are equal if they differ by at most this value times max(1, |expected number|); 0 is exact."""
    whitespace: Whitespace = "lines"
    """Printed text is compared by tokens, by lines (trailing space and final newlines ignored), or exactly."""
    tuple_as_list: bool = True
    """Whether a tuple equals a list with the same items."""
    trust: Trust = "separate"
    """`separate`: assertions run in a process of their own, to which the program's values are sent. `shared`: they run in the
    program's process, for values that cannot be sent. A program can then forge the verdict."""


_EVALUATES = re.compile(r"(?<![\w.])(eval|exec)[ \t]*\((?![ \t]*stdin\b)")
"""A call that runs text as code, unless it is the test's own input."""


class CodeReference(Reference):
    """What a program is judged by."""

    language: Language = "python"
    """The language of the program."""
    tests: Annotated[tuple[Test, ...], BeforeValidator(_from_json)] = Field(min_length=1)
    """The tests that the program must pass: a list, or its JSON text. The first failure in this order is reported."""
    setup: Text = ""
    """Trusted code that runs beside the tests: helpers and imports that assertions use. The program cannot see it."""
    limits: CodeLimits = CodeLimits()
    """What each run may use."""
    policy: Policy = Policy()
    """How results become a verdict."""
    prelude: Prelude | None = None
    """Which names a Python program can use without importing them. `none`: no names. `leetcode`: the names that online judges
    provide. By default, it is `leetcode` if the program has a `class Solution` and at least one test is a `call` test, and
    else `none`."""
    prefix: Text = ""
    """Code that the completion continues, such as HumanEval's prompt; used with the environment's option `continue_prefix`."""
    solution: Text | None = None
    """A whole program known to be right. It becomes the gold."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for number, test in enumerate(self.tests):
            if isinstance(test, CheckerTest) and self.policy.trust == "separate":
                found = _EVALUATES.search(test.code) or _EVALUATES.search(self.setup)
                if found:
                    raise ValueError(
                        f"tests.{number} is a checker that calls {found[1]}(): a program could print what decides the verdict; "
                        "read the output by int(), ast.literal_eval or a parser, or set policy.trust to shared to accept that"
                    )
        if self.language != "python":
            for number, test in enumerate(self.tests):
                if isinstance(test, PYTHON_ONLY):
                    raise ValueError(
                        f"tests.{number} is of type {test.type!r}, which is for Python; "
                        f"a program in {self.language!r} takes stdio, file and checker tests"
                    )
            if self.prelude == "leetcode":
                raise ValueError(f"prelude is {self.prelude!r}, which is for programs in Python, not in {self.language!r}")
        if self.solution is not None and not self.solution.strip():
            raise ValueError("solution is empty; leave it out where no right program is known")
        return self
