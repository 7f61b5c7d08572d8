"""Checkpoints that are whole or absent: written beside, flushed to disk, then renamed; a manifest proves them intact."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from verigym.envs.contract.differences import differing
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.file_hash import file_sha256
from verigym.trainer.config.engine import EngineFields
from verigym.trainer.config.monitoring import MonitoringFields, ResumeFields
from verigym.trainer.config.step_settings import StepSettings
from verigym.trainer.distributed.world import SOLO, World

logger = logging.getLogger("verigym.trainer")

# What may change between a run and its continuation without changing what is computed.
FREE_FIELDS = (
    set(MonitoringFields.model_fields)
    | set(ResumeFields.model_fields)
    | (set(EngineFields.model_fields) - {"engine"})
    | {
        "output",
        "max_left_out",  # it decides whether a run begins, not what it does
        "preset",  # its settings are fields, and count as such
        "steps",
        "checkpoint_every",
        "keep_checkpoints",
        "workers",
        "grade_timeout_s",
        "grade_memory_mb",
    }
)
FIELDS_TOLD = 5
"""Of the settings that differ, so many are named."""
NAME = re.compile(r"step-(\d{8})")


class State(BaseModel):
    """What a checkpoint holds besides tensors."""

    model_config = ConfigDict(extra="forbid")

    step: int
    """Finished optimizer batches."""
    drawn: dict[str, int]
    """Tasks drawn of each source."""
    config: str
    """Fingerprint of `made_with`."""
    made_with: dict[str, Any] = {}
    """What decides what is computed, see `made_with`."""
    files: dict[str, str]
    """sha256 of every file, by path relative to the checkpoint."""
    contents: dict[str, str] = {}
    """Hashes of the run's inputs, see `contents.contents`."""


def made_with(config: StepSettings, graders: Mapping[str, str]) -> dict[str, Any]:
    """Return what decides what is computed, as JSON: settings, and each source's grader id.

    A falling schedule depends on `steps`, too.
    """
    free = FREE_FIELDS if config.schedule == "constant" else FREE_FIELDS - {"steps"}
    return {**config.model_dump(mode="json", exclude=free), "graders": dict(graders)}


def fingerprint(made: Mapping[str, Any]) -> str:
    """Return a hash of what `made_with` returns."""
    return sha256_hex(canonical_json(made))[:16]


def refuse_other(place: Path, then: Mapping[str, Any], now: Mapping[str, Any], advice: str) -> NoReturn:
    """Say that something was made with other settings, and which.

    Args:
        place: of what was made.
        then: what it was made with; empty where that was not kept.
        now: what would go on with it.
        advice: what to do.

    Raises:
        UsageError: always.
    """
    found = [words for _, words in differing(dict(then), dict(now))] if then else []
    more = f"; and {len(found) - FIELDS_TOLD} more" if len(found) > FIELDS_TOLD else ""
    what = f": {'; '.join(found[:FIELDS_TOLD])}{more}" if found else ""
    raise UsageError(f"{place} was made with other settings{what}. Going on from it would mix two runs; {advice}")


def save(
    folder: Path,
    step: int,
    write: Callable[[Path], None],
    drawn: Mapping[str, int],
    made: Mapping[str, Any],
    keep: int,
    batch_state: Mapping[str, Any],
    world: World = SOLO,
    contents: Mapping[str, str] | None = None,
) -> Path:
    """Write the checkpoint of a finished step and delete those beyond the newest `keep`. Killed at any time, it leaves
    either the whole new checkpoint or only older ones.

    Args:
        folder: where checkpoints are.
        step: how many steps are finished.
        write: puts the policy and its optimizer into the folder it is given; each process its part, in files of its own.
        drawn: tasks drawn of each source.
        made: what the run is `made_with`.
        keep: how many checkpoints stay.
        batch_state: leftovers, replay and curriculum, see `BatchBuilder.state`.
        world: the processes, which see the same folder; the main one makes the checkpoint of what all have written.
        contents: hashes of the run's inputs.
    """
    final = folder / f"step-{step:08d}"
    partial = folder / f".partial-step-{step:08d}"
    if world.main:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    world.wait()
    write(partial)
    world.wait()
    if world.main:
        hashes = dict(contents or {})
        state = State(step=step, drawn=dict(drawn), config=fingerprint(made), made_with=dict(made), files={}, contents=hashes)
        _complete(partial, final, state, batch_state, keep)
    world.wait()
    return final


def _complete(partial: Path, final: Path, state: State, batch_state: Mapping[str, Any], keep: int) -> None:
    folder = final.parent
    (partial / "work.json").write_text(json.dumps(batch_state), encoding="utf-8")
    files = {str(path.relative_to(partial)): file_sha256(path) for path in sorted(partial.rglob("*")) if path.is_file()}
    state = state.model_copy(update={"files": files})
    (partial / "state.json").write_text(state.model_dump_json(indent=1), encoding="utf-8")
    for path in [*partial.rglob("*"), partial]:
        _flush(path)
    if final.exists():
        shutil.rmtree(final)
    os.replace(partial, final)
    _flush(folder)
    for old in _steps(folder)[:-keep]:
        shutil.rmtree(old)


def latest(folder: Path, made: Mapping[str, Any], steps: int) -> tuple[Path, State] | None:
    """Return the newest intact checkpoint, None where there has been none. Damaged ones are put aside with a warning.

    Args:
        folder: where checkpoints are.
        made: what the run is `made_with`.
        steps: how many steps the run is to have.

    Raises:
        UsageError: it belongs to a run with other settings, it is beyond `steps`, or all are damaged.
    """
    for partial in folder.glob(".partial-*"):
        shutil.rmtree(partial)
    for path in reversed(_steps(folder)):
        try:
            state = State.model_validate_json((path / "state.json").read_bytes())
            damaged = [name for name, digest in state.files.items() if file_sha256(path / name) != digest]
        except (OSError, ValidationError) as error:
            damaged = [type(error).__name__]
        if damaged:
            logger.warning("checkpoint %s is damaged (%s); trying an older one", path, ", ".join(damaged))
            aside = path.with_name(f"damaged-{path.name}")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            continue
        if state.config != fingerprint(made):
            advice = f"set `output` to a new folder, or use the settings in {folder.parent / 'config.json'}"
            refuse_other(path, state.made_with, made, advice)
        if state.step > steps:
            raise UsageError(f"steps: the run in {folder.parent} has already done {state.step}, more than {steps}")
        return path, state
    if any(folder.glob("damaged-*")):
        raise UsageError(f"no checkpoint in {folder} can be used; to start again, set `output` to a new folder")
    return None


def load_batch_state(path: Path) -> dict[str, Any]:
    """Return the batch builder's state that was given to `save`."""
    state: dict[str, Any] = json.loads((path / "work.json").read_text(encoding="utf-8"))
    return state


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


@contextmanager
def locked(output: Path, world: World = SOLO) -> Iterator[None]:
    """Keep a second run out of the folder while this one writes to it; the main process locks it for all.

    Raises:
        UsageError: another process is writing there.
    """
    with (output / ".lock").open("w") as file:
        try:
            if world.main:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"output: another run is writing to {str(output)!r}; wait for it or name another folder") from None
        yield


def write_config(output: Path, config: StepSettings) -> None:
    """Keep the run's settings beside its logs."""
    text = json.dumps(config.model_dump(mode="json"), indent=1)
    temporary = output / ".config.json"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, output / "config.json")


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if NAME.fullmatch(path.name))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
