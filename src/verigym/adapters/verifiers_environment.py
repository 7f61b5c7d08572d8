"""`VerifiersEnvironment`: a verigym environment with the tasks and reward functions of a taskset of the library verifiers.

    verigym.load("verigym.adapters.verifiers_environment:VerifiersEnvironment", taskset="gsm8k-v1")

The reward functions run in verigym's worker processes. Each prompt carries its task as JSON, so prompts can be trained on,
saved and graded again as in any other environment.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import math
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pydantic import Field, JsonValue, model_validator

from verigym.adapters.bounds import bounded_sum
from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.blame import OURS
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Turn, canonical_json
from verigym.envs.extras import need

WHAT = "VerifiersEnvironment"
RETRYABLE_STATUS = (408, 429)
"""Of a provider, beside those from 500 on."""


class VerifiersOptions(Options):
    """Options of `VerifiersEnvironment`."""

    taskset: str
    """Id of the taskset: the installed package that exports it."""
    config: Mapping[str, JsonValue] = {}
    """Settings of the taskset, as `--env.taskset.*` takes them."""
    floor: float = Field(default=0.0, allow_inf_nan=False)
    """The lowest sum of the weighted rewards."""
    maximum: float = Field(default=1.0, allow_inf_nan=False)
    """The highest sum of the weighted rewards, which verifiers itself does not declare. A sum below `floor` or above `maximum`
    is a failure of the environment, not of the model."""

    @model_validator(mode="after")
    def _ordered(self) -> VerifiersOptions:
        if self.floor >= self.maximum:
            raise ValueError(f"floor {self.floor} is not below maximum {self.maximum}")
        return self


class VerifiersTask(Reference):
    """A task of verifiers."""

    data: Mapping[str, JsonValue]
    """The fields of its `TaskData`."""


class VerifiersEnvironment(BaseEnvironment[VerifiersTask, VerifiersOptions]):
    """Environment that takes its tasks from a taskset of verifiers, and grades with the rewards and judges of the taskset.

    Raises:
        UsageError: verifiers or the taskset is not installed; the taskset's tasks need a sandbox, tools or a special Env, which
            are not available when a single text is graded; or the taskset refuses a setting.
    """

    name = "verifiers"
    version = "1"
    reference_type = VerifiersTask
    options_type = VerifiersOptions
    expected_verdicts = ExpectedVerdicts(gold="free", empty="free", echo="free", garbage="free", hacks="free")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._settings = canonical_json({**self.options.config, "id": self.options.taskset})
        _opened(self._settings)

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """The options `floor` and `maximum`."""
        return self.options.floor, self.options.maximum

    def prepare(self) -> None:
        """Import the taskset."""
        _opened(self._settings)

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return task number `index` of `split`, in the taskset's order; after the last task it starts again with the first.

        A taskset has no splits of its own. If it is finite, every tenth task, beginning with the first, belongs to `test`, and
        all other tasks to `train`.
        """
        return self._asked(_opened(self._settings).task(split, index))

    def examples(self) -> Sequence[Prompt]:
        """Return the first tasks."""
        return [self._asked(task) for task in itertools.islice(_opened(self._settings).taskset, 2)]

    def judge(self, prompt: Prompt, reference: VerifiersTask, completion: Completion) -> Score:
        """Return a score whose reward is the sum of the task's weighted rewards."""
        opened = _opened(self._settings)
        trace = opened.trace(reference.data, prompt, completion)
        with _typed(opened.errors):
            _run(opened.made(reference.data).score(trace, None))
        if unscored := [name for name, reward in trace.rewards.items() if reward is None]:
            raise EnvironmentFailure("backend", f"the task gave no reward {', '.join(unscored)}")
        if not trace.rewards:
            raise EnvironmentFailure("gold_invalid", f"tasks of {self.options.taskset!r} have no rewards")
        said: dict[str, float | None] = {**trace.metrics, **{name: one.score for name, one in trace.rewards.items()}}
        parts = {name: value if value is not None and math.isfinite(value) else None for name, value in said.items()}
        low, high = self.reward_range
        total = bounded_sum(trace.reward, low, high)
        answer = completion.text.strip()[-80:]
        if total == high:
            return Score.correct(reward=high, answer=answer, components=parts)
        if total == low:
            return Score.incorrect(reward=low, answer=answer, components=parts)
        return Score.partial(total, answer=answer, components=parts)

    def _asked(self, task: Any) -> Prompt:
        data = task.data
        asked = [{"role": "user", "content": data.prompt}] if isinstance(data.prompt, str) else _plain(data.prompt)
        if data.system_prompt:
            asked.insert(0, {"role": "system", "content": data.system_prompt})
        fields = data.model_dump(mode="json", exclude_none=True)
        return self.prompt(asked, data=fields, metadata={"taskset": self.options.taskset, "index": data.idx})


