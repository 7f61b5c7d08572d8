"""The environment contract: the `Environment` protocol, and `BaseEnvironment`, which most environments extend."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError

from verigym.envs.contract.blame import guarded, in_range
from verigym.envs.contract.errors import UsageError, did_you_mean, explain
from verigym.envs.contract.schema import (
    Completion,
    CompletionLike,
    Message,
    Prompt,
    Reference,
    Score,
    as_messages,
    canonical_json,
    sha256_hex,
)
from verigym.envs.contract.settings import Settings

Expectation = Literal["maximum", "floor", "free"]


class ExpectedVerdicts(BaseModel):
    """The verdicts that `check_env` expects of an environment, one for each kind of test completion.

    The defaults suit an environment that judges correctness.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gold: Expectation = "maximum"
    empty: Expectation = "floor"
    echo: Expectation = "floor"
    garbage: Expectation = "floor"
    hacks: Expectation = "floor"


class Options(Settings):
    """Base class of an environment's options: typed and frozen, and unknown option names are refused."""


@runtime_checkable
class Environment(Protocol):
    """Interface of an environment, which makes tasks and scores completions.

    An environment must be picklable. Its method `score` is synchronous, uses no signals, and may run in any thread or process.
    """

    @property
    def name(self) -> str:
        """Registry name, or a composition's name."""

    @property
    def version(self) -> str:
        """Raised whenever a verdict may change."""

    @property
    def options(self) -> BaseModel:
        """Typed and frozen; part of the grader's identity."""

    @property
    def reward_range(self) -> tuple[float, float]:
        """Floor and maximum."""

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return the verdict that `check_env` expects for each kind of completion."""

    @property
    def grader(self) -> str:
        """Return the grader id `name@version+h`, which every score records; `h` is 8 hex digits of the options' hash."""

    def prompt(self, text: str | Sequence[Message], /, **reference: Any) -> Prompt:
        """Return a task made from `text` and `reference`, the fields of the environment's reference."""

    def load_prompt(self, data: Mapping[str, Any]) -> Prompt:
        """Rebuild a prompt from `prompt.model_dump(mode="json")`."""

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion that must score the maximum on `prompt`, or None if none can be written."""

    def score(self, prompt: Prompt, completion: Completion | str) -> Score:
        """Judge one completion."""

    def check(self) -> None:
        """Raise EnvironmentFailure("unavailable", ...) if something that the environment needs is missing."""


@runtime_checkable
class TaskSource(Protocol):
    """An environment that generates its own tasks."""

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return task number `index` of the endless sequence of `split` and `seed`. Equal arguments give equal tasks."""


def _stamped(score: Score, grader: str, seconds: float) -> Score:
    """Return a copy with the two fields that the base class sets; `model_copy` takes twice as long."""
    copy, put = object.__new__(type(score)), object.__setattr__
    put(copy, "__dict__", {**score.__dict__, "grader": grader, "seconds": seconds})
    put(copy, "__pydantic_fields_set__", score.__pydantic_fields_set__ | {"grader", "seconds"})
    put(copy, "__pydantic_extra__", score.__pydantic_extra__)
    put(copy, "__pydantic_private__", score.__pydantic_private__)
    return copy


def require_environment(given: object, place: str) -> Environment:
    """Return `given` if it is an environment.

    Args:
        given: any object.
        place: name of the parameter that `given` was passed for, used in the error message.

    Raises:
        UsageError: `given` is not an environment; the message says how to make one from a name or a class.
    """
    if isinstance(given, str):
        raise UsageError(f"{place}: expected an environment; got the name {given!r}: give verigym.load({given!r})")
    if isinstance(given, type):
        raise UsageError(f"{place}: expected an environment; got the class {given.__name__}: give {given.__name__}()")
    if not isinstance(given, Environment):
        raise UsageError(f"{place}: {given!r} is not an environment; make one with verigym.load(name)")
    return given


