"""Adapter for TRL: a reward function for mixtures, and environments with tools for TRL's `environment_factory`.

A missing reward is reported as None. If all reward functions return None for a completion, TRL leaves the completion out of its
group's mean and standard deviation and gives it the advantage 0. So use no second reward function: if that function gave a
number, for example a length penalty, TRL would train on the completion after all. Compose environments instead.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from inspect import Parameter, Signature
from types import TracebackType
from typing import Any, Literal, Self, Union

from verigym.adapters.episodes import Episodes, PlayedEpisode, refuse_other_formats, written_calls
from verigym.adapters.scoring import Scorer
from verigym.adapters.sources import Sources, SourcesLike
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, CompletionLike, Score
from verigym.envs.contract.session import Interactive, ToolSpec
from verigym.envs.grading.health import Health
from verigym.envs.grading.reference_columns import PromptLike, plain
from verigym.envs.grading.reward_function import begun, mean_parts, with_tokens
from verigym.envs.tools.environment import ToolSession

FAILED = "Error: no result."
"""The tool result that the model reads if a tool failed through no fault of the model. The episode then gets no reward."""
NO_COLUMNS = ("trainer_state", "log_extra")
"""What TRL passes beside the data set's columns."""


def reward_function(
    what: SourcesLike | Sources,
    *,
    columns: Mapping[str, str | None] | None = None,
    name: str | None = None,
    stop_after: int | None = 64,
    turn_timeout_s: float = 30.0,
    **settings: Any,
) -> RewardFunction:
    """Return a reward function for `GRPOTrainer(reward_funcs=...)`.

    Its methods `rows` and `environments` give the trainer's data set and `environment_factory`.

    Args:
        what: an environment, a data set, a suite or a mixture, as `open_sources` accepts it.
        columns: for rows that do not hold a whole task in the column `verigym`: maps each field of the environment's reference
            (what it grades against) to the row's column. See `verigym.reward_function`.
        name: the name under which the trainer logs the function; by default the sources' labels.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        turn_timeout_s: wall time in seconds that one tool call may take. TRL's `max_tool_calling_iterations` limits the
            number of calls.
        settings: keyword arguments of `Grader` and of `open_sources`.

    Raises:
        UsageError: `Scorer` refuses an argument.
    """
    scorer = Scorer(what, columns=columns, stop_after=stop_after, **settings)
    return RewardFunction(scorer, name or "+".join(scorer.sources.environments), turn_timeout_s)


