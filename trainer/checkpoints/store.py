"""Atomic checkpoints: written to a temporary folder, flushed, renamed; a manifest of hashes detects damage."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from verigym.envs.contract.differences import differing
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.file_hash import file_sha256
from verigym.trainer.checkpoints.run_record import starts
from verigym.trainer.config.engine import EngineFields
from verigym.trainer.config.model import ShardFields
from verigym.trainer.config.monitoring import MonitoringFields, ResumeFields
from verigym.trainer.config.step_settings import StepSettings
from verigym.trainer.distributed.world import SOLO, World

logger = logging.getLogger("verigym.trainer")

# Settings that may change between a run and its continuation, because they do not change what is computed.
FREE_FIELDS = (
    set(MonitoringFields.model_fields)
    | set(ResumeFields.model_fields)
    | set(ShardFields.model_fields)
    | (set(EngineFields.model_fields) - {"engine"})
    | {
        "output",
        "max_left_out",  # decides whether a run starts, not what it computes
        "preset",  # the fields that it sets count
        "steps",
        "checkpoint_every",
        "checkpoint_minutes",
        "keep_checkpoints",
        "workers",
        "cluster",
        "grade_timeout_s",
        "grade_memory_mb",
    }
)
FIELDS_SHOWN = 5
"""Most differing settings that a message names."""
NAME = re.compile(r"step-(\d{8})")


class State(BaseModel):
    """The manifest of a checkpoint: the content of the file `state.json` in the checkpoint's folder."""

    model_config = ConfigDict(extra="forbid")

    step: int
    """Number of finished steps."""
    by_time: bool = False
    """Whether `checkpoint_minutes` made it, not its step."""
    drawn: dict[str, int]
    """Tasks drawn of each source."""
    config: str
    """Fingerprint of `made_with`."""
    made_with: dict[str, Any] = {}
    """Settings and grader ids, see the function `made_with`."""
    files: dict[str, str]
    """sha256 of every file, by path relative to the checkpoint."""
    contents: dict[str, str] = {}
    """Hashes of the run's inputs, see `input_hashes`."""


class Timer:
    """Tells when a checkpoint is due because enough time has passed since the last one, or since the start.

    Args:
        minutes: minutes between checkpoints; 0 for never.
    """

    def __init__(self, minutes: float) -> None:
        self._seconds = 60 * minutes
        self.restart()

    def restart(self) -> None:
        """Start the time from 0 again, after a checkpoint."""
        self._since = time.monotonic()

    @property
    def due(self) -> bool:
        """Return True if a checkpoint is due: `minutes` have passed since the last checkpoint or the start."""
        return 0 < self._seconds <= time.monotonic() - self._since


def made_with(config: StepSettings, graders: Mapping[str, str]) -> dict[str, Any]:
    """Return, as JSON data, the settings in `config` that change the results of a run, and each source's grader id."""
    # A falling schedule depends on `steps`, too.
    free = FREE_FIELDS if config.schedule == "constant" else FREE_FIELDS - {"steps"}
    return {**config.model_dump(mode="json", exclude=free), "graders": dict(graders)}


def _is_same(then: Mapping[str, Any], now: Mapping[str, Any], config: StepSettings | None) -> bool:
    """Return True if `then` and `now`, two results of `made_with`, agree.

    A setting that `then` lacks counts as its default value.
    """
    if config is None:
        return False
    kind: Any = type(config)
    given = {name: value for name, value in then.items() if name != "graders"}
    free = {name: value for name, value in config.model_dump(mode="json").items() if name in FREE_FIELDS}
    try:
        filled = kind.model_validate({**free, **given})
    except ValidationError:
        return False
    return fingerprint(made_with(filled, then.get("graders", {}))) == fingerprint(now)


def fingerprint(made: Mapping[str, Any]) -> str:
    """Return a hash of `made`, which `made_with` returned."""
    return sha256_hex(canonical_json(made))[:16]