def require_declared(cls: type[Any]) -> None:
    """Check that the environment class `cls` has every required attribute and method.

    Raises:
        UsageError: an attribute or method is missing; the message names it and says what to write.
    """
    place = f"{cls.__module__}:{cls.__qualname__}"
    for attribute, example in (("name", '"one-word"'), ("version", '"1"')):
        given = getattr(cls, attribute, None)
        if not isinstance(given, str) or not given:
            what = f"has no {attribute}" if given is None else f"has {attribute} = {given!r}, which is no text"
            raise UsageError(f"environment {place} {what}: write `{attribute} = {example}` in the class")
    for attribute, base in (("reference_type", Reference), ("options_type", Options)):
        given = getattr(cls, attribute, None)
        if not (isinstance(given, type) and issubclass(given, base)):
            what = f"has no {attribute}" if given is None else f"has {attribute} = {given!r}"
            raise UsageError(f"environment {place} {what}: write `{attribute} = ...`, a class that extends {base.__name__}")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise UsageError(f"environment {place} lacks {', '.join(missing)}: write it as a method of the class")
    if isinstance(getattr(cls, "panel", None), ExpectedVerdicts):
        raise UsageError(
            f"environment {place} has `panel`, which nothing reads: write `expected_verdicts = ExpectedVerdicts(...)`"
        )


R = TypeVar("R", bound=Reference)
Opts = TypeVar("Opts", bound=Options)