class RewardFunction:
    """A reward function that TRL calls with lists; made by `reward_function`."""

    def __init__(self, scorer: Scorer, name: str, turn_timeout_s: float = 30.0) -> None:
        self.scorer = scorer
        self.__name__ = name  # under which TRL logs it
        self._episodes = Episodes(scorer, max_turns=None, turn_timeout_s=turn_timeout_s)

    def __repr__(self) -> str:
        return f"<TRL reward function of {self.scorer.sources!r}>"

    def __call__(
        self,
        prompts: Sequence[PromptLike],
        completions: Sequence[CompletionLike],
        *,
        completion_ids: Sequence[Sequence[int]] | None = None,
        environments: Sequence[Any] | None = None,
        log_metric: Callable[[str, float], object] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return a reward for each completion; None, never 0, if grading failed or the row cannot be used.

        Args:
            prompts: texts or lists of chat messages.
            completions: texts or lists of chat messages, one for each prompt.
            completion_ids: the token ids of each completion, for environments that count tokens.
            environments: the environment objects with which TRL has played the completions, from the method `environments`.
            log_metric: called with a name and a number for each metric: the share of completions without a reward, in all and
                by source, and the mean of each score component.
            columns: the columns of the data set, with one value for each prompt.

        Raises:
            UsageError: a column is missing, `stop_after` consecutive completions have got no reward, or a source has tools
                but TRL did not play its tasks with `environments`.
            ValueError: lists differ in length.
        """
        given = {name: values for name, values in columns.items() if name not in NO_COLUMNS}
        _refuse_unequal(prompts, completions, completion_ids, given)
        submitted: list[tuple[str, Future[Score] | None]] = []
        problems: list[str] = []
        for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            row = {name: plain(values[number]) for name, values in given.items()}
            try:
                label, task = self.scorer.task(row, prompt)
                tokens = None if completion_ids is None else completion_ids[number]
                played = None if environments is None else environments[number]
                done = self._completion(label, completion, tokens, played)
            except UsageError:  # of every row
                raise
            except ValueError as error:
                problems.append(f"row {number + 1}: {error}{begun(prompt)}")
                submitted.append(("", None))
            else:
                submitted.append((label, self.scorer.submit((label, task), done)))
        if problems:
            others = f" (and {len(problems) - 1} more of {len(prompts)} rows)" if len(problems) > 1 else ""
            so_far = self.scorer.health.unusable + len(problems)
            warnings.warn(f"{self.__name__}: no reward for {problems[0]}{others}; {so_far} so far", stacklevel=2)
        scores = [(label, None if future is None else future.result()) for label, future in submitted]
        rewards = [self.scorer.health.reward(score) for _, score in scores]
        if log_metric is not None and rewards:
            self._log(log_metric, [label for label, _ in scores], [score for _, score in scores], rewards)
        self.scorer.health.refuse_silence(problems)
        return rewards

    @property
    def health(self) -> Health:
        """Counts of completions with and without a reward."""
        return self.scorer.health

    def rows(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield `count` rows as `Sources.rows` does. A further column `environment` names the class that plays the row."""
        for row in self.scorer.sources.rows(count):
            yield {**row, "environment": row["source"]}

    def environments(self) -> dict[str, Callable[[], Any]]:
        """Return the argument of `GRPOTrainer(environment_factory=...)`: a class for each source, by label.

        Raises:
            UsageError: no source has tools, or a source has episodes without tools, or a source provides no tasks.
        """
        playing = self._episodes.playing
        if not playing:
            raise UsageError("environments: no source has tools; leave environment_factory out")
        tools = {label: self._tools(label) for label in playing}
        return {
            label: _environment_class(label, self.scorer, self._episodes, tools.get(label, ()))
            for label in self.scorer.sources.environments
        }

    def close(self) -> None:
        """End the worker processes."""
        self._episodes.close()
        self.scorer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _tools(self, label: str) -> Sequence[ToolSpec]:
        """Return the tools of a source whose episodes end with the first turn that calls none, as TRL's do."""
        environment = self.scorer.sources.environments[label]
        task = self.scorer.sources.first(label)
        assert isinstance(environment, Interactive)
        session = environment.open(task, "tools")
        try:
            if not isinstance(session, ToolSession):
                raise UsageError(
                    f"source {label!r}: TRL's environments are tools that the model calls; episodes in which the environment "
                    "answers a text are not played there. Train on them with verigym, verl, SkyRL or ART"
                )
            refuse_other_formats(label, environment, "TRL's tokenizer")
            return session.tools
        finally:
            session.close()

    def _completion(self, label: str, completion: CompletionLike, tokens: Sequence[int] | None, played: Any) -> Completion:
        if completion is None:
            raise ValueError("its completion is None")
        episode: PlayedEpisode | None = getattr(played, "_episode", None)
        if label not in self._episodes.playing:
            return with_tokens(Completion.of(completion), tokens)
        if episode is None:
            raise UsageError(
                f"source {label!r} has tools, which TRL calls only through environments: "
                "GRPOTrainer(environment_factory=rewards.environments()), with the rows of rewards.rows(...)"
            )
        return _played_to_its_end(episode, completion)

    def _log(
        self,
        log_metric: Callable[[str, float], object],
        labels: Sequence[str],
        scores: Sequence[Score | None],
        rewards: Sequence[float | None],
    ) -> None:
        log_metric(f"{self.__name__}/no_reward", rewards.count(None) / len(rewards))
        sources = Counter(labels)
        for label in self.scorer.sources.environments if len(self.scorer.sources.environments) > 1 else ():
            if sources[label]:
                lacking = sum(one == label and reward is None for one, reward in zip(labels, rewards, strict=True))
                log_metric(f"{label}/no_reward", lacking / sources[label])
        for part, mean in mean_parts([score for score in scores if score is not None]).items():
            log_metric(f"{self.__name__}/{part}", mean)


def _refuse_unequal(
    prompts: Sequence[Any], completions: Sequence[Any], completion_ids: Sequence[Any] | None, columns: Mapping[str, Any]
) -> None:
    """Refuse lists of unequal lengths, and columns that are none.

    Raises:
        ValueError: lists differ in length.
        UsageError: a column is no list.
    """
    lengths = {"prompts": len(prompts), "completions": len(completions)}
    if completion_ids is not None:
        lengths["completion_ids"] = len(completion_ids)
    for name, values in columns.items():
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise UsageError(f"column {name!r} is {type(values).__name__}; expected a list, one value for each prompt")
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the reward function got lists of unequal lengths: {given}")


def _played_to_its_end(episode: PlayedEpisode, completion: CompletionLike) -> Completion:
    """Return the episode with the model's last text, which TRL gives no environment."""
    last = completion[-1] if isinstance(completion, list | tuple) and completion else {"content": completion}
    if not episode.over:
        if last.get("role", "assistant") != "assistant":  # the model had no room to go on
            episode.end("length")
        else:
            content = last.get("content")
            text = "" if content is None else Completion.of([{"role": "assistant", "content": content}]).text
            episode.end("turns" if last.get("tool_calls") else "stop", text)
    return episode.completion()


class _Environment:
    """What TRL resets for each completion; its methods are the tools."""

    _scorer: Scorer
    _episodes: Episodes
    _episode: PlayedEpisode | None = None

    def reset(self, **row: Any) -> None:
        """Begin the episode of a row."""
        self._end()
        self._episode = None
        try:
            label, prompt = self._scorer.task(row, row.get("prompt"))
        except UsageError:  # of every row
            raise
        except ValueError:  # the reward function says so, and gives it no reward
            return
        if label not in self._episodes.playing:
            return
        self._episode = self._episodes.open((label, prompt), self._episodes.next_seed(prompt))

    def _end(self) -> None:
        if self._episode is not None and not self._episode.over:
            self._episode.end("abort")

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        episode = self._episode
        if episode is None or episode.over:  # it failed
            return FAILED
        replies = episode.turn(written_calls([(name, arguments)]))
        return "\n".join(message.content for message in replies) or FAILED


def _environment_class(label: str, scorer: Scorer, episodes: Episodes, tools: Sequence[ToolSpec]) -> type[_Environment]:
    methods: dict[str, Any] = {spec.name: _method(spec) for spec in tools}
    for name in methods:
        if name == "reset" or name == "get_reward" or name.startswith("_"):
            raise UsageError(f"source {label!r}: TRL takes a tool named {name!r} for its own method; give it another name")
    fields = {"_scorer": scorer, "_episodes": episodes, "__doc__": f"Tools of {label!r}."}
    return type("VerigymEnvironment", (_Environment,), {**fields, **methods})


def _method(spec: ToolSpec) -> Callable[..., str]:
    """Return a tool as a method whose signature and docstring say what its schema says, for TRL reads these."""

    def method(self: _Environment, **arguments: Any) -> str:
        return self._call(spec.name, arguments)

    properties: Any = spec.parameters.get("properties") or {}
    required: Any = spec.parameters.get("required") or ()
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    hints: dict[str, Any] = {"return": str}
    lines = []
    for name, schema in properties.items():
        hints[name] = _type(schema)
        default = Parameter.empty if name in required else schema.get("default")
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]))
        lines.append(f"    {name}: {_described(name, schema)}")
    method.__name__ = method.__qualname__ = spec.name
    method.__doc__ = " ".join(spec.description.split()) + ("\n\nArgs:\n" + "\n".join(lines) if lines else "")
    method.__annotations__ = hints
    method.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method


_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "array": list}


def _type(schema: Mapping[str, Any]) -> Any:
    """Return the type that a JSON schema describes, as near as Python's types come; the session checks the arguments."""
    if isinstance(choices := schema.get("enum"), list) and choices:
        return Literal[tuple(choices)]
    if isinstance(options := schema.get("anyOf"), list) and options:
        return Union[tuple(type(None) if one.get("type") == "null" else _type(one) for one in options)]  # noqa: UP007
    kind = schema.get("type")
    if kind == "array" and isinstance(items := schema.get("items"), Mapping):
        return list[_type(items)]  # type: ignore[misc]
    return _TYPES.get(kind if isinstance(kind, str) else "", str)


def _described(name: str, schema: Mapping[str, Any]) -> str:
    """Return what is said of a parameter: its description and its bounds, on one line."""
    bounds = [
        f"{said} {schema[key]}"
        for key, said in (("minimum", "at least"), ("maximum", "at most"), ("minLength", "characters at least"))
        if key in schema
    ]
    text = " ".join(str(schema.get("description") or name).split())
    return f"{text} ({', '.join(bounds)})" if bounds else text