def refuse_other(
    place: Path,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    advice: str,
    harm: str = "Going on from it would mix two runs",
) -> NoReturn:
    """Refuse to continue a run or stage with other settings, and list the settings that differ.

    Args:
        place: the file or folder that would be continued.
        then: the settings that it was made with; empty if they were not saved.
        now: the present settings.
        advice: what the user should do, for the message.
        harm: the harm that continuing would do, for the message.

    Raises:
        UsageError: always.
    """
    differences = [words for _, words in differing(dict(then), dict(now))] if then else []
    more = f"; and {len(differences) - FIELDS_SHOWN} more" if len(differences) > FIELDS_SHOWN else ""
    shown = f": {'; '.join(differences[:FIELDS_SHOWN])}{more}" if differences else ""
    raise UsageError(f"{place} was made with other settings{shown}. {harm}; {advice}")


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
    by_time: bool = False,
) -> Path:
    """Write the checkpoint of a finished step, and delete old ones until `keep` are left.

    Checkpoints that were made only because of elapsed time are deleted before the others. If the process is killed, the folder
    has either the complete new checkpoint or only older ones.

    Args:
        folder: folder of the run's checkpoints.
        step: number of finished steps.
        write: writes policy and optimizer to the given folder; each process writes its part to its own files.
        drawn: number of tasks drawn of each source.
        made: see `made_with`.
        keep: number of checkpoints to keep.
        batch_state: leftovers, replay and curriculum, see `BatchBuilder.state`.
        world: the processes, which share the folder; the main one completes the checkpoint.
        contents: hashes of the run's inputs.
        by_time: True if the checkpoint is due only because of elapsed time.
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
        state = State(
            step=step,
            by_time=by_time,
            drawn=dict(drawn),
            config=fingerprint(made),
            made_with=dict(made),
            files={},
            contents=hashes,
        )
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
    found = _steps(folder)
    by_age = sorted(found[:-1], key=lambda path: not _made_by_time(path))  # stable: the oldest first among equals
    for old in by_age[: max(0, len(found) - keep)]:
        shutil.rmtree(old)


def _made_by_time(path: Path) -> bool:
    try:
        return State.model_validate_json((path / "state.json").read_bytes()).by_time
    except (OSError, ValidationError):
        return False


def latest(folder: Path, made: Mapping[str, Any], steps: int, config: StepSettings | None = None) -> tuple[Path, State] | None:
    """Return the newest intact checkpoint and its manifest; None if there is none.

    Damaged checkpoints are renamed, with a warning. A warning also says if the run has logged steps but has no checkpoint, and
    so starts again from the first step.

    Args:
        folder: folder of the run's checkpoints.
        made: see `made_with`.
        steps: number of steps of the run.
        config: the present settings. If given, a checkpoint of an older version of verigym may lack newer settings, as long
            as these settings have their default values now.

    Raises:
        UsageError: the checkpoint, or a run that has no checkpoint yet, was made with other settings; the checkpoint has more
            steps than `steps`; or all checkpoints are damaged.
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
        if state.config != fingerprint(made) and not _is_same(state.made_with, made, config):
            advice = (
                f"set `output` to a new folder, with model={path} to start from these weights, "
                f"or use the settings in {folder.parent / 'config.json'}"
            )
            refuse_other(path, state.made_with, made, advice)
        if state.step > steps:
            raise UsageError(f"steps: the run in {folder.parent} has already done {state.step}, more than {steps}")
        return path, state
    if any(folder.glob("damaged-*")):
        raise UsageError(f"no checkpoint in {folder} can be used; to start again, set `output` to a new folder")
    _warn_of_lost_steps(folder.parent, made)
    return None


def _warn_of_lost_steps(output: Path, made: Mapping[str, Any]) -> None:
    # Here, because its metrics need torch, which `verigym pipeline status` does without.
    from verigym.trainer.monitoring.logs import read_rows

    metrics = output / "metrics.jsonl"
    logged = sum(row["kind"] == "train" for row in read_rows(metrics)) if metrics.exists() else 0
    if not logged:
        return
    steps = f"{logged} logged step{'s' if logged > 1 else ''}"
    then = recorded[-1].get("made_with", made) if (recorded := starts(output)) else made
    if fingerprint(then) != fingerprint(made):
        advice = f"set `output` to a new folder, delete this one, or use the settings in {output / 'config.json'}"
        refuse_other(output, then, made, advice, f"It has no checkpoint yet, so to start again would drop its {steps}")
    logger.warning("no checkpoint yet in %s: starting again, %s %s dropped", output, steps, "are" if logged > 1 else "is")


def load_batch_state(path: Path) -> dict[str, Any]:
    """Return the batch builder's state that `save` wrote to the checkpoint `path`."""
    state: dict[str, Any] = json.loads((path / "work.json").read_text(encoding="utf-8"))
    return state


def prepare(output: Path) -> None:
    """Make the run's folder `output`.

    Raises:
        UsageError: `output` cannot be made or written, or is the folder of a model, whose config.json a run's would replace.
    """
    if _is_model(output):
        raise UsageError(f"output: {str(output)!r} holds a model, whose config.json would be overwritten; name another folder")
    try:
        output.mkdir(parents=True, exist_ok=True)
        if not os.access(output, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise UsageError(f"output: {str(output)!r} cannot be used as a folder: {error.strerror}") from None


def _is_model(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "model_type" in config


@contextmanager
def locked(output: Path, world: World = SOLO) -> Iterator[None]:
    """Return a context in which the folder `output` is locked, so that no second run writes to it.

    Only the main process takes the lock.

    Raises:
        UsageError: another process is writing to `output`.
    """
    with (output / ".lock").open("w") as file:
        try:
            if world.main:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"output: another run is writing to {str(output)!r}; wait for it or name another folder") from None
        yield


def write_config(output: Path, config: StepSettings) -> None:
    """Write the run's settings `config` to `config.json` in the folder `output`."""
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
