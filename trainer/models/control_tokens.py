"""Chats in which data cannot forge a turn: only what the chat template itself writes becomes control tokens.

A tokenizer looks for its added tokens (`<|im_end|>`, `<tool_call>`, ...) in the whole text, wherever it comes from. So data are
shielded before the template puts them in: a mark before each such text says that it is data. Then the template's own texts
are replaced by private ones, the marks are taken out, and a copy of the tokenizer that knows the private texts alone encodes
the rest as what it is, text. A chat without such text in its data gets the tokens that the tokenizer itself gives it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SHIELD, PRIVATE, HERE = "\ufdd0", "\ufdd1", "\ufdd2"
"""Code points that Unicode reserves for use within a program. In data they are replaced by U+FFFD, as lone surrogates are."""
_OURS = str.maketrans(dict.fromkeys((SHIELD, PRIVATE, HERE), "\ufffd"))
_NEVER = "(?!)"


class ControlTokens:
    """The added tokens of a tokenizer: kept out of data, and encoded where a template writes them.

    Args:
        tokenizer: one of transformers, backed by the tokenizers package.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._backend: Tokenizer = tokenizer.backend_tokenizer
        added = self._backend.get_added_tokens_decoder()
        self._plain = {token.content: (number, token) for number, token in added.items() if token.content.isspace()}
        self._control = {token.content: (number, token) for number, token in added.items() if not token.content.isspace()}
        self.ids = frozenset(number for number, _ in self._control.values())
        self._special = _Shield(text for text, (_, token) in self._control.items() if token.special)
        self._all = _Shield(self._control)
        self._private = {text: f"{PRIVATE}{place}{PRIVATE}" for place, text in enumerate(self._control)}

    @staticmethod
    def fit(tokenizer: Any) -> bool:
        """Whether a tokenizer is of the kind that can be copied: backed by the tokenizers package."""
        return hasattr(getattr(tokenizer, "backend_tokenizer", None), "get_added_tokens_decoder")

    def shield_special(self, data: Any) -> Any:
        """Return data, texts within lists and mappings too, of which no text becomes a special token."""
        return _deep(self._special, data)

    def shield(self, data: Any) -> Any:
        """Return data of which no text becomes an added token, special or not: no `</tool_response>` either."""
        return _deep(self._all, data)

    @property
    def text(self) -> str:
        """The texts of all of them."""
        return " ".join(self._control)

    def last(self, text: str) -> int:
        """Return where the last control token in a text begins; its length if there is none."""
        return max((match.start() for match in self._all.unshielded.finditer(text)), default=len(text))

    def forged(self, text: str, shielded: str) -> bool:
        """Whether a text that a template made holds special tokens that are data, going by the text made from shielded data."""
        return len(self._special.found(text)) > len(self._special.unshielded.findall(shielded))

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text that a template made from shielded data."""
        text = self._all.unshielded.sub(lambda match: self._private[match[0]], text).replace(SHIELD, "")
        copy, real = self._copy
        return tuple(real.get(token, token) for token in copy.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _copy(self) -> tuple[Tokenizer, Mapping[int, int]]:
        """A copy that knows the control tokens by their private texts, and the real ids of its added tokens."""
        from tokenizers import AddedToken, Tokenizer

        content = json.loads(self._backend.to_str())
        content |= {"added_tokens": [], "post_processor": None, "decoder": None, "truncation": None, "padding": None}
        _rename(content["model"], self._private)
        copy = Tokenizer.from_str(json.dumps(content))
        real: dict[Any, int] = {}
        tokens = {self._private[text]: entry for text, entry in self._control.items()} | self._plain
        for text, (number, token) in tokens.items():
            flags = {name: getattr(token, name) for name in ("lstrip", "rstrip", "normalized", "special")}
            copy.add_tokens([AddedToken(text, **flags)])
            real[copy.token_to_id(text)] = number
        return copy, real


class _Shield:
    """Puts a mark before every text in data that is one of these, or that could become one together with what follows it."""

    def __init__(self, texts: Iterable[str]) -> None:
        longest_first = sorted(texts, key=len, reverse=True)
        self._beginnings = frozenset(text[:end] for text in longest_first for end in range(1, len(text)))
        self._longest = max(map(len, longest_first), default=0)
        alternatives = "|".join(map(re.escape, longest_first)) or _NEVER
        self._search = re.compile(alternatives).search
        self.found = re.compile(alternatives).findall
        self.unshielded = re.compile(f"(?<!{SHIELD})(?:{alternatives})")

    def __call__(self, text: str) -> str:
        if not text.isascii():
            text = encodable(text).translate(_OURS)
        places = []
        match = self._search(text)
        while match is not None:
            places.append(match.start())
            match = self._search(text, match.start() + 1)
        end = len(text.rstrip())
        for length in range(1, min(self._longest, end + 1)):
            if text[end - length : end] in self._beginnings:
                places.append(end - length)
        if not places:
            return text
        bounds = [*sorted(set(places)), len(text)]
        return text[: bounds[0]] + "".join(SHIELD + text[start:stop] for start, stop in pairwise(bounds))


def encodable(text: str) -> str:
    """Return the text with lone surrogates, which tokenizers refuse, replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _deep(shield: _Shield, data: Any) -> Any:
    if isinstance(data, str):
        return shield(data)
    if isinstance(data, Mapping):
        return {_deep(shield, key): _deep(shield, value) for key, value in data.items()}
    if isinstance(data, Sequence):
        return [_deep(shield, value) for value in data]
    return data


def _rename(model: dict[str, Any], private: Mapping[str, str]) -> None:
    """Give the control tokens of a model's vocabulary their private texts, so that it makes none of them out of plain text."""
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
