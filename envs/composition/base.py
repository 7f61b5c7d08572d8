"""What every composition of environments shares; the operators are in `compose.py`.

A part is judged on a prompt of its own, with its own references. References of a composition are keyed by part, those
of a part that is itself a composition by `part/inner`. An ERROR in a part makes the whole ERROR, unless the part is
optional.
"""

from __future__ import annotations

import copy
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verigym.envs.composition.groups import VerdictNeeded, gather
from verigym.envs.composition.names import inner, outer
from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.contract.base import Environment, Options, Panel, TaskSource
from verigym.envs.contract.errors import EnvironmentFailure, UsageError, did_you_mean
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
from verigym.envs.extraction.gold import gold_candidates
from verigym.envs.grading.judging import grades_groups, is_hardened, judge_group, judge_one

ALGEBRA_VERSION = "2"


class CompositionOptions(Options):
    """What a composition is made of; hashed into its grader id, so a change in any part changes the whole's."""

    kind: str
    """The operator."""
    parts: tuple[tuple[str, str], ...]
    """Part name and the part's own grader id, in order."""
    weights: tuple[float, ...] = ()
    """Of a weighted sum: one a part."""
    primary: str
    """The part that decides the status, and gives the answer."""
    optional: tuple[str, ...] = ()
    """Parts whose ERROR leaves the rest standing."""


