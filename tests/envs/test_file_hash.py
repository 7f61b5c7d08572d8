"""One hash of a file's content for checkpoints, records, pins and grader ids."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from verigym.envs.file_hash import file_sha256


def test_the_bytes_of_the_file_are_hashed(tmp_path: Path) -> None:
    path, content = tmp_path / "weights", bytes(range(256)) * 10_000
    path.write_bytes(content)
    assert file_sha256(path) == file_sha256(str(path)) == hashlib.sha256(content).hexdigest()
    path.write_bytes(b"")
    assert file_sha256(path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_packing_again_changes_the_file_and_not_what_it_holds(tmp_path: Path) -> None:
    content = b'{"question": "1+1"}\n' * 100_000
    small, large = tmp_path / "small.gz", tmp_path / "large.gz"
    small.write_bytes(gzip.compress(content, 9, mtime=0))
    large.write_bytes(gzip.compress(content, 0, mtime=0))
    assert file_sha256(small) != file_sha256(large)
    assert file_sha256(small, unpacked=True) == file_sha256(large, unpacked=True) == hashlib.sha256(content).hexdigest()


def test_what_cannot_be_read_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        file_sha256(tmp_path / "absent")
    damaged = tmp_path / "cut.gz"
    damaged.write_bytes(gzip.compress(b"x" * 10_000)[:-9])
    with pytest.raises(EOFError):
        file_sha256(damaged, unpacked=True)
