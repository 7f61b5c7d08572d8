"""Texts to tokens and back: chat template, end-of-sequence tokens, decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from verigym.envs.contract.schema import Prompt
from verigym.envs.contract.session import TOOLS
from verigym.trainer.models.control_tokens import ControlTokens, encodable


class Codec:
    """A tokenizer with the end-of-sequence and padding tokens that generation uses."""

    def __init__(self, tokenizer: Any, generation_config: Any = None) -> None:
        self.tokenizer = tokenizer
        ends = getattr(generation_config, "eos_token_id", None)
        ends = [] if ends is None else ends if isinstance(ends, list) else [ends]
        if tokenizer.eos_token_id is not None:
            ends = [*ends, tokenizer.eos_token_id]
        self.eos_ids = frozenset(int(token) for token in ends)
        pad = tokenizer.pad_token_id
        self.pad_id = int(pad if pad is not None else min(self.eos_ids, default=0))

    @cached_property
    def control(self) -> ControlTokens | None:
        """Return the encoder that keeps special tokens in data from becoming control tokens.

        It is None for a tokenizer that cannot be copied (no fast tokenizer).
        """
        return ControlTokens(self.tokenizer) if ControlTokens.fit(self.tokenizer) else None

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Return the tokens of `prompt`, up to the beginning of the completion.

        If the tokenizer has a chat template, it is used, and it also gets the tools that the prompt's metadata lists. If the
        tokenizer is a fast one, special tokens such as `<|im_end|>` in a message or in the description of a tool are encoded as
        text, so that data cannot forge a turn. A prompt from a plain template (`metadata["plain"]`), or without a chat
        template, is encoded as is.
        """
        if prompt.metadata.get("plain"):
            return tuple(self.tokenizer.encode(encodable(prompt.text)))
        if self.tokenizer.chat_template:
            return self._encode_chat([message.model_dump() for message in prompt.messages], prompt.metadata.get(TOOLS) or None)
        return tuple(self.tokenizer.encode(encodable(prompt.text + "\n")))

    def _encode_chat(self, messages: list[dict[str, Any]], tools: Any) -> tuple[int, ...]:
        text = self.render(messages, tools)
        if self.control is not None:
            data = [messages, tools]
            shielded = self.control.shield_special(data)
            if shielded != data and self.control.forged(text, safe := self.render(*shielded)):
                return self.control.encode(safe)
        return self.encode_text(text)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, *, reply: bool = True
    ) -> str:
        """Return the conversation `messages` as the chat template writes it.

        With `reply`, the start of an assistant's turn follows.
        """
        text = self.tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=reply, tokenize=False)
        return str(text)

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of `text`, a completion. No special tokens, such as a beginning of sequence, are added."""
        return tuple(self.tokenizer.encode(encodable(text), add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of `token_ids`, a completion, without its end-of-sequence token."""
        ids = list(token_ids)
        if ids and ids[-1] in self.eos_ids:
            ids.pop()
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))
