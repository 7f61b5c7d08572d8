"""What a stage was given and what it made, as hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.trainer.models.path import model_path


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def folder_digest(folder: Path) -> str:
    """Return the sha256 over names and contents of a folder's files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sha256_hex(canonical_json([[str(path.relative_to(folder)), file_digest(path)] for path in files]))


def model_digest(model: str) -> str:
    """Return what identifies a model: of a directory the hash of its contents, of a hub id the id itself.

    Raises:
        UsageError: see `model_path`.
    """
    folder = Path(model_path(model))
    return folder_digest(folder) if folder.is_dir() else f"hub:{model}"


def digest(path: Path) -> str:
    """Return the hash of a file or a folder."""
    return folder_digest(path) if path.is_dir() else file_digest(path)
