"""Environment options that are stored in the folder of a reward model that verigym has trained.

An environment that uses the model must have the options with which the model was trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from verigym.envs.contract.errors import EnvironmentFailure

RECORD = "verigym.json"
"""Name of the record file. Its `options` must be given to the environment; `training` has the data and the held-out metrics."""


def write_record(folder: Path, options: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    """Put the record into a model's folder."""
    text = json.dumps({"options": dict(options), "training": dict(training)}, indent=1, sort_keys=True)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def refuse_other_options(model: str | None, options: BaseModel) -> None:
    """Check that `options` are those with which `model` was trained.

    Nothing is checked if `model` is None, a hub id, or a folder without a record.

    Raises:
        EnvironmentFailure: `unavailable`, because an option differs from the record, or the record cannot be read.
    """
    path = Path(model) / RECORD if model else None
    if path is None or not path.is_file():
        return
    try:
        wanted = json.loads(path.read_text(encoding="utf-8"))["options"]
        differs = next((name for name, value in wanted.items() if _plain(options, name) != value), None)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise EnvironmentFailure(
            "unavailable", f"{path} is no record of options ({type(error).__name__}); restore it"
        ) from None
    if differs is not None:
        raise EnvironmentFailure(
            "unavailable",
            f"the model in {model!r} was trained with {differs}={wanted[differs]!r}, and the environment has "
            f"{differs}={_plain(options, differs)!r}; give it the same",
        )


def _plain(options: BaseModel, name: str) -> Any:
    return options.model_dump(mode="json")[name]
