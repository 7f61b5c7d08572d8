"""Encodes chats so that data cannot forge a turn: only texts that the chat template itself writes become control tokens.

A tokenizer turns the texts of its added tokens (`<|im_end|>`, `<tool_call>`, ...) into tokens even if they stand in data. To
prevent this, data are shielded before the template inserts them: a mark is put before each text of an added token. In the
rendered chat, added tokens without a mark come from the template. Each of these is replaced by its private text, which contains
a reserved code point and so cannot occur in data; then the marks are removed. The result is encoded by a copy of the tokenizer
whose added tokens have the private texts, so data become ordinary text. If the data contain no texts of added tokens, the chat
gets the same tokens as from the tokenizer itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SHIELD, PRIVATE, HERE = "\ufdd0", "\ufdd1", "\ufdd2"
"""Code points that mark data, private texts and a position. Unicode reserves them for use within a program; in data they are
replaced by U+FFFD, as lone surrogates are."""
_OURS = str.maketrans(dict.fromkeys((SHIELD, PRIVATE, HERE), "\ufffd"))


class ControlTokens:
    """Encodes the added tokens of a tokenizer, such as `<|im_end|>`, as tokens in a template's own text and as text in data.

    Args:
        tokenizer: a tokenizer of transformers, backed by the tokenizers package.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._backend: Tokenizer = tokenizer.backend_tokenizer
        added = self._backend.get_added_tokens_decoder()
        self._plain = {token.content: (number, token) for number, token in added.items() if token.content.isspace()}
        self._control = {token.content: (number, token) for number, token in added.items() if not token.content.isspace()}
        self.ids = frozenset(number for number, _ in self._control.values())
        self._special = _Texts(text for text, (_, token) in self._control.items() if token.special)
        self._all = _Texts(self._control)
        self._private = {text: f"{PRIVATE}{place}{PRIVATE}" for place, text in enumerate(self._control)}

    @staticmethod
    def fit(tokenizer: Any) -> bool:
        """Return True if `tokenizer` can be copied, because it is backed by the tokenizers package."""
        return hasattr(getattr(tokenizer, "backend_tokenizer", None), "get_added_tokens_decoder")

    def shield_special(self, data: Any) -> Any:
        """Return `data` with marks in all its texts, also nested ones, so that no part is encoded as a special token."""
        return _deep(self._special.shield, data)

    def shield(self, data: Any) -> Any:
        """Return `data` with marks in all its texts, also nested ones, so that no part is encoded as an added token.

        Added tokens include tokens that are not special, such as `</tool_response>`.
        """
        return _deep(self._all.shield, data)

    @property
    def text(self) -> str:
        """Return the texts of all control tokens."""
        return " ".join(self._control)

    def last(self, text: str) -> int:
        """Return the position at which the last control token in `text` begins; the length of `text` if there is none."""
        return max((start for start, _ in self._all.found(text)), default=len(text))

    def forged(self, text: str, shielded: str) -> bool:
        """Return True if some special tokens in `text`, a rendered chat, come from the data and not from the template.

        `shielded` is the chat rendered from the same data after shielding.
        """
        return len(self._special.found(text, shielded=True)) > len(self._special.found(shielded))

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of `text`, a chat that a template rendered from shielded data."""
        parts, place = [], 0
        for start, found in self._all.found(text):
            parts += [text[place:start].replace(SHIELD, ""), self._private[found]]
            place = start + len(found)
        parts.append(text[place:].replace(SHIELD, ""))
        copy, real = self._copy
        return tuple(real.get(token, token) for token in copy.encode("".join(parts), add_special_tokens=False).ids)

    @cached_property
    def _copy(self) -> tuple[Tokenizer, Mapping[int, int]]:
        """Return a copy of the tokenizer in which control tokens have private texts, and the real ids of added tokens."""
        from tokenizers import AddedToken, Tokenizer

        content = json.loads(self._backend.to_str())
        content |= {"added_tokens": [], "post_processor": None, "decoder": None, "truncation": None, "padding": None}
        _rename(content["model"], self._private)
        copy = Tokenizer.from_str(json.dumps(content))
        real: dict[Any, int] = {}
        tokens = {self._private[text]: entry for text, entry in self._control.items()} | self._plain
        for text, (number, token) in tokens.items():
            # A template's token counts wherever it stands, so `single_word` is left out.
            flags = {name: getattr(token, name) for name in ("lstrip", "rstrip", "normalized", "special")}
            copy.add_tokens([AddedToken(text, **flags)])
            real[copy.token_to_id(text)] = number
        return copy, real


class _Texts:
    """Finds the texts of control tokens in a text, and puts a mark before those that are data."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        self._lengths = sorted(set(map(len, self._texts)), reverse=True)
        self._beginnings = frozenset(text[:end] for text in self._texts for end in range(1, len(text)))
        firsts = "".join(sorted({re.escape(text[0]) for text in self._texts}))
        self._first = re.compile(f"[{firsts}]" if firsts else "(?!)")

    def found(self, text: str, *, shielded: bool = False) -> list[tuple[int, str]]:
        """Return (position, text) of each control token in `text`, the longest first, without overlaps.

        Those after a mark are included only if `shielded` is True.
        """
        found, end = [], 0
        for start, one in self._all(text):
            if start >= end and (shielded or text[start - 1 : start] != SHIELD):
                found.append((start, one))
                end = start + len(one)
        return found

    def shield(self, text: str) -> str:
        """Return `text` with a mark before each control token.

        An end of `text` that could become a control token together with the text that follows it is marked too.
        """
        if not text.isascii():
            text = encodable(text).translate(_OURS)
        places = [start for start, _ in self._all(text)]
        end = len(text.rstrip())
        for length in range(1, min(self._lengths[0] if self._lengths else 0, end + 1)):
            if text[end - length : end] in self._beginnings:
                places.append(end - length)
        if not places:
            return text
        bounds = [*sorted(set(places)), len(text)]
        return text[: bounds[0]] + "".join(SHIELD + text[start:stop] for start, stop in pairwise(bounds))

    def _all(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield (position, text) for each position in `text` at which a control token begins, with the longest one."""
        for match in self._first.finditer(text):
            start = match.start()
            for length in self._lengths:
                if (one := text[start : start + length]) in self._texts:
                    yield start, one
                    break


def encodable(text: str) -> str:
    """Return `text` with lone surrogates, which tokenizers refuse, replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _deep(shield: Callable[[str], str], data: Any) -> Any:
    if isinstance(data, str):
        return shield(data)
    if isinstance(data, Mapping):
        return {_deep(shield, key): _deep(shield, value) for key, value in data.items()}
    if isinstance(data, Sequence):
        return [_deep(shield, value) for value in data]
    return data


def _rename(model: dict[str, Any], private: Mapping[str, str]) -> None:
    """Replace the control tokens in the vocabulary of `model` by their private texts, so that plain text never becomes one."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # of a Unigram model: pieces with scores, in the order of their ids
        for entry in vocabulary:
            entry[0] = private.get(entry[0], entry[0])
    else:
        for text in private.keys() & vocabulary.keys():
            vocabulary[private[text]] = vocabulary.pop(text)
    if model.get("unk_token") is not None:
        model["unk_token"] = private.get(model["unk_token"], model["unk_token"])
    if "merges" in model:
        pairs = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"])
        model["merges"] = [list(pair) for pair in pairs if not {*pair, "".join(pair)} & private.keys()]
