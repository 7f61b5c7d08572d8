"""`Composition`, the base class of the operators: parts, their prompts and references, and group verdicts.

Each part judges its own prompt, with its own references. The references of a composition are keyed by part name, or by
`part/inner` if the part is itself a composition. An ERROR of a part makes the composed score an ERROR, except for optional
parts.
"""

from __future__ import annotations

import copy
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.contract.base import Environment, ExpectedVerdicts, Options, TaskSource
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
from verigym.envs.contract.session import TOOLS, Interactive, Session, opens_sessions
from verigym.envs.extraction.gold import gold_candidates
from verigym.envs.grading.judging import grades_groups, is_hardened, judge_group, judge_one, resources_of

ALGEBRA_VERSION = "2"
EMPTY = Completion(text="", finish_reason="stop")

T = TypeVar("T")


def whole_references(part: str, environment: Environment, references: Mapping[str, Reference]) -> dict[str, Reference]:
    """Return the references of `environment`, which is the part named `part`, with the keys that the composition uses for them.

    The keys are as described at the top of this module: `part`, or `part/inner`.
    """
    if tuple(references) == (environment.name,):
        return {part: references[environment.name]}
    return {f"{part}/{inner}": reference for inner, reference in references.items()}


def part_references(part: str, environment: Environment, references: Mapping[str, T]) -> dict[str, T]:
    """Select the references of one part from a composition's `references`, with the keys that the part itself uses for them.

    `part` is the part's name, and `environment` is the part. This is the inverse of `whole_references`.
    """
    if part in references:
        return {environment.name: references[part]}
    prefix = f"{part}/"
    return {name.removeprefix(prefix): value for name, value in references.items() if name.startswith(prefix)}


class GroupVerdictNeeded(Exception):
    """Raised while judging a completion: a part that judges whole groups must judge this group first."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


def judge_in_group(
    group: Sequence[Completion],
    parts: Sequence[str],
    judge: Callable[[int], Score],
    judge_part: Callable[[str, list[Completion]], None],
) -> list[Score]:
    """Return one score for each completion in `group`, for a composition in which some parts judge whole groups.

    Each completion is first judged alone. If that needs the verdict of a part that judges groups, judging the completion stops
    there. When all completions have been tried, one of the parts that were needed, the first in `parts`, judges the whole
    group. Then the completions without a score are judged again, and so on until all have a score.

    Args:
        group: the completions.
        parts: the part names, in the order in which the composition uses them.
        judge: judges the completion at an index; raises GroupVerdictNeeded if a part's verdict is missing.
        judge_part: has a part judge the group, and stores its verdicts. Completions that do not need the part, such as those
            in a Gate with a failed condition, are passed as empty completions, which lose every comparison.
    """
    scores: dict[int, Score] = {}
    while len(scores) < len(group):
        needed: dict[int, str] = {}
        for index in range(len(group)):
            if index not in scores:
                try:
                    scores[index] = judge(index)
                except GroupVerdictNeeded as need:
                    needed[index] = need.part
        for part in [part for part in parts if part in needed.values()][:1]:
            judge_part(part, [one if needed.get(index) == part else EMPTY for index, one in enumerate(group)])
    return [scores[index] for index in range(len(group))]


class CompositionOptions(Options):
    """The operator and the parts. Both are hashed into the grader id, so a change in any part changes the grader id."""

    kind: str
    """The operator."""
    parts: tuple[tuple[str, str], ...]
    """Part name and the part's own grader id, in order."""
    weights: tuple[float, ...] = ()
    """For a weighted sum: one weight a part."""
    primary: str
    """The part that decides the status and provides the answer."""
    optional: tuple[str, ...] = ()
    """Names of parts that are left out if they give an ERROR, instead of making the composed score an ERROR."""


