"""Formats values and text for the `reason` of a score: short, printable, equal in every process, and fast at any size."""

from __future__ import annotations

import re
from typing import Any

TEXT_CHARS = 80
_ITEMS = 6
_DEPTH = 3
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{5,}")
_PLAIN = (complex, bytes, bytearray)


def quoted(text: str | bytes, limit: int = TEXT_CHARS) -> str:
    """Return text as a Python literal, cut short in the middle."""
    if isinstance(text, bytes):
        cut = text if len(text) <= 8 * limit else text[: 2 * limit] + b" " * limit + text[-2 * limit :]
        text = cut.decode("utf-8", "surrogateescape")
    if len(text) > 2 * limit:
        text = text[:limit] + " " * limit + text[-limit:]  # more would be cut away below
    return _cut(ascii(text) if not text.isascii() and not _shows(text) else repr(text), limit)


def line(text: str, limit: int = 200) -> str:
    """Return `text` as one printable line of at most `limit` characters. Memory addresses, which differ by run, are masked."""
    joined = " ".join(text[: 4 * limit].split())
    return _cut(_ADDRESS.sub("0x...", "".join(char if char.isprintable() else "?" for char in joined)), limit)


def last_line(text: bytes, limit: int = 200) -> str:
    """Return the last non-empty line of `text`, a program's standard error, cut to `limit` characters."""
    tail = text[-4 * limit :].decode("utf-8", "replace").rstrip()
    return line(tail.rpartition("\n")[2], limit)


def value(item: Any, limit: int = TEXT_CHARS) -> str:
    """Return a value the way Python writes it, cut short."""
    return _cut(_value(item, _DEPTH, limit), limit)


def _value(item: Any, depth: int, limit: int) -> str:
    kind = type(item)
    if item is None or kind is bool or kind is float or kind is complex:
        return repr(item)
    if kind is int:
        return repr(item) if item.bit_length() < 400 else f"an integer of {item.bit_length()} bits"
    if kind is str or kind is bytes:
        return quoted(item, limit) if kind is str else _cut(repr(item[: 2 * limit]), limit)
    if kind in (list, tuple, dict) and depth:
        return _container(item, depth - 1, limit)
    if kind in (set, frozenset) and depth:
        parts = sorted(_value(inner, depth - 1, limit) for inner in item) if len(item) <= _ITEMS else [f"{len(item)} items"]
        return "{" + ", ".join(parts) + "}" if parts else f"{kind.__name__}()"
    return f"a {kind.__name__}"


def _container(item: Any, depth: int, limit: int) -> str:
    kind = type(item)
    if kind is dict:
        first = [pair for pair, _ in zip(item.items(), range(_ITEMS), strict=False)]
        parts = [f"{_value(key, depth, limit)}: {_value(inner, depth, limit)}" for key, inner in first]
    else:
        parts = [_value(inner, depth, limit) for inner in item[:_ITEMS]]
    if len(item) > _ITEMS:
        parts.append("...")
    opening, closing = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
    comma = "," if kind is tuple and len(item) == 1 else ""
    return opening + ", ".join(parts) + comma + closing


def _shows(text: str) -> bool:
    return all(char.isprintable() or char in "\n\r\t" for char in text)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = (limit - 3) * 2 // 3
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"
