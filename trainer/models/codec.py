"""Texts to tokens and back: chat template, end-of-sequence tokens, decoding."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.envs.contract.session import TOOLS
from verigym.envs.extraction.opened import opened
from verigym.trainer.models.chat_template import problem_of, refuse_unused
from verigym.trainer.models.control_tokens import HERE, ControlTokens, encodable

logger = logging.getLogger("verigym.trainer")

_LAST_TOKENS = 16
_MAY_OPEN = re.compile(r"(?:think|thought|reasoning|channel|```|~~~)[^\n]*\s*\Z", re.IGNORECASE)
"""Any text whose end `opened` could find to be a part of the completion."""


class Codec:
    """A tokenizer with the settings of its chat template, and the end-of-sequence and padding tokens that generation uses."""

    def __init__(
        self,
        tokenizer: Any,
        generation_config: Any = None,
        chat_template_kwargs: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Wrap a tokenizer.

        Args:
            tokenizer: a tokenizer of transformers.
            generation_config: of the model; its end tokens count in addition to the tokenizer's. None if there is no model.
            chat_template_kwargs: variables for the chat template, such as `enable_thinking`.

        Raises:
            UsageError: the chat template does not use one of these variables.
        """
        self.tokenizer = tokenizer
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        self.chat_template_kwargs = dict(chat_template_kwargs)
        refuse_unused(tokenizer, self.name, self.chat_template_kwargs)
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

        Raises:
            UsageError: the chat template refuses the messages or leaves out one of their roles, or the prompt is plain although
                there are variables for the chat template.
        """
        if prompt.metadata.get("plain"):
            if self.chat_template_kwargs:
                raise UsageError(
                    f"chat_template_kwargs has no effect on a prompt from template {prompt.metadata.get('template')!r}, which "
                    "is plain text for base models; leave it out, or take a template for chat models"
                )
            return tuple(self.tokenizer.encode(encodable(prompt.text)))
        if self.tokenizer.chat_template:
            return self._encode_chat([message.model_dump() for message in prompt.messages], prompt.metadata.get(TOOLS) or None)
        return tuple(self.tokenizer.encode(encodable(prompt.text + "\n")))

    def _encode_chat(self, messages: list[dict[str, Any]], tools: Any) -> tuple[int, ...]:
        if self._problem:
            logger.warning(self._problem)
            self._problem = ""
        import jinja2  # here, for configurations are read where it is not installed

        try:
            text = self.render(messages, tools)
        except jinja2.TemplateError as error:
            raise UsageError(f"the chat template of {self.name} refuses a prompt: {error}{self._of_roles(messages)}") from None
        if left_out := {message["role"] for message in messages} & self._left_out:
            raise UsageError(
                f"the chat template of {self.name} leaves out messages of the role {min(left_out)}{self._of_roles(messages)}"
            )
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
        text = self.tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=reply, tokenize=False, **self.chat_template_kwargs
        )
        return str(text)

    @cached_property
    def _problem(self) -> str:
        return problem_of(self)

    @cached_property
    def _left_out(self) -> frozenset[str]:
        """Return the roles whose messages the chat template does not write."""
        probe = [{"role": role, "content": f"a message of the {role}"} for role in ("system", "user")]
        try:
            text = self.render(probe, None)
        except Exception:  # whatever a template raises; a prompt of these roles will say it
            return frozenset()
        return frozenset(message["role"] for message in probe if message["content"] not in text)

    @cached_property
    def end_id(self) -> int:
        """Return the token that ends a completion in training examples.

        It is the end token that the chat template writes after a turn of the model: some models have several end tokens, and
        the tokenizer's own one is not always the one that ends a turn. Without such a token it is the tokenizer's.

        Raises:
            UsageError: the model has no end token at all.
        """
        for after in self.after_turn:
            if (found := next((token for token in self.encode_text(after) if token in self.eos_ids), None)) is not None:
                return found
        end = self.tokenizer.eos_token_id
        if end is None and not self.eos_ids:
            raise UsageError(f"{self.name} has no end-of-sequence token: set eos_token of the tokenizer")
        return min(self.eos_ids) if end is None else int(end)

    @cached_property
    def after_turn(self) -> tuple[str, ...]:
        """Return what the chat template writes after a turn of the model: before a message of the user, and at the end.

        It is empty if there is no chat template, or if the template does not write such conversations.
        """
        if not self.tokenizer.chat_template:
            return ()
        user, turn = {"role": "user", "content": HERE}, {"role": "assistant", "content": HERE}
        try:
            texts = [self.render(messages, None, reply=False).split(HERE) for messages in ([user, turn, user], [user, turn])]
        except Exception:  # whatever a template raises
            return ()
        return tuple(parts[2] for parts in texts if len(parts) > 2)

    def opening(self, before: Sequence[int]) -> str:
        r"""Return the beginning of a completion that the tokens before it have already written, such as `<think>\n`.

        It is found in the text of these tokens, whether the chat template or the data wrote it; see `opened`.
        """
        if not _MAY_OPEN.search(self._text(before[-_LAST_TOKENS:])):
            return ""
        return opened(self._text(before))

    def completion(self, before: Sequence[int], token_ids: Sequence[int]) -> str:
        """Return the text of a completion as graders read it: with its `opening`, and without its end-of-sequence token.

        Args:
            before: the tokens that the model read before it, those of the prompt.
            token_ids: the tokens of the completion.
        """
        return self.opening(before) + self.decode(token_ids)

    def encode_completion(self, before: Sequence[int], text: str) -> tuple[int, ...]:
        """Return the tokens of `text`, a completion as graders read it, without those of its `opening`.

        Args:
            before: the tokens of the prompt.
            text: the completion. It may lack the opening.
        """
        opening = self.opening(before)
        if opening and text.lstrip().startswith(opening.strip()):
            text = text.lstrip().removeprefix(opening.strip()).removeprefix(opening[len(opening.rstrip()) :])
        return self.encode_text(text)

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of `text`, a completion. No special tokens, such as a beginning of sequence, are added."""
        return tuple(self.tokenizer.encode(encodable(text), add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of `token_ids`, a completion, without its end-of-sequence token."""
        ids = list(token_ids)
        if ids and ids[-1] in self.eos_ids:
            ids.pop()
        return self._text(ids)

    def _text(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    @staticmethod
    def _of_roles(messages: Sequence[Mapping[str, Any]]) -> str:
        if all(message["role"] != "system" for message in messages):
            return ""
        return "; this one has a system message: leave out the source's `system`, or take a `template` without one"
