"""`code_with_feedback`: the model writes a program, reads the results of the public tests, and writes the program again.

The verdict is that of `code`: the program of the last turn is judged by all tests. Sessions run only the public tests. What the
hidden tests call, what they expect and how many there are stays unknown to the model and to every process that an episode
starts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import Field, JsonValue, field_validator

from verigym.envs.code.environment import CodeEnvironment, CodeOptions
from verigym.envs.code.outcome import Outcome
from verigym.envs.code.reference import CallTest, CodeReference, FileTest, StdioTest, Test
from verigym.envs.code.verdict import label_of
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Message, Prompt, Reference, Score, Turn
from verigym.envs.contract.session import Reply, ToolSpec
from verigym.envs.repair.examples import EXAMPLES
from verigym.sandbox import RunStatus

TESTS_S = 15.0
"""Seconds after which no further public test of a program is started. This keeps a turn within its own time limit."""


class FeedbackOptions(CodeOptions):
    """Options of `code_with_feedback`: those of `code`, and the feedback that the model reads."""

    public: int | tuple[int, ...] = 1
    """Which tests are public: a number n for the first n, or positions counted from 0. At least one test must stay hidden."""
    rounds: int = Field(3, ge=1, le=50)
    """How many programs the model may write in an episode. It gets no feedback on the last one."""
    show_expected: bool = True
    """Whether a reply shows what a failed public test expected. The call and the program's own output are always shown."""
    max_failures: int = Field(3, ge=1, le=100)
    """How many failed tests a reply describes. Further failed tests are only counted."""

    @field_validator("public")
    @classmethod
    def _places(cls, value: int | tuple[int, ...]) -> int | tuple[int, ...]:
        places = value if isinstance(value, tuple) else (value - 1,)
        if not places or min(places) < 0 or len(set(places)) < len(places):
            raise ValueError("expected a number of at least 1, or different places of tests, counted from 0")
        return value


class CodeWithFeedbackEnvironment(CodeEnvironment):
    """Grades programs by their tests, after episodes in which the model reads the results of the public tests."""

    name = "code_with_feedback"
    version = f"1.{CodeEnvironment.version}"
    """Our own and that of `code`, whose verdicts these are."""
    options_type = FeedbackOptions

    @property
    def feedback(self) -> FeedbackOptions:
        """The options, with those of episodes."""
        return cast(FeedbackOptions, self.options)

    def make_reference(self, fields: Mapping[str, Any]) -> Reference:
        """Return a reference made from `fields`, after validating them.

        Raises:
            UsageError: a field is missing, unknown or of the wrong type, a public test does not exist, or no test is hidden.
        """
        reference = super().make_reference(fields)
        self.public_tests(cast(CodeReference, reference))
        return reference

    def public_tests(self, reference: CodeReference) -> tuple[Test, ...]:
        """Return the tests whose results the model reads.

        Raises:
            UsageError: a public test does not exist, or all tests are public.
        """
        public, count = self.feedback.public, len(reference.tests)
        places = public if isinstance(public, tuple) else range(public)
        if max(places) >= count or len(places) == count:
            tests = "1 test" if count == 1 else f"{count} tests"
            raise UsageError(
                f"reference of {self.name!r}: public={public} of {tests} leaves none hidden, or names one that is not there; "
                "give the task more tests, or use the environment 'code'"
            )
        return tuple(reference.tests[place] for place in places)

    def examples(self) -> Sequence[Prompt]:
        """Return the sample tasks that have every public test that the options name and at least one hidden test."""
        public = self.feedback.public
        needed = (max(public) if isinstance(public, tuple) else public) + 1
        return tuple(self.prompt(text, **fields) for text, fields in EXAMPLES if len(fields["tests"]) >= needed)

    def open(self, prompt: Prompt, seed: str) -> FeedbackSession:
        """Return the session of a new episode on `prompt`. `seed` has no effect: random numbers in a program are its own.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        return FeedbackSession(self, self.reference(prompt))


class FeedbackSession:
    """One episode. Each program except the last gets a reply, until the public tests pass."""

    tools: Sequence[ToolSpec] = ()

    def __init__(self, environment: CodeWithFeedbackEnvironment, reference: CodeReference) -> None:
        self._environment = environment
        tests = environment.public_tests(reference)
        policy = reference.policy.model_copy(update={"partial": True})  # every public test is run, whichever fails
        self._public = reference.model_copy(update={"tests": tests, "policy": policy})
        self._rounds = 0
        self._passed: list[int] = []
        self._closed = False

    def read(self, text: str) -> Turn:
        """Return `text`, which the model wrote, as a turn. There are no tools, so it holds no calls."""
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        """Run the public tests on the program in `turn` and return which failed.

        Return instead that the episode is over if all public tests pass or no round is left. A turn without a program uses up a
        round too.

        Raises:
            EnvironmentFailure: the sandbox failed, or a public test is broken.
            UsageError: the session is closed.
        """
        if self._closed:
            raise UsageError("the session is closed: each episode opens its own, env.open(prompt, seed)")
        self._rounds += 1
        left = self._environment.feedback.rounds - self._rounds
        if left <= 0:
            return Reply(done=True)
        complaint = self._complaint(turn.text)
        if not complaint:
            return Reply(done=True)
        tries = "1 try" if left == 1 else f"{left} tries"
        return Reply(messages=(Message(role="user", content=f"{complaint}\nWrite the whole program again: {tries} left."),))

    def close(self) -> Mapping[str, JsonValue]:
        """End the episode. Return the number of programs, and for each tested program the number of public tests passed."""
        self._closed = True
        return {"rounds": self._rounds, "public": len(self._public.tests), "passed": [*self._passed]}

    def _complaint(self, text: str) -> str:
        """Return what the model is told of its program; an empty text where it passes every public test."""
        environment, reference = self._environment, self._public
        program = environment.find(Completion(text=text), reference)
        if isinstance(program, Score):
            self._passed.append(0)
            return f"No program was run: {program.reason}."
        outcomes = environment.run(program, reference, time.monotonic() + TESTS_S)
        if isinstance(outcomes, Outcome):
            self._passed.append(0)
            return f"The program was not run: {outcomes.reason}"
        for outcome in outcomes:
            if outcome is not None and outcome.failure is not None:
                raise outcome.failure
        failures = [(place, one) for place, one in enumerate(outcomes) if one is not None and not one.passed]
        count, late, most = len(outcomes), outcomes.count(None), environment.feedback.max_failures
        self._passed.append(count - len(failures) - late)
        if not failures and not late:
            return ""
        lines = [f"{len(failures)} of {count} public tests failed." if count > 1 else "The public test failed."]
        if late:
            lines[0] += f" {late} {'was' if late == 1 else 'were'} not run, for those before took more than {TESTS_S:g} s."
        lines += [
            f"Test {place + 1}, {label_of(reference.tests[place])}: {self._said(place, one)}" for place, one in failures[:most]
        ]
        return "\n".join([*lines, f"{len(failures) - most} more failed."] if len(failures) > most else lines)

    def _said(self, place: int, outcome: Outcome) -> str:
        """Return why a test failed, without what it expected where that is not to be shown.

        What a program printed, raised or used up says nothing of the expected result; what a test raised may.
        """
        test = self._public.tests[place]
        own = isinstance(test, CallTest | StdioTest | FileTest) and outcome.status is not RunStatus.WRONG
        if self._environment.feedback.show_expected or outcome.limit or own:
            return outcome.reason
        return "a wrong result"