class Composition(ABC):
    """Base class of the operators, which differ in `combine`."""

    version = ALGEBRA_VERSION
    _known: dict[str, Score] | None = None
    """Verdicts of parts so far, while a completion is judged as one of a group (`score_group`)."""

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
        """Whether a part grades groups."""
        return any(map(grades_groups, self.parts.values()))

    @property
    def hardened(self) -> bool:
        """Return whether all parts declare that only a completion's text can make them raise.

        If some parts declare it and others do not, the exceptions of the others are still reported as bugs.
        """
        return all(map(is_hardened, self.parts.values()))

    @property
    def resources(self) -> tuple[str, ...]:
        """What a node of a cluster must have to grade all parts."""
        return tuple(sorted({name for part in self.parts.values() for name in resources_of(part)}))

    @property
    def scores_steps(self) -> bool:
        """Return whether any part scores reasoning steps. The composition's scores hold the steps of all parts."""
        return any(map(scores_steps, self.parts.values()))

    @property
    def opens_sessions(self) -> bool:
        """Return whether any part has episodes of several turns. All parts judge the same episode."""
        return any(map(opens_sessions, self.parts.values()))

    def open(self, prompt: Prompt, seed: str) -> Session:
        """Return a session of the only part that has episodes, for a new episode on `prompt`.

        Raises:
            UsageError: no part or several parts have episodes, or the prompt was made by another environment.
        """
        parts = [part for part, environment in self.parts.items() if opens_sessions(environment)]
        if prompt.environment != self.name:
            raise UsageError(f"{self.name!r} was given a prompt made for {prompt.environment!r}")
        if len(parts) != 1:
            raise UsageError(
                f"{self.name!r}: {', '.join(map(repr, parts)) or 'none of its parts'} opens sessions; an episode is played "
                "with exactly one part, and the others judge it"
            )
        part = self.parts[parts[0]]
        assert isinstance(part, Interactive)
        return part.open(self.part_prompt(prompt, parts[0]), seed)

    @property
    def summands(self) -> Mapping[str, float] | None:
        """Return the weight of each part in the composed reward, or None if that reward is no weighted sum."""
        return None

    @property
    @abstractmethod
    def reward_range(self) -> tuple[float, float]:
        """Floor and maximum."""

    @property
    @abstractmethod
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return the verdicts that `check_env` expects for each kind of completion, derived from those of the parts."""

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
        """Return a task, as in `env.prompt(text, math={"answer": "4"}, language={...})`.

        Each keyword is the name of a part, and its value holds the fields of the part's reference. A part without a keyword
        gets no fields.

        Raises:
            UsageError: a keyword is not the name of a part, its value is not a mapping, or a part refuses its fields.
        """
        for part, fields in reference.items():
            if part not in self.parts:
                if outer := next((name for name, one in self.parts.items() if part in getattr(one, "parts", ())), None):
                    raise UsageError(
                        f"{self.name!r} has no part {part!r}, but its part {outer!r} has: write "
                        f"**{{{outer!r}: {{{part!r}: {{'field': value}}}}}}"
                    )
                first = next(iter(self.parts))
                form = f"{first}={{'field': value}}" if first.isidentifier() else f"**{{{first!r}: {{'field': value}}}}"
                raise UsageError(
                    f"{self.name!r} has no part {part!r}{did_you_mean(part, self.parts)}; write a part's reference as {form}"
                )
            if not isinstance(fields, Mapping):
                raise UsageError(
                    f"{self.name!r}: {part}={fields!r}: expected the part's reference as a mapping, {part}={{...}}"
                )
        messages = as_messages(text)
        references: dict[str, Reference] = {}
        origin = dict(metadata or {})
        for part, environment in self.parts.items():
            made = environment.prompt(messages, **reference.get(part, {}))
            references.update(whole_references(part, environment, made.references))
            if TOOLS in made.metadata:
                origin.setdefault(TOOLS, made.metadata[TOOLS])
        return Prompt(messages=messages, environment=self.name, references=references, metadata=origin)

    def load_prompt(self, data: Mapping[str, Any]) -> Prompt:
        """Return the prompt whose JSON form is `data`. Each part parses its own references."""
        references: dict[str, Reference] = {}
        for part, environment in self.parts.items():
            own = part_references(part, environment, data["references"])
            made = environment.load_prompt({"messages": data["messages"], "environment": environment.name, "references": own})
            references.update(whole_references(part, environment, made.references))
        unknown = set(data["references"]) - set(references)
        if unknown:
            raise UsageError(f"{self.name!r}: references for {sorted(unknown)}, which are no parts of it")
        return Prompt(**{**data, "references": references})

    def part_prompt(self, prompt: Prompt, part: str) -> Prompt:
        """Return the prompt that `part` judges, with the same messages and only that part's references."""
        environment = self.parts[part]
        references = part_references(part, environment, prompt.references)
        return Prompt(messages=prompt.messages, environment=environment.name, references=references, metadata=prompt.metadata)

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion that scores the maximum: one of the parts' golds or a combination of them.

        Return None if no such completion is found.
        """
        golds = [self.parts[part].gold(self.part_prompt(prompt, part)) for part in self._primary_first()]
        for candidate in gold_candidates([gold for gold in golds if gold is not None]):
            if self.score(prompt, Completion(text=candidate, finish_reason="stop")).reward == self.reward_range[1]:
                return candidate
        return None

    def score(self, prompt: Prompt, completion: CompletionLike) -> Score:
        """Return the score of `completion`, judged by every part that the verdict depends on.

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
            score = Score.of_episode(candidate, self.reward_range[0], hardened=self.hardened) or self.combine(prompt, candidate)
        except EnvironmentFailure as failure:
            score = failure.score()
        return score.model_copy(update={"grader": self.grader, "seconds": time.perf_counter() - start})

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        """Return one score for each of `completions`; parts that grade groups judge them together (`judge_in_group`).

        Raises:
            UsageError: the prompt was made by another environment.
        """
        group = [Completion.of(completion) for completion in completions]
        known: list[dict[str, Score]] = [{} for _ in group]

        def judge(index: int) -> Score:
            view = copy.copy(self)
            view._known = known[index]
            return view.score(prompt, group[index])

        def judge_part(part: str, completions: list[Completion]) -> None:
            for index, score in enumerate(judge_group(self.parts[part], self.part_prompt(prompt, part), completions)):
                known[index][part] = score

        return judge_in_group(group, tuple(self.parts), judge, judge_part)

    def check(self) -> None:
        """Check every part that is not optional."""
        for part, environment in self.parts.items():
            if part not in self.options.optional:
                environment.check()

    def prepare(self) -> None:
        """Load what the parts need for judging."""
        for environment in self.parts.values():
            if callable(prepare := getattr(environment, "prepare", None)):
                prepare()

    def examples(self) -> Sequence[Prompt]:
        """Return the primary part's sample tasks as tasks of the composition, or [] if another part needs references."""
        primary = self.parts[self.options.primary]
        return [self.around(task) for task in sample_tasks(primary)] if self._others() is not None else []

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return the primary part's task number `index` as a task of the composition.

        Raises:
            UsageError: the primary part generates no tasks, or another part needs reference fields.
        """
        primary = self.parts[self.options.primary]
        if not isinstance(primary, TaskSource):
            raise UsageError(f"{self.name!r}: its primary part {self.options.primary!r} generates no tasks of its own")
        if self._others() is None:
            raise UsageError(f"{self.name!r}: a part beside {self.options.primary!r} needs references; use env.prompt")
        return self.around(primary.prompt_at(split, seed, index))

    @property
    def generates_tasks(self) -> bool:
        """Return whether the primary part generates tasks and no other part needs references."""
        return self._others() is not None and generates_tasks(self.parts[self.options.primary])

    def canary(self, seed: int, index: int) -> Prompt | None:
        """Return the primary part's unsolvable task number `index` as a task of the composition.

        Return None if the primary part has no such tasks, or if another part needs references.
        """
        canary = canary_of(self.parts[self.options.primary], seed, index)
        return self.around(canary) if canary is not None and self._others() is not None else None

    def prompts(self, split: str = "train", seed: int = 0) -> Iterator[Prompt]:
        """Yield the primary part's tasks as tasks of the composition, without end."""
        return (self.prompt_at(split, seed, index) for index in itertools.count())

    def judge_part(self, part: str, prompt: Prompt, completion: Completion) -> Score:
        """Return the verdict of `part` on `completion`. It can be an ERROR only if the part is optional.

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
                raise GroupVerdictNeeded(part)
            self._known[part] = judge_one(environment, self.part_prompt(prompt, part), completion)
        return self._known[part]

    def _primary_first(self) -> list[str]:
        return sorted(self.parts, key=lambda part: part != self.options.primary)

    def _others(self) -> dict[str, Reference] | None:
        """Return the references of the non-primary parts, made without fields; None if a part requires fields."""
        references: dict[str, Reference] = {}
        for part, environment in self.parts.items():
            if part == self.options.primary:
                continue
            try:
                made = environment.prompt("")
            except UsageError:
                return None
            references.update(whole_references(part, environment, made.references))
        return references

    def around(self, task: Prompt) -> Prompt:
        """Return `task`, a task of the primary part, as a task of the composition. No other part may require references."""
        primary = self.options.primary
        references = {**whole_references(primary, self.parts[primary], task.references), **(self._others() or {})}
        return Prompt(messages=task.messages, environment=self.name, references=references, metadata=task.metadata)


def canary_of(environment: Environment, seed: int, index: int) -> Prompt | None:
    """Return `environment.canary(seed, index)`, or None if the environment has no such method."""
    canary = getattr(environment, "canary", None)
    prompt: Prompt | None = None if canary is None else canary(seed, index)
    return prompt


def sample_tasks(environment: Environment) -> Sequence[Prompt]:
    """Return `environment.examples()`, or an empty sequence if the environment has no such method."""
    examples = getattr(environment, "examples", None)
    return () if examples is None else list(examples())


def generates_tasks(environment: Environment) -> bool:
    """Return whether the environment generates tasks: by its attribute `generates_tasks`, else if it is a `TaskSource`."""
    own: bool | None = getattr(environment, "generates_tasks", None)
    return isinstance(environment, TaskSource) if own is None else own
