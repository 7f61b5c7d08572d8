"""Reads LiveCodeBench's hidden tests without unpickling. They are packed as a pickle, compressed by zlib, encoded in base64.

To unpickle a data file would run whatever program its author put there. The published pickles contain only a text or an object
of texts, so a reader of the few opcodes that build these is enough. It refuses all other opcodes.
"""

from __future__ import annotations

import base64
import zlib

from verigym.datasets_cfg.fields import FieldProblem

MAX_UNPACKED_BYTES = 512 << 20
"""Maximum size of an unpacked payload. Published ones are below 100 MB, but a small malicious one could unpack to gigabytes."""

Value = str | dict[str, str]

_FRAME, _PROTO, _STOP = 0x95, 0x80, ord(".")
_MEMOIZE, _EMPTY_DICT, _SETITEM = 0x94, ord("}"), ord("s")
_TEXT_LENGTH_BYTES = {0x8C: 1, ord("X"): 4, 0x8D: 8}
_PROTOCOLS = (4, 5)


def unpack(text: str, column: str) -> Value:
    """Return the value that is packed in `text`, the value of `column`: a text, or a mapping of names to texts.

    Raises:
        FieldProblem: `text` is not zlib data in base64, is too large, or holds a pickle of anything else.
    """
    try:
        packed = base64.b64decode(text, validate=True)
        stream = zlib.decompressobj()
        data = stream.decompress(packed, MAX_UNPACKED_BYTES)
    except (ValueError, zlib.error) as error:
        raise FieldProblem(column, f"is not base64 over zlib: {error}") from None
    if not stream.eof:
        full = len(data) >= MAX_UNPACKED_BYTES
        raise FieldProblem(column, f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes" if full else "ends too early")
    try:
        return read_pickled_text(data)
    except ValueError as error:
        raise FieldProblem(column, f"is a pickle of something other than text: {error}") from None


def read_pickled_text(data: bytes) -> Value:
    """Read the value in a pickle of protocol 4 or 5 without running the pickle: a text, or a mapping of names to texts.

    Raises:
        ValueError: the pickle has any other opcode, a length past its end, or bytes left over.
    """
    stack: list[Value] = []
    place = 0

    def take(count: int) -> bytes:
        nonlocal place
        chunk = data[place : place + count]
        if len(chunk) != count:
            raise ValueError(f"it ends early, at byte {len(data)}")
        place += count
        return chunk

    while True:
        opcode = take(1)[0]
        if opcode == _STOP:
            break
        if opcode == _PROTO:
            _protocol(take(1)[0])
        elif opcode == _FRAME:
            take(8)  # says how much to read at once; all is here already
        elif opcode in _TEXT_LENGTH_BYTES:
            length = int.from_bytes(take(_TEXT_LENGTH_BYTES[opcode]), "little")
            stack.append(take(length).decode("utf-8", "surrogatepass"))
        elif opcode == _EMPTY_DICT:
            stack.append({})
        elif opcode == _SETITEM:
            _set_item(stack)
        elif opcode != _MEMOIZE:
            raise ValueError(f"opcode 0x{opcode:02x} at byte {place - 1}")
    if place != len(data) or len(stack) != 1:
        raise ValueError(f"{len(data) - place} bytes and {len(stack)} values are left at its end")
    return stack[0]


def _protocol(number: int) -> None:
    if number not in _PROTOCOLS:
        raise ValueError(f"protocol {number}")


def _set_item(stack: list[Value]) -> None:
    if len(stack) < 3:
        raise ValueError("an item without its object")
    value, key, owner = stack.pop(), stack.pop(), stack[-1]
    if not (isinstance(owner, dict) and isinstance(key, str) and isinstance(value, str)):
        raise ValueError("an object that holds more than texts")
    owner[key] = value
