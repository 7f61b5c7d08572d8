"""Runs the calls of one episode, and finds out whether the call or our side is to blame when a tool fails.

A tool fails by raising EnvironmentFailure, OSError or ImportError. If our side is to blame, the episode has no reward. But the
model chooses the arguments: to avoid a bad reward, it could name a missing file, a host that does not answer, or endless work.

So controls decide, as in `contract/blame.py`. They are the tool's first and its last successful call in this process, in any
episode, and are repeated, each on a newly opened tool. If both controls fail, or there are none, our side is to blame. If one
succeeds, the failed call is made once more, also on a new tool. If it fails again, the call is to blame, and the model is told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from verigym.envs.contract.blame import OURS, describe, raised_by
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import ToolCall
from verigym.envs.tools.function import FunctionTool, OpenTool, Tool, ToolError, open_tool

LONGEST_CONTROL = 4096
"""Characters of a call that is kept as a control."""
_WHY = {"timeout": "it took too long", "crashed": "the tool ended"}
_FAILURES = (EnvironmentFailure, *OURS)


class Result(NamedTuple):
    """What came of a call."""

    text: str
    """What the model reads."""
    failed: bool = False
    """Whether the call is to blame for a failure of the tool."""
    bug: str = ""
    """An exception that the tool should not have raised, with its place in the code; empty if there was none."""


class Controls:
    """Control calls of each tool: its first and its last successful call, over all episodes of an environment in this process.

    They are repeated to find out whether a failed call or our side is to blame. The last successful call alone would not
    suffice, because the model may have chosen a call that works only once.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, JsonValue], ...]] = {}

    def answered(self, call: ToolCall) -> None:
        """Note that a call was answered."""
        if len(call.raw) <= LONGEST_CONTROL:
            self._known[call.name] = (*self._known.get(call.name, ())[:1], call.arguments)

    def arguments(self, name: str) -> Sequence[Mapping[str, JsonValue]]:
        """Return the arguments with which this tool has worked."""
        return self._known.get(name, ())


class OpenTools:
    """The tools of one episode, each opened when it is first called.

    Args:
        tools: the tools by name.
        seed: name of the episode.
        controls: calls that succeeded before. They are repeated to find out whether a failed call or our side is to blame.
    """

    def __init__(self, tools: Mapping[str, Tool], seed: str, controls: Controls) -> None:
        self._tools, self._seed, self._controls = tools, seed, controls
        self._open: dict[str, OpenTool] = {}
        self._failure: EnvironmentFailure | None = None

    def run(self, call: ToolCall, end: float) -> Result:
        """Run `call`, whose arguments match the tool's schema, and return the result.

        Args:
            call: the call that the model wrote.
            end: a `time.monotonic()` value. A call that fails later gets no second try: if a control call works, the failed
            call
                is to blame at once.

        Raises:
            EnvironmentFailure: the tool failed on our side, now or in an earlier call.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._run(call, end)
        except _FAILURES as error:
            self._failure = _ours(call.name, error)
            raise self._failure from error

    def _run(self, call: ToolCall, end: float) -> Result:
        held = bool(self._sharing(call.name))
        opened = self._opened(call.name)
        try:
            return self._called(opened, call)
        except _FAILURES as error:
            failure = _ours(call.name, error)
            if not self._works(call.name):
                raise failure from error
            stateless = isinstance(opened, FunctionTool)
            self._drop(call.name)
            if time.monotonic() < end:
                try:
                    result = self._called(self._opened(call.name), call)
                except _FAILURES as again:
                    error = again
                    self._drop(call.name)
                else:
                    if held and not stateless:  # what it held is lost, so the episode cannot go on
                        raise failure from error
                    return result
            return _blamed(call.name, error, stateless=stateless)

    def close(self) -> None:
        """Close all tools."""
        while self._open:
            self._open.popitem()[1].close()

    def _opened(self, name: str) -> OpenTool:
        if name not in self._open:
            self._open[name] = open_tool(self._tools[name], f"{self._seed}/{name}", self._open.values())
        return self._open[name]

    def _called(self, opened: OpenTool, call: ToolCall) -> Result:
        try:
            text = opened.call(call.arguments)
        except ToolError as error:
            text = f"Error: {error}"
        except (*_FAILURES, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a bug of the tool, which must not end the trainer
            return Result(f"Error: {describe(error)}", bug=f"{call.name}: {raised_by(error).cause}")
        self._controls.answered(call)
        return Result(text)

    def _works(self, name: str) -> bool:
        """Return whether the tool, opened anew, answers a call that it has answered before."""
        return any(self._answers(name, arguments) for arguments in self._controls.arguments(name))

    def _answers(self, name: str, arguments: Mapping[str, JsonValue]) -> bool:
        try:
            opened = open_tool(self._tools[name], f"{self._seed}/{name}/control", ())
            try:
                opened.call(arguments)
            finally:
                opened.close()
        except ToolError:
            return True
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            return False
        return True

    def _sharing(self, name: str) -> list[str]:
        """Return the open tools that share the state of one, itself among them, as the tools of one server do."""
        identity = self._tools[name].identity
        return [one for one in self._open if self._tools[one].identity == identity]

    def _drop(self, name: str) -> None:
        for one in self._sharing(name):
            self._open.pop(one).close()


def _ours(name: str, error: BaseException) -> EnvironmentFailure:
    if isinstance(error, EnvironmentFailure):
        return error
    return EnvironmentFailure("backend", f"tool {name!r}: {describe(error)}", retryable=True)


def _blamed(name: str, error: BaseException, *, stateless: bool) -> Result:
    """Return what becomes of a call that makes its tool fail."""
    if isinstance(error, EnvironmentFailure):
        said, bug = f"no result, for {_WHY.get(error.kind, 'the tool failed')}", ""
    else:
        said, bug = describe(error), f"{name}: {raised_by(error).cause}"
    lost = "" if stateless else "; the tool starts anew, and what it held is lost"
    return Result(f"Error: {said}{lost}", failed=True, bug=bug)
