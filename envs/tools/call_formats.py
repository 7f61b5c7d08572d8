"""Formats in which models write tool calls: the formats by name, and the interface of a format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import ToolCall
from verigym.envs.contract.session import ToolSpec
from verigym.envs.tools import hermes, qwen_xml


@runtime_checkable
class CallFormat(Protocol):
    """A way to write calls of tools."""

    @property
    def identity(self) -> str:
        """What names it: part of the grader's identity."""

    @property
    def example(self) -> str:
        """Return an example of a call, shown to a model that wrote no valid call between the tags."""

    @property
    def end(self) -> str:
        """What closes a call, for the model that left it out."""

    def read(self, text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Return the calls in `text`, a turn of the model, in order and including malformed ones. It never raises."""


class Hermes:
    """JSON in `<tool_call>` tags: the call format of Hermes, Qwen2.5 and Qwen3."""

    identity = "hermes"
    example = f'{hermes.OPEN}{{"name": ..., "arguments": {{...}}}}{hermes.CLOSE}'
    end = f"the closing tag {hermes.CLOSE}"

    def read(self, text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Return the calls in a turn of the model."""
        return hermes.read_calls(text)


class QwenXml:
    """One XML element per parameter: the call format of Qwen3-Coder and Qwen3.5."""

    identity = "qwen_xml"
    example = (
        f"{hermes.OPEN}\n<function=...>\n<parameter=...>\n...\n</parameter>\n</function>\n{hermes.CLOSE}, each parameter once"
    )
    end = f"a closing tag, </parameter>, </function> or {hermes.CLOSE},"

    def read(self, text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Return the calls in a turn of the model."""
        return qwen_xml.read_calls(text, tools)


FORMATS: dict[str, CallFormat] = {"hermes": Hermes(), "qwen_xml": QwenXml()}
DEFAULT = "hermes"


def call_format(calls: str | CallFormat) -> CallFormat:
    """Return the call format that `calls` names, or `calls` itself if it is a CallFormat.

    Raises:
        UsageError: `calls` is neither the name of a format nor a CallFormat.
    """
    if isinstance(calls, CallFormat):
        return calls
    if calls not in FORMATS:
        known = " or ".join(map(repr, FORMATS))
        hint = did_you_mean(calls, FORMATS) if isinstance(calls, str) else ""
        raise UsageError(f"calls={calls!r}: expected {known}, or a format such as ResponseTemplate{hint}")
    return FORMATS[calls]
