"""Finds the inputs of a report at the given paths: runs, files of scores, evaluations, files of samples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from verigym.envs import UsageError
from verigym.envs.contract.errors import near_file
from verigym.report.rows import first_row, read_json

WANTED = "a run's folder, a file of scores of `verigym grade`, or the folder of `verigym eval`"
MOST_INPUTS = 64
_STAGE = re.compile(r"(.+)-[0-9a-f]{8}")


class Kind(StrEnum):
    """Kinds of inputs."""

    RUN = "run"
    SCORES = "scores"
    EVALUATION = "evaluation"
    """The samples of one model, or of a stage that samples."""


@dataclass(slots=True)
class Input:
    """One input of a report: a run, a file of scores, or one model of an evaluation."""

    kind: Kind
    path: Path
    label: str
    notes: list[str] = field(default_factory=list)
    """Notes about the input for the page, such as rows that were left out or texts that are missing."""


def find_inputs(given: Sequence[str]) -> list[Input]:
    """Return the inputs that the command's arguments name.

    Args:
        given: paths, or NAME=PATH.

    Raises:
        UsageError: a path is nothing that a report can show, there are too many inputs, or two have the same name.
    """
    found: list[Input] = []
    for argument in given:
        label, path = named_path(argument)
        if label == "":
            raise UsageError(f"{argument}: expected NAME=PATH or PATH, and the name is empty")
        inputs = _inputs(path)
        if label is not None:
            for one in inputs:
                one.label = label if len(inputs) == 1 else f"{label}/{one.label}"
        found += inputs
    if len(found) > MOST_INPUTS:
        raise UsageError(f"{len(found)} inputs; a report shows at most {MOST_INPUTS}")
    _tell_apart(found)
    return found


def named_path(argument: str) -> tuple[str | None, Path]:
    """Return the name, if there is one, and the path of an argument `PATH` or `NAME=PATH`."""
    label, equals, rest = argument.partition("=")
    return (label, Path(rest)) if equals and not Path(argument).exists() else (None, Path(argument))


def _inputs(path: Path) -> list[Input]:
    if not path.exists():
        raise UsageError(f"{path} does not exist{near_file(path)}; expected {WANTED}")
    if path.is_dir():
        return _in_folder(path)
    if path.name == "report.json":
        return _in_folder(path.parent)
    if path.name == "metrics.jsonl":
        return [Input(Kind.RUN, path.parent, path.parent.resolve().name)]
    row = first_row(path)
    if row is not None and isinstance(row.get("score"), dict):
        return [Input(Kind.SCORES, path, path.stem)]
    if row is not None and "identity" in row and "made_with" in row:
        return [Input(Kind.EVALUATION, path, path.stem.removeprefix("samples-"))]
    raise UsageError(f"{path} does not begin with a line of scores or samples; expected {WANTED}")


def _in_folder(folder: Path) -> list[Input]:
    name = folder.resolve().name
    if (folder / "metrics.jsonl").is_file():
        return [Input(Kind.RUN, folder, name)]
    samples = sorted(folder.glob("samples-*.jsonl"))
    if samples:
        order = list(read_json(folder / "report.json").get("models", {}))
        inputs = [Input(Kind.EVALUATION, path, path.stem.removeprefix("samples-")) for path in samples]
        return sorted(inputs, key=lambda one: order.index(one.label) if one.label in order else len(order))
    if (folder / "samples.jsonl").is_file():
        return _inputs(folder / "samples.jsonl")
    current = _folders_of_a_pipeline(folder)
    below = [
        one
        for path in sorted(folder.iterdir())
        if path.is_dir() and (not current or path.name in current)
        for one in _below(path)
    ]
    if not below:
        raise UsageError(f"{folder} holds neither metrics.jsonl nor samples; expected {WANTED}")
    earlier = [path for path in sorted(folder.iterdir()) if current and path.name not in current and _below(path)]
    if earlier:
        folders = "1 older folder" if len(earlier) == 1 else f"{len(earlier)} older folders"
        below[0].notes.append(f"{folders} of stages that were run again with other settings: left out")
    _name_stages(below)
    return below


def _folders_of_a_pipeline(folder: Path) -> set[str]:
    """Return the names of the folders that a pipeline's stages have now; empty where `folder` is not a pipeline's.

    Beside them may be folders of stages that were run with other settings before.
    """
    stages = read_json(folder / "manifest.json").get("stages", [])
    products = [Path(str(stage.get("product", ""))) for stage in stages if isinstance(stage, dict)]
    return {part for product in products for part in product.parts if _STAGE.fullmatch(part)}


def _name_stages(below: Sequence[Input]) -> None:
    """Call a run of a pipeline's stage `STAGE`, and samples of an evaluation `STAGE/MODEL`, where no two stages have one name.

    A stage's folder is called `STAGE-HASH`; a stage that was run with other settings before has two folders.
    """
    folders = {id(one): one.path.resolve() if one.path.is_dir() else one.path.resolve().parent for one in below}
    stages = {folder: found[1] for folder in folders.values() if (found := _STAGE.fullmatch(folder.name))}
    names = list(stages.values())
    for one in below:
        stage = stages.get(folders[id(one)])
        if stage and names.count(stage) == 1:
            one.label = stage if one.path.is_dir() else f"{stage}/{one.label}"


def _below(folder: Path) -> list[Input]:
    """Return the inputs of one stage's folder, without looking deeper; none where it is no such folder."""
    holds = (folder / "metrics.jsonl").is_file() or any(folder.glob("samples*.jsonl"))
    return _in_folder(folder) if holds else []


def _tell_apart(found: Sequence[Input]) -> None:
    """Lengthen equal names by the folders above, and refuse those that stay equal."""
    for depth in (1, 2, 3):
        labels = [one.label for one in found]
        for one in found:
            if labels.count(one.label) > 1 and len(parents := one.path.resolve().parents) >= depth:
                one.label = f"{parents[depth - 1].name}/{one.label}"
    labels = [one.label for one in found]
    for one in found:
        if labels.count(one.label) > 1:
            raise UsageError(f"two inputs are called {one.label!r}; give each a name of its own, NAME={one.path}")
