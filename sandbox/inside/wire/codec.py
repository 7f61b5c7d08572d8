"""Exact plain data as tagged JSON. The two directions, in one place."""

from __future__ import annotations

from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import CannotCross, CodecError, encode

__all__ = ["CannotCross", "CodecError", "decode", "encode"]
