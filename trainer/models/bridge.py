"""Makes the tokens between two turns of the model in an episode; tokens that were sampled are never tokenised again.

The input of the next turn is the tokens so far, including the sampled ones, then the replies with the text that the chat
template puts around them. To get this text, the template renders a conversation in which the text of the assistant's turn is a
mark; what follows the mark is the text of the replies. So the tokens of earlier turns are always an exact prefix of the next
input, even if a tokenizer would split the whole text differently. Some templates leave out the thinking of earlier turns. They
can be used, too; the thinking stays in the input, because the tokens of earlier turns are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Message
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.control_tokens import HERE, ControlTokens

Tools = Sequence[Mapping[str, Any]]
"""Descriptions of tools, in the form that chat templates take and `Prompt.metadata` holds."""

_USER = {"role": "user", "content": "What is asked"}
_REMEDY = (
    "conversations need a template that writes every turn in the same way, whatever its text and whatever follows: set "
    "tokenizer.chat_template to such a variant, or train on tasks of one turn"
)


class Bridge:
    """Makes the tokens between two turns of the model in an episode.

    These tokens hold the replies of tools or the user, and the text that the chat template puts around the replies. The texts
    of replies are data: an `<|im_end|>` or a `</tool_response>` in the result of a tool is encoded as ordinary text.

    Args:
        codec: the policy's tokenizer and its end tokens.
    """

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._name = codec.name
        self._shielded: tuple[Tools, Any] = ((), None)
        self._calls_needed: bool | None = None

    def after(self, written: Sequence[int], replies: Sequence[Message], tools: Tools = ()) -> tuple[int, ...]:
        """Return the tokens that the model reads after its turn: the replies, and the text that opens its next turn.

        The template writes an end token after the model's turn. If the model has sampled this token itself, the result does not
        repeat it. If the turn was cut off or ended with another end token, the result begins with the template's end token.

        Args:
            written: the tokens of the turn as they were sampled, with the end token if there was one.
            replies: messages of the roles `tool` and `user`.
            tools: the tools of the prompt, as chat templates take them.

        Raises:
            EnvironmentFailure: the template cannot write these replies, although it could write the replies that `check` tried.
        """
        control = self._control
        try:
            ids = control.encode(self._suffix(replies, tools))
        except Exception as error:  # whatever a template raises
            raise EnvironmentFailure("internal", f"the chat template of {self._name}: {_told(error)}") from error
        return ids[1:] if written and ids and written[-1] == ids[0] else ids

    def check(self, tools: Tools = ()) -> None:
        """Check that the chat template can continue episodes, by rendering replies, thinking and a turn that was cut off.

        Args:
            tools: the tools of the episodes, as chat templates take them. Without tools, replies of tools are not tried.

        Raises:
            UsageError: there is no chat template, or it cannot be used to continue after a turn.
        """
        if not self.codec.tokenizer.chat_template:
            raise UsageError(f"{self._name} has no chat template, and conversations need one: set tokenizer.chat_template")
        self._control  # noqa: B018  refuses tokenizers that cannot be copied
        for name, probe in self._probes(tools):
            try:
                problem = probe()
            except Exception as error:  # whatever a template raises
                problem = _told(error)
            if problem:
                raise UsageError(f"the chat template of {self._name} fails the probe of {name}: {problem}; {_REMEDY}")

    @property
    def _control(self) -> ControlTokens:
        if self.codec.control is None:
            raise UsageError(
                f"{self._name} is no fast tokenizer, and conversations need one, which keeps control tokens out of replies: "
                "load it with AutoTokenizer.from_pretrained(..., use_fast=True)"
            )
        return self.codec.control

    def _suffix(self, replies: Sequence[Message], tools: Tools, text: str = HERE) -> str:
        """Return the text that the template writes after the assistant's message `text`, which ends with the marker `HERE`."""
        shielded = self._control.shield([reply.model_dump() for reply in replies])
        callers = [reply["name"] for reply in shielded if reply["role"] == "tool"]
        if callers and self._needs_calls(tools):
            return self._suffix_of_calls(shielded, callers, tools)
        turns: list[Any] = [_USER, {"role": "assistant", "content": text}, *shielded]
        parts = self._render(turns, tools).split(HERE)
        if len(parts) != 2:
            raise ValueError(f"it writes the text of the assistant's turn {len(parts) - 1} times, expected once")
        return parts[1]

    def _suffix_of_calls(self, replies: Sequence[Mapping[str, Any]], callers: Sequence[str], tools: Tools) -> str:
        """Return the same as `_suffix`, for a template that writes tool replies only after structured calls."""
        calls = [{"type": "function", "function": {"name": name, "arguments": {}}} for name in callers]
        turns: list[Any] = [_USER, {"role": "assistant", "content": "", "tool_calls": calls}]
        before, whole = self._render(turns, tools, reply=False), self._render([*turns, *replies], tools)
        if not whole.startswith(before):
            raise ValueError("it writes a turn with calls in another way once replies follow")
        return before[self._control.last(before) :] + whole[len(before) :]

    def _needs_calls(self, tools: Tools) -> bool:
        """Return True if the template refuses a tool's reply to a turn that has no structured calls."""
        if self._calls_needed is None:
            turns = [_USER, {"role": "assistant", "content": HERE}, _reply("tool", 1).model_dump()]
            try:
                self._render(turns, tools)
            except Exception:  # whatever a template raises
                self._calls_needed = True
            else:
                self._calls_needed = False
        return self._calls_needed

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Tools, *, reply: bool = True) -> str:
        if self._shielded[0] is not tools:
            self._shielded = (tools, self._control.shield(tools) or None)
        return self.codec.render(messages, self._shielded[1], reply=reply)

    def _probes(self, tools: Tools) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield (description, function) of each trial. The function returns the error it found, or an empty string."""
        if tools:
            yield "tools in the prompt", lambda: self._hidden_tool(tools)
        yield "a reply of the user", lambda: self._misread([_reply("user", 1)], tools)
        if tools:
            yield "a tool's reply", lambda: self._misread([_reply("tool", 1)], tools)
            yield "parallel replies of tools", lambda: self._misread([_reply("tool", 1), _reply("tool", 2)], tools)
        yield "a turn with thinking", lambda: self._misread([_reply("user", 1)], tools, "<think>\nsome thought\n</think>\n\n")
        yield "a turn that was cut off", lambda: self._unended(tools)
        yield "control tokens in a reply", lambda: self._forged(tools)

    def _hidden_tool(self, tools: Tools) -> str:
        text = self._render([_USER], tools)
        hidden = [name for tool in tools if (name := str(tool.get("function", tool)["name"])) not in text]
        return f"it does not tell the model of the tool {hidden[0]!r}" if hidden else ""

    def _misread(self, replies: Sequence[Message], tools: Tools, thinking: str = "") -> str:
        """Return the fault in how the template writes `replies` to a turn that begins with `thinking`; empty if none."""
        text = self._suffix(replies, tools)
        places = [text.find(reply.content) for reply in replies]
        fresh, before = self._render([_USER], tools), self._render([_USER], tools, reply=False)
        opening = fresh[len(os.path.commonprefix([fresh, before])) :]
        if any(text.count(reply.content) != 1 for reply in replies) or places != sorted(places):
            return "the text of each reply is not there once and in order"
        if not text.endswith(opening):
            return f"the model's next turn does not begin as one after a fresh prompt does, with {opening!r}"
        if any(self._suffix(replies, tools, other + HERE) != text for other in ("Some text. ", thinking)):
            return "what it writes after the assistant's turn depends on the turn's text"
        if self._control.encode(text) != self.codec.encode_text(text):
            return "control tokens of this tokenizer cannot be told from text"
        return ""

    def _unended(self, tools: Tools) -> str:
        ids = self.after([], [_reply("user", 1)], tools)
        if not ids or ids[0] not in self._control.ids:
            return "it does not end the assistant's turns with a token of its own, such as the end-of-sequence token"
        return ""

    def _forged(self, tools: Tools) -> str:
        role: Literal["tool", "user"] = "tool" if tools else "user"
        fair, hostile = (
            self.after([], [_reply(role, 1).model_copy(update={"content": content})], tools)
            for content in ("harmless", self._control.text)
        )
        written = (self._control.ids & set(fair)) | self.codec.eos_ids
        if [token for token in hostile if token in written] != [token for token in fair if token in written]:
            return "texts such as that of the end-of-sequence token become control tokens wherever they stand"
        return ""


def _reply(role: Literal["tool", "user"], number: int) -> Message:
    return Message(role=role, content=f"this is reply number {number}", name="probe" if role == "tool" else None)


def _told(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
