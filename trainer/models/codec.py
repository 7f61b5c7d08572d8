"""Texts to tokens and back: chat template, end-of-sequence tokens, decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verigym.envs.contract.schema import Prompt


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

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Return the prompt's tokens, up to where the completion begins; with the tokenizer's chat template if it has one.

        A prompt from a plain template (`metadata["plain"]`) is encoded as is.
        """
        if prompt.metadata.get("plain"):
            return tuple(self.tokenizer.encode(_encodable(prompt.text)))
        if self.tokenizer.chat_template:
            messages = [message.model_dump() for message in prompt.messages]
            text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            return self.encode_text(text)
        return tuple(self.tokenizer.encode(_encodable(prompt.text + "\n")))

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a completion's text, without special tokens."""
        return tuple(self.tokenizer.encode(_encodable(text), add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return a completion's text, without its end-of-sequence token."""
        ids = list(token_ids)
        if ids and ids[-1] in self.eos_ids:
            ids.pop()
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))


def _encodable(text: str) -> str:
    """Return the text with lone surrogates, which tokenizers refuse, replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
