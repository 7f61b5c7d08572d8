"""Resolves a model's name: a hub id, a model's folder, or the folder of a checkpoint."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.extras import need
from verigym.envs.hub import hub_or_cache
from verigym.envs.model_fingerprint import missing_folder


def model_path(name: str | Path) -> str:
    """Return the path or hub id that transformers loads: `CHECKPOINT/model` for a checkpoint, else `name` itself.

    Args:
        name: a hub id, a model's folder, or a folder `step-N` below the `checkpoints` of a run or a stage.

    Raises:
        UsageError: the folder is a checkpoint without a full model, or the folder of a run (which has several models), or
            has no model.
    """
    folder = Path(name)
    whole_run = (folder / "checkpoints").is_dir()  # a run keeps its settings in a config.json of its own
    if not folder.is_dir() or ((folder / "config.json").is_file() and not whole_run):
        return str(name)
    if (folder / "model" / "config.json").is_file():
        return str(folder / "model")
    if (folder / "adapter.safetensors").is_file():
        raise UsageError(
            f"model: {str(name)!r} is a checkpoint of adapters alone; let its run end and name its folder `final`, where they "
            "are merged into the model"
        )
    if (folder / "shards").is_dir():
        raise UsageError(
            f"model: {str(name)!r} is a checkpoint of several processes, each with its part of the weights; let its run end, "
            "which one process can do too, and name its folder `final`"
        )
    if whole_run or (folder / "final").is_dir():
        raise UsageError(
            f"model: {str(name)!r} is the folder of a run; name its `final`, or a folder `step-N` below its `checkpoints`"
        )
    raise UsageError(
        f"model: the directory {str(name)!r} has no config.json, so it holds no model; name the folder with config.json, the "
        "tokenizer and the weights, such as `final` of a run or a stage"
    )


def require_model(name: str | Path) -> str:
    """Return the path or hub id that transformers loads; check that it exists here, in the hub's cache, or on the hub.

    From the hub only `config.json` is read. If the hub does not answer within seconds, only its cache on this machine is read.

    Args:
        name: as `model_path` takes it.

    Raises:
        UsageError: the model does not exist, or as `model_path`.
    """
    path = model_path(name)
    if Path(path).is_dir():
        return path
    refuse_missing_folder(path)
    hub: Any = need("huggingface_hub", f"model: {path!r}, from the hub")
    with hub_or_cache(f"model: {path!r}") as silence:
        try:
            hub.hf_hub_download(path, "config.json")
        except Exception as error:  # the network's, the hub's and the file system's errors have no common base
            raise UsageError(f"model: {not_there(path, silence, error)}") from None
    return path


def refuse_missing_folder(name: str | Path) -> None:
    """Check that `name` is a directory or could be a hub id. The hub is not contacted.

    Raises:
        UsageError: `name` is not a directory and cannot be a hub id.
    """
    if missing := missing_folder(str(name)):
        raise UsageError(f"model: {missing}{_near(str(name))}")


def not_there(name: str, silence: str, error: BaseException) -> str:
    """Return the error message for a model that exists neither on this machine nor on the hub.

    Args:
        name: the name as given.
        silence: the reason why the hub does not answer, as `hub_or_cache` gives it; empty if the hub answered.
        error: the exception that the hub library raised.
    """
    if silence:
        return f"there is no directory {name!r} here{_near(name)}, and no model of that name in the hub's cache; {silence}"
    line = " ".join(str(error).split())[:300] or type(error).__name__
    return f"{name!r} is neither a directory here{_near(name)} nor readable from the hub: {line}"


def _near(name: str) -> str:
    """Return a suggestion if a directory beside `name` has nearly the same name, else an empty string."""
    folder = Path(name).expanduser()
    try:
        beside = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(folder.name, beside, n=1, cutoff=0.6)
    return f" (did you mean {str(Path(name).parent / near[0])!r}?)" if near else ""
