"""Checkpoints that are whole or absent: written beside, flushed to disk, then renamed; a manifest proves them intact."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from verigym.envs.errors import UsageError
from verigym.envs.schema import canonical_json, sha256_hex
from verigym.trainer.config import TrainConfig

logger = logging.getLogger("verigym.trainer")

# What may change between a run and its continuation without changing what is computed.
FREE_FIELDS = {
    "output",
    "steps",
    "checkpoint_every",
    "keep_checkpoints",
    "workers",
    "grade_timeout_s",
    "grade_memory_mb",
}
NAME = re.compile(r"step-(\d{8})")


class State(BaseModel):
    """What a checkpoint holds besides tensors."""

    model_config = ConfigDict(extra="forbid")

    step: int
    """Finished optimizer batches."""
    drawn: dict[str, int]
    """Tasks drawn of each source."""
    config: str
    """Fingerprint of the settings that decide what is computed."""
    files: dict[str, str]
    """sha256 of every file, by path relative to the checkpoint."""


def fingerprint(config: TrainConfig) -> str:
    """Return a hash over the settings that decide what is computed. A falling schedule depends on `steps`, too."""
    free = FREE_FIELDS if config.schedule == "constant" else FREE_FIELDS - {"steps"}
    return sha256_hex(canonical_json(config.model_dump(mode="json", exclude=free)))[:16]


def save(
    folder: Path, step: int, model: Any, tokenizer: Any, optimizer: Any, drawn: Mapping[str, int], config: TrainConfig
) -> Path:
    """Write the checkpoint of a finished step and delete those beyond `keep_checkpoints`. Killed at any time, it leaves
    either the whole new checkpoint or only older ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step:08d}"
    partial = folder / f".partial-step-{step:08d}"
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial / "model")
    tokenizer.save_pretrained(partial / "model")
    torch.save(optimizer.state_dict(), partial / "optimizer.pt")
    files = {str(path.relative_to(partial)): _sha256(path) for path in sorted(partial.rglob("*")) if path.is_file()}
    state = State(step=step, drawn=dict(drawn), config=fingerprint(config), files=files)
    (partial / "state.json").write_text(state.model_dump_json(indent=1), encoding="utf-8")
    for path in [*partial.rglob("*"), partial]:
        _flush(path)
    if final.exists():
        shutil.rmtree(final)
    os.replace(partial, final)
    _flush(folder)
    for old in _steps(folder)[: -config.keep_checkpoints]:
        shutil.rmtree(old)
    return final


def latest(folder: Path, config: TrainConfig) -> tuple[Path, State] | None:
    """Return the newest intact checkpoint; damaged ones are passed over with a warning.

    Raises:
        UsageError: it belongs to a run with other settings.
    """
    for partial in folder.glob(".partial-*"):
        shutil.rmtree(partial)
    for path in reversed(_steps(folder)):
        try:
            state = State.model_validate_json((path / "state.json").read_bytes())
            damaged = [name for name, digest in state.files.items() if _sha256(path / name) != digest]
        except (OSError, ValidationError) as error:
            logger.warning("checkpoint %s cannot be read (%s); trying an older one", path, type(error).__name__)
            continue
        if damaged:
            logger.warning("checkpoint %s is damaged (%s); trying an older one", path, ", ".join(damaged))
            continue
        if state.config != fingerprint(config):
            raise UsageError(
                f"{path} was made with other settings, so going on from it would mix two runs; "
                f"set `output` to a new folder, or use the settings in {folder.parent / 'config.json'}"
            )
        return path, state
    return None


def load_optimizer(path: Path, optimizer: Any, device: torch.device) -> None:
    """Restore the optimizer's state from a checkpoint."""
    optimizer.load_state_dict(torch.load(path / "optimizer.pt", map_location=device, weights_only=True))


def prepare(output: Path) -> None:
    """Make the run's folder.

    Raises:
        UsageError: it cannot be made or written.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        if not os.access(output, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise UsageError(f"output: {str(output)!r} cannot be used as a folder: {error.strerror}") from None


def write_config(output: Path, config: TrainConfig) -> None:
    """Keep the run's settings beside its logs."""
    text = json.dumps(config.model_dump(mode="json"), indent=1)
    temporary = output / ".config.json"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, output / "config.json")


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if NAME.fullmatch(path.name))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
