"""Hash of a file's content. Checkpoints, run records, pinned data sets and grader ids all use it."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any


def file_sha256(path: str | Path, *, unpacked: bool = False) -> str:
    """Return the sha256 of a file's bytes, in hex. The file is read in blocks, so its size does not matter.

    Args:
        path: path of the file.
        unpacked: hash the decompressed content of a gzip file, so that compressing the file again does not change the hash.

    Raises:
        OSError: the file cannot be read.
        EOFError, zlib.error: the gzip file is damaged; only with `unpacked`.
    """
    opened: Any = gzip.open(path) if unpacked else Path(path).open("rb")
    with opened as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