class _Opened:
    """A taskset of verifiers, with what of the package judging needs."""

    def __init__(self, settings: str) -> None:
        loaders, config = need("verifiers.v1.utils.loaders", WHAT), json.loads(settings)
        self.vf = need("verifiers.v1", WHAT)
        self.errors = need("verifiers.v1.errors", WHAT)
        name = config["id"]
        try:
            kind = loaders.taskset_class(name)
            self.taskset = kind(loaders.taskset_config_type(name).model_validate(config))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"taskset {name!r} cannot be opened: {' '.join(str(error).split())[:300]}") from None
        self.kind = kind.task_type()
        environment = loaders.environment_class(name)
        if environment is not loaders.SingleAgentEnv:
            raise UsageError(
                f"taskset {name!r} has an Env of its own ({environment.__name__}), which plays its tasks; a judge cannot"
            )
        if self.kind.toolsets(self.taskset.config.task) or self.taskset.toolsets(self.taskset.config):
            raise UsageError(f"taskset {name!r} has tools, which verifiers serves in a rollout; a judge cannot")
        probe = self.kind.__new__(self.kind)
        probe.config = self.taskset.config.task
        hooks = [*probe.hooks("metric"), *probe.hooks("reward"), *(one.score for one in probe.plugged_judges())]
        if needing := [one.__qualname__ for one in hooks if _needs_runtime(one)]:
            raise UsageError(f"taskset {name!r}: {', '.join(needing)} need a sandbox (`runtime`), which a judge does not have")
        self._tasks: list[Any] = []
        self._more: Iterator[Any] = iter(self.taskset)
        self._lock = threading.Lock()

    def task(self, split: str, index: int) -> Any:
        """Return a task of a split. Endless tasksets lend both splits by parity."""
        if self.taskset.bounded:
            self._read(None)
            own = [one for place, one in enumerate(self._tasks) if (place % 10 == 0) is (split == "test")]
            if not own:
                raise UsageError(f"taskset {self.taskset.config.id!r} has no tasks for the split {split!r}")
            return own[index % len(own)]
        place = 2 * index + (split == "test")
        self._read(place + 1)
        return self._tasks[place]

    def _read(self, count: int | None) -> None:
        with self._lock:
            while count is None or len(self._tasks) < count:
                task = next(self._more, None)
                if task is None:
                    break
                self._tasks.append(task)

    def made(self, data: Mapping[str, Any]) -> Any:
        """Return a task of its data."""
        return self.kind(self.kind.data_type().model_validate(dict(data)), self.taskset.config.task)

    def trace(self, data: Mapping[str, Any], prompt: Prompt, completion: Completion) -> Any:
        """Return the trace of a completion: the prompt's messages, then the turns of the model and what it read."""
        vf, task = self.vf, self.made(data)
        graph, traces = need("verifiers.v1.graph", WHAT), need("verifiers.v1.trace", WHAT)
        state = need("verifiers.v1.state", WHAT).state_cls(self.kind)()
        trace = vf.Trace(
            task=traces.TraceTask(type=self.kind.__name__, data=task.data, key=task.key, hash=task.hash),
            agent=traces.AgentInfo(config=vf.AgentConfig(model="policy")),
            state=state,
        )
        kinds = {"system": vf.SystemMessage, "user": vf.UserMessage, "assistant": vf.AssistantMessage}
        messages = [(kinds[one.role](content=one.content), False) for one in prompt.messages]
        turns = completion.turns or (Turn(role="assistant", text=completion.text),)
        for number, turn in enumerate(turns):
            if turn.role == "tool":
                messages.append((vf.ToolMessage(tool_call_id=str(number), content=turn.text, name=turn.name), False))
            else:
                messages.append((kinds[turn.role](content=turn.text), turn.role == "assistant"))
        for place, (message, sampled) in enumerate(messages):
            trace.nodes.append(graph.MessageNode(message=message, sampled=sampled, parent=place - 1 if place else None))
        ended = "length" if completion.cut_off else "stop"
        trace.calls.append(traces.ModelCall(node=len(trace.nodes) - 1, model="policy", finish_reason=ended))
        trace.is_completed = trace.ok = True
        return trace


@lru_cache(maxsize=16)
def _opened(settings: str) -> _Opened:
    """Open a taskset once in each process."""
    return _Opened(settings)


def _needs_runtime(hook: Any) -> bool:
    parameter = inspect.signature(hook).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _plain(messages: Any) -> list[dict[str, str]]:
    """Return messages of verifiers as texts; a task that the user opens has none."""
    if not messages:
        raise UsageError("a task has no prompt: its conversation is opened by a user, which a verdict on a text does not have")
    plain = []
    for one in messages:
        if not isinstance(one.content, str):
            raise UsageError("a task's prompt has parts that are no text, which our prompts do not have")
        plain.append({"role": one.role, "content": one.content})
    return plain


@contextmanager
def _typed(errors: Any) -> Iterator[None]:
    """Turn errors of verifiers into ours, by the boundary that they name.

    What the task's own code raised is raised as it was, for the blame rule to decide.
    """
    try:
        yield
    except errors.TaskError as error:
        cause = error.__cause__
        if isinstance(cause, TimeoutError):
            raise EnvironmentFailure("timeout", str(error), retryable=True) from None
        if isinstance(cause, Exception) and not isinstance(cause, OURS):
            raise cause from None
        raise EnvironmentFailure("backend", str(error), retryable=cause is not None) from None
    except errors.RolloutError as error:
        status = getattr(error, "status_code", None)
        again = status is None or status >= 500 or status in RETRYABLE_STATUS
        raise EnvironmentFailure("backend", f"{type(error).__name__}: {error}", retryable=again) from None


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; in a thread of its own where this one runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    raised: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
