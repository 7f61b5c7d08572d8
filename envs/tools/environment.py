"""`ToolEnvironment`: gives any one-turn environment tools to call before the answer. The inner environment still judges."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from verigym.envs.composition.base import canary_of, generates_tasks, sample_tasks
from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.contract.base import Environment, ExpectedVerdicts, Options, TaskSource, require_environment
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.schema import (
    Completion,
    CompletionLike,
    Fault,
    Message,
    Prompt,
    Reference,
    Score,
    ToolCall,
    Turn,
    canonical_json,
    sha256_hex,
)
from verigym.envs.contract.session import Reply, ToolSpec, with_tools
from verigym.envs.grading.judging import grades_groups, is_hardened
from verigym.envs.tools.call_formats import DEFAULT, CallFormat, call_format
from verigym.envs.tools.function import OpenTool, Tool, open_tool
from verigym.envs.tools.running import Controls, OpenTools

VERSION = "1"
TURN_S = 15.0
"""Default seconds for the calls of a turn. It is half of `Sessions(timeout_s=30)`, so that slow calls do not end a worker."""


class ToolOptions(Options):
    """What the episodes of a `ToolEnvironment` allow."""

    inner: str
    """Grader id of the environment that judges."""
    tools: tuple[str, ...]
    """Name, schema and code of each tool, as a hash."""
    max_reply_chars: int = Field(ge=64)
    """A longer result of a tool is cut in the middle, and says so."""
    max_calls: int = Field(ge=1)
    """Most calls of one turn. Further calls are not run, and the model gets one message that says so."""
    max_turn_s: float = Field(default=TURN_S, gt=0, exclude_if=lambda seconds: seconds == TURN_S)
    """Seconds after which no further call of a turn is started. The model is told."""
    calls: str = Field(default=DEFAULT, exclude_if=lambda calls: calls == DEFAULT)
    """The format in which the model writes calls."""


class ToolEnvironment:
    """An environment whose model may call tools before it answers.

    Prompts, references and verdicts are those of `inner`, which reads only the assistant's last turn, so the result of a tool
    is never judged as the model's answer.

    Args:
        inner: the environment that judges.
        tools: tools made by `@tool`, or tools with a state (`Tool`).
        name: name of this environment; by default the inner name followed by `_with_tools`.
        max_reply_chars: maximum length of a tool's result in characters; a longer one is cut in the middle.
        max_calls: maximum number of calls in one turn.
        max_turn_s: seconds after which no further call of a turn is started.
        calls: format in which the model writes calls: hermes, qwen_xml, or a `CallFormat`, such as a `ResponseTemplate`.

    Raises:
        UsageError: no tool is given, an element is not a tool, two tools have the same name, a limit is too small, or the
            format is unknown.
    """

    version = VERSION

    def __init__(
        self,
        inner: Environment,
        tools: Sequence[Tool],
        *,
        name: str = "",
        max_reply_chars: int = 4096,
        max_calls: int = 8,
        max_turn_s: float = TURN_S,
        calls: str | CallFormat = DEFAULT,
    ) -> None:
        self.inner = inner = require_environment(inner, "ToolEnvironment")
        self.name = name or f"{inner.name}_with_tools"
        for tool in tools:
            if not isinstance(getattr(tool, "spec", None), ToolSpec):
                raise UsageError(f"{self.name!r}: {tool!r} is no tool: write @tool above the function")
        self.tools = {tool.spec.name: tool for tool in tools}
        if grades_groups(inner):
            raise UsageError(f"{inner.name!r} compares the completions of a prompt; episodes with tools are judged one by one")
        if not tools:
            raise UsageError(f"{self.name!r} has no tools: give at least one, such as tools=[calculator]")
        if len(self.tools) < len(tools):
            twice = Counter(tool.spec.name for tool in tools).most_common(1)[0][0]
            raise UsageError(f"{self.name!r} has two tools named {twice!r}: give one of them another name, @tool(name=...)")
        self.calls = call_format(calls)
        try:
            self.options = ToolOptions(
                inner=inner.grader,
                tools=tuple(_identity(tool) for tool in tools),
                max_reply_chars=max_reply_chars,
                max_calls=max_calls,
                max_turn_s=max_turn_s,
                calls=self.calls.identity,
            )
        except ValidationError as error:
            raise UsageError(f"options of {self.name!r}: {explain(error, ToolOptions.model_fields)}") from None
        digest = sha256_hex(canonical_json(self.options.model_dump(mode="json")))[:8]
        self.grader = f"{self.name}@{self.version}+{digest}"
        self._controls = Controls()

    def __repr__(self) -> str:
        return f"<{self.grader}>"

    @property
    def hardened(self) -> bool:
        """Whether the inner environment is."""
        return is_hardened(self.inner)

    @property
    def scores_steps(self) -> bool:
        """Whether the inner environment scores steps."""
        return scores_steps(self.inner)

    @property
    def reference_type(self) -> type[Reference] | None:
        """Return the inner environment's reference type, or None if the inner environment is a composition."""
        return getattr(self.inner, "reference_type", None)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Floor and maximum of the inner environment."""
        return self.inner.reward_range

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Those of the inner environment."""
        return self.inner.expected_verdicts

    def prompt(self, text: str | Sequence[Message], /, **reference: Any) -> Prompt:
        """Return a task made from `text` and `reference`, the fields of the inner environment's reference."""
        return self._ours(self.inner.prompt(text, **reference))

    def load_prompt(self, data: Mapping[str, Any]) -> Prompt:
        """Return the prompt whose JSON form is `data`.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        if data["environment"] != self.name:
            raise UsageError(f"{self.name!r} was given a prompt made for {data['environment']!r}")
        fields = {name: value for name, value in data.items() if name != "key"}
        prompt = self._ours(self.inner.load_prompt({**fields, "environment": self.inner.name}))
        if data.get("key", prompt.key) != prompt.key:
            raise ValueError(f"key {data['key']!r} does not belong to this prompt, whose content hashes to {prompt.key!r}")
        return prompt

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion that scores the maximum without a tool call, or None if the inner environment has none."""
        return self.inner.gold(self._inner(prompt))

    def score(self, prompt: Prompt, completion: CompletionLike) -> Score:
        """Return the inner environment's score of `completion`, an episode or a single text.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        inner, candidate = self._inner(prompt), Completion.of(completion)
        score = Score.of_episode(candidate, self.reward_range[0], hardened=self.hardened) or self.inner.score(inner, candidate)
        return score.model_copy(update={"grader": self.grader})

    def check(self) -> None:
        """Check the inner environment, and open each tool once."""
        self.inner.check()
        opened: list[OpenTool] = []
        try:
            for tool in self.tools.values():
                opened.append(open_tool(tool, "check", opened))
        finally:
            for one in opened:
                one.close()

    @property
    def generates_tasks(self) -> bool:
        """Whether the inner environment generates tasks."""
        return generates_tasks(self.inner)

    def examples(self) -> Sequence[Prompt]:
        """Return the inner environment's sample tasks."""
        return [self._ours(prompt) for prompt in sample_tasks(self.inner)]

    def canary(self, seed: int, index: int) -> Prompt | None:
        """Return the inner environment's unsolvable task number `index`, or None if it has none."""
        canary = canary_of(self.inner, seed, index)
        return None if canary is None else self._ours(canary)

    def prepare(self) -> None:
        """Load what the inner environment needs for judging."""
        if callable(prepare := getattr(self.inner, "prepare", None)):
            prepare()

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return the inner environment's task number `index` as a task with tools.

        Raises:
            UsageError: the inner environment generates no tasks.
        """
        if not isinstance(self.inner, TaskSource):
            raise UsageError(
                f"{self.name!r}: {self.inner.name!r} generates no tasks of its own; make prompts with env.prompt(...)"
            )
        return self._ours(self.inner.prompt_at(split, seed, index))

    def prompts(self, split: str = "train", seed: int = 0) -> Iterator[Prompt]:
        """Yield the inner environment's tasks, endlessly."""
        return (self.prompt_at(split, seed, index) for index in itertools.count())

    def around(self, task: Prompt) -> Prompt:
        """Return `task`, a task of the inner environment, as a task of this one."""
        return self._ours(task)

    def open(self, prompt: Prompt, seed: str) -> ToolSession:
        """Return the session of a new episode on `prompt`.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        self._inner(prompt)
        return ToolSession(self.tools, self.options, seed, self.calls, self._controls)

    def _ours(self, prompt: Prompt) -> Prompt:
        return with_tools(_renamed(prompt, self.name), [tool.spec for tool in self.tools.values()])

    def _inner(self, prompt: Prompt) -> Prompt:
        if not isinstance(prompt, Prompt):
            raise TypeError(f"{self.name!r} scores prompts made with env.prompt(...), not {type(prompt).__name__}")
        if prompt.environment != self.name:
            raise UsageError(f"{self.name!r} was given a prompt made for {prompt.environment!r}")
        return _renamed(prompt, self.inner.name)


def _renamed(prompt: Prompt, environment: str) -> Prompt:
    return Prompt(messages=prompt.messages, environment=environment, references=prompt.references, metadata=prompt.metadata)


def _identity(tool: Tool) -> str:
    return f"{tool.spec.name}+{sha256_hex(canonical_json([tool.spec.model_dump(mode='json'), tool.identity]))[:8]}"


class ToolSession:
    """One episode with tools. It runs the calls of each turn, and a turn without a call ends it.

    Args:
        tools: the tools by name.
        options: limits on the calls of a turn.
        seed: any text that names the episode; the tools' random numbers are derived from it.
        calls: format in which the model writes calls; by default the format named in `options`.
        controls: successful calls, shared by all episodes of an environment. They are repeated to find out whether a failed
        call
            or our side is to blame.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        options: ToolOptions,
        seed: str,
        calls: CallFormat | None = None,
        controls: Controls | None = None,
    ) -> None:
        self._tools, self._options = tools, options
        self._format = call_format(options.calls) if calls is None else calls
        self._opened = OpenTools(tools, seed, Controls() if controls is None else controls)
        self._calls: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._bugs: list[str] = []
        self._closed = False

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        return [tool.spec for tool in self._tools.values()]

    def read(self, text: str) -> Turn:
        """Return a text of the model as a turn, with its calls."""
        calls = [
            call if (fault := self._fault(call)) is None else call.model_copy(update={"fault": fault})
            for call in self._format.read(text, self.tools)
        ]
        return Turn(role="assistant", text=text, calls=tuple(calls))

    def respond(self, turn: Turn) -> Reply:
        """Run the calls in `turn`, in order, and return their results.

        A turn without a call is the answer and ends the episode.

        Raises:
            EnvironmentFailure: a tool failed on our side.
            UsageError: the session is closed.
        """
        if self._closed:
            raise UsageError("the session is closed: each episode opens its own, env.open(prompt, seed)")
        if not turn.calls:
            return Reply(done=True)
        most, end = self._options.max_calls, time.monotonic() + self._options.max_turn_s
        messages = [self._answer(call, end) for call in turn.calls[:most]]
        if (left := len(turn.calls) - most) > 0:  # one message for all: a call that is one token must not be answered by twenty
            self._faults["too_many"] += left
            messages.append(
                self._message(
                    turn.calls[most],
                    f"Error: the last {left} calls were not run, for one turn may make {most}"
                    if left > 1
                    else f"Error: not run, for one turn may make {most} calls",
                )
            )
        return Reply(messages=tuple(messages))

    def close(self) -> Mapping[str, JsonValue]:
        """Close the tools.

        Return the number of calls by tool, the number of malformed calls, and the exceptions that tools raised.
        """
        self._closed = True
        self._opened.close()
        outcome: dict[str, JsonValue] = {"calls": dict(self._calls), "faults": dict(self._faults)}
        return {**outcome, "tool_exceptions": list(self._bugs)} if self._bugs else outcome

    def _fault(self, call: ToolCall) -> Fault | None:
        if call.fault is not None:
            return call.fault
        if call.name not in self._tools:
            return "unknown"
        return "schema" if self._tools[call.name].misfit(call.arguments) else None

    def _answer(self, call: ToolCall, end: float) -> Message:
        if call.fault is not None:
            self._faults[call.fault] += 1
            text = "Error: " + self._complaint(call)
        elif time.monotonic() >= end:
            self._faults["too_late"] += 1
            text = f"Error: not run, for the calls before it took more than {self._options.max_turn_s:g} s"
        else:
            text = self._run(call, end)
        return self._message(call, text)

    def _message(self, call: ToolCall, text: str) -> Message:
        name = call.name if call.name in self._tools else "tool"
        return Message(role="tool", name=name, content=_capped(text, self._options.max_reply_chars))

    def _complaint(self, call: ToolCall) -> str:
        if call.fault == "json":
            return f"no call was read between the tags: write {self._format.example}"
        if call.fault == "unclosed":
            return f"no call was read, for {self._format.end} is missing"
        if call.fault == "unknown":
            return f"there is no tool {call.name[:64]!r}; the tools are {', '.join(self._tools)}"
        return f"the arguments do not fit: {self._tools[call.name].misfit(call.arguments)}"

    def _run(self, call: ToolCall, end: float) -> str:
        self._calls[call.name] += 1
        result = self._opened.run(call, end)
        if result.failed:
            self._faults["failed"] += 1
        if result.bug:
            self._bugs.append(result.bug)
        return result.text


def _capped(text: str, most: int) -> str:
    """Return a text of at most about so many characters: its beginning and its end, with what is left out counted."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
