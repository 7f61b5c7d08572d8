"""What a model's name stands for: a hub id, a folder that transformers loads, or the folder of a run's checkpoint."""

from __future__ import annotations

from pathlib import Path

from verigym.envs.errors import UsageError


def model_path(name: str | Path) -> str:
    """Return what transformers loads for a name: `CHECKPOINT/model` for a checkpoint's folder, else the name itself.

    Args:
        name: a hub id, a model's folder, or a folder `step-N` below the `checkpoints` of a run or a stage.

    Raises:
        UsageError: the folder is a checkpoint that holds no whole model, or that of a run, which holds several, or no
            model's.
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
