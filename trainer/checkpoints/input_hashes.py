"""Hashes of a run's inputs: model, data sets and the user's own environments, so that no run resumes with different ones."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from verigym.datasets_cfg.load import description, load_config
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.file_hash import file_sha256
from verigym.envs.own_code import own_code
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.models.path import model_path

logger = logging.getLogger("verigym.trainer")

WHOLE = 64 * 2**20
"""Files of up to this many bytes are hashed whole."""
ENDS = 2**20
"""Of a file larger than `WHOLE`, only the size and this many bytes at each end are hashed: reading all would take minutes."""


def input_hashes(config: TrainConfig, environments: Iterable[Environment] = ()) -> dict[str, str]:
    """Return a hash of each local input, by the input's name.

    Files from the hub and files that environments read are not hashed.

    Args:
        config: the settings of the run; its model and sources must exist.
        environments: the run's environments. Only the code of the user's own environments is hashed, see `own_code`.
    """
    hashes: dict[str, str] = {}
    folder = Path(model_path(config.model))
    if folder.is_dir():
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            hashes[f"model {path.relative_to(folder)}"] = file_hash(path)
    code = {f"code of {name}": value for name, value in own_code(environments).items()}
    return hashes | data_hashes(config.sources) | code


def data_hashes(sources: Iterable[SourceConfig]) -> dict[str, str]:
    """Return the hashes of the description and local files of each data set in `sources`, by name."""
    hashes: dict[str, str] = {}
    for source in sources:
        if source.dataset is None:
            continue
        hashes[f"the description of {source.label}"] = sha256_hex(description(source.dataset))[:16]
        files = load_config(source.dataset).files if source.data_dir else {}
        for split in (source.split, source.eval_split):
            if source.data_dir and split and split in files:
                paths = files[split].parts(Path(source.data_dir))
                for path in paths:
                    part = "" if len(paths) == 1 else f", {path.name}"
                    hashes[f"{split} data of {source.label}{part}"] = file_hash(path)
    return hashes


def file_hash(path: Path) -> str:
    """Return a hash of the content of the file `path`.

    A file larger than `WHOLE` bytes is hashed by its size and both ends only.
    """
    size = path.stat().st_size
    if size <= WHOLE:
        return file_sha256(path)[:16]
    with path.open("rb") as file:
        digest = hashlib.sha256(str(size).encode())
        digest.update(file.read(ENDS))
        file.seek(-ENDS, 2)
        digest.update(file.read(ENDS))
    return f"ends-{digest.hexdigest()[:16]}"


def path_digest(path: Path) -> str:
    """Return the sha256 of the file `path`, or of the names and contents of all files if `path` is a folder.

    Raises:
        UsageError: a file cannot be read.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return sha256_hex(canonical_json([[str(file.relative_to(path)), path_digest(file)] for file in files]))
    try:
        return file_sha256(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def model_digest(model: str) -> str:
    """Return a string that identifies `model`: the hash of the contents of a directory, or a hub id unchanged.

    Raises:
        UsageError: see `model_path`.
    """
    folder = Path(model_path(model))
    return path_digest(folder) if folder.is_dir() else f"hub:{model}"


def refuse_changed(then: Mapping[str, str], now: Mapping[str, str], changed_inputs: str) -> bool:
    """Compare the hashes of a run's inputs with those in its checkpoint; return True if an input changed and this is accepted.

    A checkpoint without hashes counts as unchanged.

    Args:
        then: the checkpoint's hashes.
        now: the present hashes.
        changed_inputs: the setting of this name: `refuse` or `accept`.

    Raises:
        UsageError: inputs have changed and `changed_inputs` is `refuse`.
    """
    names = sorted(name for name in {*then, *now} if then.get(name) != now.get(name)) if then else []
    if not names:
        return False
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    line = f"since the checkpoint was made, inputs of the run have changed: {', '.join(names[:3])}{more}"
    if changed_inputs == "refuse":
        raise UsageError(f"{line}; bring them back, set `output` to a new folder, or set changed_inputs=accept to go on anyway")
    logger.warning("%s; going on with changed_inputs=accept", line)
    return True