class BaseEnvironment(ABC, Generic[R, Opts]):
    """Base class of environments: declare `name`, `version`, `reference_type` and `options_type`, and write `judge`.

    Raises:
        UsageError: an option or a reference field is unknown or has an invalid value.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    reference_type: ClassVar[type[Reference]]
    options_type: ClassVar[type[Options]] = Options
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    expected_verdicts: ClassVar[ExpectedVerdicts] = ExpectedVerdicts()
    grades_groups: bool = False
    """Whether `score_group` judges the completions of a prompt together, to compare them or to batch the work."""
    hardened: bool = False
    """Whether the author declares that only a completion's text can make `judge` raise. A completion that does so gets LIMIT,
    and the exception is not reported as a bug."""
    scores_steps: bool = False
    """Whether scores have `steps`, each with its own reward. Must be True in an environment that sets `Score.steps`."""

    def __init__(self, **options: Any) -> None:
        require_declared(type(self))
        try:
            self.options: Opts = cast(Opts, self.options_type(**options))
        except ValidationError as error:
            raise UsageError(f"options of {self.name!r}: {explain(error, self.options_type.model_fields)}") from None
        digest = sha256_hex(canonical_json(self.options.model_dump(mode="json")))[:8]
        self.grader = f"{self.name}@{self.version}+{digest}"

    def __repr__(self) -> str:
        return f"<{self.grader}>"

    @abstractmethod
    def judge(self, prompt: Prompt, reference: R, completion: Completion) -> Score:
        """Return the verdict on `completion`. The caller sets the score's `grader` and `seconds`.

        Raises:
            EnvironmentFailure: judging failed for a reason that is not the completion's, such as a missing package.
        """

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion that must score the maximum on `prompt`, or None if none can be written."""
        return None

    def audit(self, prompt: Prompt) -> str | None:
        """Return a message that says what is wrong with the reference of `prompt` and how to fix it, or None if it is sound.

        `verigym validate` calls this method for every row of a data set, even if the row's gold scores the maximum. An override
        should also return a message if only an exact copy of the gold can score, for example because the gold cannot be parsed.
        The method is optional in environments that do not extend BaseEnvironment.
        """
        return None

    def check(self) -> None:
        """Raise EnvironmentFailure if something that the environment needs is missing. By default nothing is needed."""

    def canary(self, seed: int, index: int) -> Prompt | None:
        """Return unsolvable task number `index`, with `metadata["canary"] = "reject"`, or None if the environment has none.

        Training mixes some of these tasks into the normal ones. If one earns a reward, the policy has fooled the verifier, and
        the run stops.
        """
        return None

    def prepare(self) -> None:
        """Load what judging needs, such as a model. A worker process calls this before its first item, without a time limit."""

    def examples(self) -> Sequence[Prompt]:
        """Return a few sample tasks, which `verigym check` and `check_env` use if they are given no prompts."""
        return ()

    def prompt(
        self,
        text: str | Sequence[Message | Mapping[str, Any]],
        *,
        metadata: Mapping[str, Any] | None = None,
        **reference: Any,
    ) -> Prompt:
        """Return a task. A plain `text` becomes one user message; `reference` holds the fields of the task's reference.

        Raises:
            UsageError: a field of the reference is missing, unknown or of the wrong type.
            ValueError: an element of `text` is not a valid message (see `schema.as_messages`).
        """
        return Prompt(
            messages=as_messages(text),
            environment=self.name,
            references={self.name: self.make_reference(reference)},
            metadata=metadata or {},
        )

    def make_reference(self, fields: Mapping[str, Any]) -> Reference:
        """Return a reference made from `fields`, after validating them.

        Raises:
            UsageError: a field is missing, unknown or of the wrong type.
        """
        try:
            return self.reference_type(**fields)
        except ValidationError as error:
            raise UsageError(f"reference of {self.name!r}: {explain(error, self.reference_type.model_fields)}") from None

    def load_prompt(self, data: Mapping[str, Any]) -> Prompt:
        """Rebuild a prompt from its JSON form, references typed again."""
        references = {part: self.make_reference(fields) for part, fields in data["references"].items()}
        return Prompt(**{**data, "references": references})

    def reference(self, prompt: Prompt) -> R:
        """Return the reference that `prompt` holds for this environment.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        if not isinstance(prompt, Prompt):
            raise TypeError(f"{self.name!r} scores prompts made with env.prompt(...), not {type(prompt).__name__}")
        reference = prompt.references.get(self.name)
        if not isinstance(reference, self.reference_type):
            raise UsageError(
                f"{self.name!r} was given a prompt made for {prompt.environment!r} (it holds references for "
                f"{sorted(prompt.references)}{did_you_mean(self.name, prompt.references)}); "
                f"make it with env.prompt(...) of the environment that scores it"
            )
        return cast(R, reference)

    def score(self, prompt: Prompt, completion: CompletionLike) -> Score:
        """Return the score of `completion`.

        Any text that a model wrote gets a verdict. If the grader fails, the score has `reward=None`.

        Raises:
            UsageError: the prompt was made by another environment.
            TypeError, ValueError: the arguments are not a prompt and a completion (see `Completion.of`).
        """
        reference = self.reference(prompt)
        candidate = Completion.of(completion)
        start = time.perf_counter()
        if (unjudged := Score.of_episode(candidate, self.reward_range[0], hardened=self.hardened)) is not None:
            return _stamped(unjudged, self.grader, 0.0)

        def judge(candidate: Completion) -> Score:
            score = self.judge(prompt, reference, candidate)
            return in_range(score, self.reward_range) if isinstance(score, Score) else score

        result = guarded(judge, candidate, lambda: self.gold(prompt), floor=self.reward_range[0], hardened=self.hardened)
        return _stamped(result, self.grader, time.perf_counter() - start)

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        """Return one score for each of the `completions` of `prompt`, in order.

        Environments that compare completions with each other, or judge them in a batch, override this method.
        """
        return [self.score(prompt, completion) for completion in completions]

    def prompts(self, split: str = "train", seed: int = 0) -> Iterator[Prompt]:
        """Yield the environment's own tasks of `split` without end.

        Raises:
            UsageError: the environment does not generate tasks.
        """
        if not isinstance(self, TaskSource):
            raise UsageError(f"{self.name!r} generates no tasks of its own; make prompts with env.prompt(...)")
        index = 0
        while True:
            yield self.prompt_at(split, seed, index)
            index += 1