class Composition(ABC):
    """What the four operators share: parts, prompts, identity. They differ in `combine`."""

    version = ALGEBRA_VERSION
    _known: dict[str, Score] | None = None
    """Verdicts of parts, where a completion is judged as one of a group; see `score_group`."""

    def __init__(
        self,
        parts: Mapping[str, Environment],
        *,
        name: str,
        primary: str,
        weights: tuple[float, ...] = (),
        optional: Sequence[str] = (),
    ) -> None:
        for part in parts:
            if not part or "/" in part:
                raise UsageError(f"{name!r}: part name {part!r} must not be empty or hold '/'")
        for part in (*optional, primary):
            if part not in parts:
                raise UsageError(f"{name!r} has no part {part!r}{did_you_mean(part, parts)}")
        if primary in optional:
            raise UsageError(f"{name!r}: the primary part {primary!r} cannot be optional")
        self.name = name
        self.parts = dict(parts)
        self.options = CompositionOptions(
            kind=type(self).__name__,
            parts=tuple((part, environment.grader) for part, environment in parts.items()),
            weights=weights,
            primary=primary,
            optional=tuple(optional),
        )
        digest = sha256_hex(canonical_json(self.options.model_dump(mode="json")))[:8]
        self.grader = f"{name}@{self.version}+{digest}"

    def __repr__(self) -> str:
        return f"<{self.grader}>"

    @property
    def grades_groups(self) -> bool:
        """Whether a part does."""
        return any(map(grades_groups, self.parts.values()))

    @property
    def hardened(self) -> bool:
        """Whether all parts are: a part that is not says itself what it raised."""
        return all(map(is_hardened, self.parts.values()))

    @property
    def scores_steps(self) -> bool:
        """Whether a part does; the composition hands up the steps of all of them."""
        return any(map(scores_steps, self.parts.values()))

    @property
    def summands(self) -> Mapping[str, float] | None:
        """Weight of each part whose reward is a summand of the whole's; None where the whole is no weighted sum."""
        return None

    @property
    @abstractmethod
    def reward_range(self) -> tuple[float, float]:
        """Floor and maximum."""

    @property
    @abstractmethod
    def panel(self) -> Panel:
        """What `check_env` may expect, derived from the parts' panels."""

    @abstractmethod
    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Return the verdict of the whole."""

    def prompt(
        self,
        text: str | Sequence[Message | Mapping[str, Any]],
        /,
        *,
        metadata: Mapping[str, Any] | None = None,
        **reference: Any,
    ) -> Prompt:
        """Make a task: `env.prompt(text, math={"answer": "4"}, language={...})`; a part left out gets no fields.

        Raises:
            UsageError: an argument is not the name of a part or not a mapping, or a part refuses its fields.
        """
        for part, fields in reference.items():
            if part not in self.parts:
                raise UsageError(
                    f"{self.name!r} has no part {part!r}{did_you_mean(part, self.parts)}; write a part's reference as "
                    f"{next(iter(self.parts))}={{'field': value}}"
                )
            if not isinstance(fields, Mapping):
                raise UsageError(
                    f"{self.name!r}: {part}={fields!r}: expected the part's reference as a mapping, {part}={{...}}"
                )
        messages = as_messages(text)
        references: dict[str, Reference] = {}
        for part, environment in self.parts.items():
            made = environment.prompt(messages, **reference.get(part, {}))
            references.update(outer(part, environment, made.references))
        return Prompt(messages=messages, environment=self.name, references=references, metadata=metadata or {})

    def load_prompt(self, data: Mapping[str, Any]) -> Prompt:
        """Rebuild a prompt from its JSON form, references typed again by their parts."""
        references: dict[str, Reference] = {}
        for part, environment in self.parts.items():
            own = inner(part, environment, data["references"])
            made = environment.load_prompt({"messages": data["messages"], "environment": environment.name, "references": own})
            references.update(outer(part, environment, made.references))
        unknown = set(data["references"]) - set(references)
        if unknown:
            raise UsageError(f"{self.name!r}: references for {sorted(unknown)}, which are no parts of it")
        return Prompt(**{**data, "references": references})

    def part_prompt(self, prompt: Prompt, part: str) -> Prompt:
        """Return the prompt that a part judges: the same messages, its own references."""
        environment = self.parts[part]
        references = inner(part, environment, prompt.references)
        return Prompt(messages=prompt.messages, environment=environment.name, references=references, metadata=prompt.metadata)

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion that scores the maximum, if the parts' golds, alone or joined, give one."""
        golds = [self.parts[part].gold(self.part_prompt(prompt, part)) for part in self._primary_first()]
        for candidate in gold_candidates([gold for gold in golds if gold is not None]):
            if self.score(prompt, Completion(text=candidate, finish_reason="stop")).reward == self.reward_range[1]:
                return candidate
        return None

    def score(self, prompt: Prompt, completion: CompletionLike) -> Score:
        """Judge one completion with every part that matters.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        if not isinstance(prompt, Prompt):
            raise TypeError(f"{self.name!r} scores prompts made with env.prompt(...), not {type(prompt).__name__}")
        candidate = Completion.of(completion)
        if prompt.environment != self.name:
            raise UsageError(f"{self.name!r} was given a prompt made for {prompt.environment!r}")
        start = time.perf_counter()
        try:
            score = self.combine(prompt, candidate)
        except EnvironmentFailure as failure:
            score = failure.score()
        return score.model_copy(update={"grader": self.grader, "seconds": time.perf_counter() - start})

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        """Judge the completions of one prompt; parts that grade groups do so, see `gathering.py`.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        group = [Completion.of(completion) for completion in completions]
        known: list[dict[str, Score]] = [{} for _ in group]

        def judge(place: int) -> Score:
            view = copy.copy(self)
            view._known = known[place]
            return view.score(prompt, group[place])

        def judge_part(part: str, mine: list[Completion]) -> None:
            for place, score in enumerate(judge_group(self.parts[part], self.part_prompt(prompt, part), mine)):
                known[place][part] = score

        return gather(group, tuple(self.parts), judge, judge_part)

    def check(self) -> None:
        """Check every part that is not optional."""
        for part, environment in self.parts.items():
            if part not in self.options.optional:
                environment.check()

    def prepare(self) -> None:
        """Start what the parts' judging will need."""
        for environment in self.parts.values():
            if callable(prepare := getattr(environment, "prepare", None)):
                prepare()

    def examples(self) -> Sequence[Prompt]:
        """Sample tasks: the primary part's, with what the other parts need of their own; none where a part has none."""
        primary = self.parts[self.options.primary]
        return [self.around(task) for task in sample_tasks(primary)] if self._others() is not None else []

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return the primary part's task of that number, as a task of the whole.

        Raises:
            UsageError: the primary part generates no tasks, or another part needs references that nothing provides.
        """
        primary = self.parts[self.options.primary]
        if not isinstance(primary, TaskSource):
            raise UsageError(f"{self.name!r}: its primary part {self.options.primary!r} generates no tasks of its own")
        if self._others() is None:
            raise UsageError(f"{self.name!r}: a part beside {self.options.primary!r} needs references; use env.prompt")
        return self.around(primary.prompt_at(split, seed, index))

    def canary(self, seed: int, index: int) -> Prompt | None:
        """Return the primary part's task that no answer solves, as a task of the whole; None where it has none."""
        found = canary_of(self.parts[self.options.primary], seed, index)
        return self.around(found) if found is not None and self._others() is not None else None

    def prompts(self, split: str = "train", seed: int = 0) -> Iterator[Prompt]:
        """Yield the whole's own tasks without end."""
        return (self.prompt_at(split, seed, index) for index in itertools.count())

    def judge_part(self, part: str, prompt: Prompt, completion: Completion) -> Score:
        """Return a part's verdict; an ERROR comes back only from an optional part.

        Raises:
            EnvironmentFailure: a part that is not optional failed.
        """
        score = self._verdict(part, prompt, completion)
        if score.error is not None and part not in self.options.optional:
            error = score.error
            message = f"part {part!r}: {error.message}"
            raise EnvironmentFailure(error.kind, message, retryable=error.retryable, raised=score.raised)
        return score

    def _verdict(self, part: str, prompt: Prompt, completion: Completion) -> Score:
        environment = self.parts[part]
        if self._known is None:
            return judge_one(environment, self.part_prompt(prompt, part), completion)
        if part not in self._known:
            if grades_groups(environment):
                raise VerdictNeeded(part)
            self._known[part] = judge_one(environment, self.part_prompt(prompt, part), completion)
        return self._known[part]

    def _primary_first(self) -> list[str]:
        return sorted(self.parts, key=lambda part: part != self.options.primary)

    def _others(self) -> dict[str, Reference] | None:
        """References of the parts beside the primary that need no fields; None if one does."""
        references: dict[str, Reference] = {}
        for part, environment in self.parts.items():
            if part == self.options.primary:
                continue
            try:
                made = environment.prompt("")
            except UsageError:
                return None
            references.update(outer(part, environment, made.references))
        return references

    def around(self, task: Prompt) -> Prompt:
        """Return a task of the primary part as a task of the whole; the other parts must need no references."""
        primary = self.options.primary
        references = {**outer(primary, self.parts[primary], task.references), **(self._others() or {})}
        return Prompt(messages=task.messages, environment=self.name, references=references, metadata=task.metadata)


def canary_of(environment: Environment, seed: int, index: int) -> Prompt | None:
    """Return the environment's `canary(seed, index)`; None where it has no such method."""
    canary = getattr(environment, "canary", None)
    found: Prompt | None = None if canary is None else canary(seed, index)
    return found


def sample_tasks(environment: Environment) -> Sequence[Prompt]:
    """Return the environment's `examples()`; nothing where it has no such method."""
    examples = getattr(environment, "examples", None)
    return () if examples is None else list(examples())


def generates_tasks(environment: Environment) -> bool:
    """Whether the environment has tasks of its own; a composition's are its primary part's."""
    if isinstance(environment, Composition):
        return environment._others() is not None and generates_tasks(environment.parts[environment.options.primary])
    return isinstance(environment, TaskSource)
