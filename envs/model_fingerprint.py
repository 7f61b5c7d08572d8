"""Fingerprint of a model folder's weights. Verdicts name the weights by it, because the content of a folder may change."""

from __future__ import annotations

import os
from pathlib import Path

from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.file_hash import file_sha256

SUFFIXES = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")
"""Suffixes of the files that a verdict depends on: weights, configuration, tokenizer and chat template."""
_known: dict[tuple[str, int, int], str] = {}


def fingerprint(model: str | None) -> str:
    """Return a hash of the names, sizes and contents of a local model's files, or an empty string if `model` is not a folder.

    A model on a hub is identified by its commit instead. A file is hashed again if its size or modification time has changed.
    """
    if not model or not os.path.isdir(model):
        return ""
    files = sorted(path for path in Path(model).iterdir() if path.suffix in SUFFIXES and path.is_file())
    try:
        return sha256_hex(canonical_json([[path.name, *_size_and_hash(path)] for path in files]))
    except OSError:  # it cannot be read, which will be said when it is loaded
        return ""


def _size_and_hash(path: Path) -> tuple[int, str]:
    state = path.stat()
    key = (str(path.resolve()), state.st_size, state.st_mtime_ns)
    if key not in _known:
        _known[key] = file_sha256(path)
    return state.st_size, _known[key]


def named_after(grader: str, weights: str) -> str:
    """Return the id `grader`, which has the form `name@version+hash`, with a new hash that covers `weights` too.

    If `weights` is empty, return `grader` unchanged.
    """
    if not weights:
        return grader
    name, _, options = grader.rpartition("+")
    return f"{name}+{sha256_hex(f'{options}/{weights}')[:8]}"


def missing_folder(model: str) -> str:
    """Return an error message if `model` is not a directory and cannot be a hub id; otherwise an empty string.

    A hub id has at most one slash, between two names. Asking the hub for any other name would only waste time on timeouts.
    """
    if os.path.isdir(model) or not (model.startswith((".", "/", "~")) or model.count("/") > 1):
        return ""
    return f"there is no directory {model!r}; give a local model directory or a hub id such as owner/name"
