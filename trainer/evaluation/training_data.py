"""Reads the data on which the models may have been trained, so that an evaluation can search these data for its prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verigym.datasets_cfg.load import PromptDataset
from verigym.datasets_cfg.load import load as load_dataset
from verigym.envs.contract.errors import UsageError
from verigym.trainer.stages.examples import json_lines

FIELDS = ("prompt", "question", "problem", "text", "messages")
"""Fields of a row that may hold the prompt."""
_EXPECTED = "expected a text, or a list of messages with `content`"


def is_file(name: str) -> bool:
    """Return True if `name`, an entry of `train_data`, is a JSON Lines file, and False if it is a data set's split."""
    return name.endswith((".jsonl", ".jsonl.gz"))


def refuse_missing(names: Sequence[str]) -> None:
    """Check that each name is an existing file, or has the form `NAME:SPLIT` of a data set. Files and data are not opened.

    Raises:
        UsageError: an entry fails the check; the message names it.
    """
    for name in names:
        if is_file(name) and not Path(name).is_file():
            raise UsageError(f"field 'train_data': there is no file {name!r}; give the path of a JSON Lines file")
        if not is_file(name) and not name.rpartition(":")[0]:
            raise UsageError(
                f"field 'train_data': {name!r} is neither a .jsonl or .jsonl.gz file nor NAME:SPLIT of a data set, such as "
                "gsm8k:train"
            )


def refuse_unreadable(names: Sequence[str], data_dirs: Mapping[str, Path | None] = {}) -> None:
    """Read all files and open all data sets of `names` once, so that errors are found before the hours of sampling.

    Raises:
        UsageError: as `training_texts`.
    """
    refuse_missing(names)
    for name in names:
        if is_file(name):
            for _ in _texts_of_file(name):
                pass
        else:
            _rows(name, data_dirs)


def training_texts(names: Sequence[str], data_dirs: Mapping[str, Path | None] = {}) -> Iterator[tuple[str, str]]:
    """Yield (place, text) for each training example.

    The place says where the example stands, such as a file and line. The text is its prompt, followed by the completion if it
    has one.

    Args:
        names: JSON Lines files, plain or gzip, or `NAME:SPLIT` of data sets.
        data_dirs: the folder of a data set's local files, by the data set's name; without an entry the hub is used.

    Raises:
        UsageError: a file or a data set cannot be read, or a row of a file has no prompt.
    """
    refuse_missing(names)
    for name in names:
        if is_file(name):
            yield from _texts_of_file(name)
            continue
        rows = _rows(name, data_dirs)
        for row in range(len(rows)):
            task = rows.bare(row)[1]
            yield f"{name} row {row + 1}", task.question or task.text


def _rows(name: str, data_dirs: Mapping[str, Path | None]) -> PromptDataset:
    dataset, _, split = name.rpartition(":")
    return load_dataset(dataset, split, data_dir=data_dirs.get(dataset))


def _texts_of_file(name: str) -> Iterator[tuple[str, str]]:
    empty = True
    for place, row in json_lines(Path(name)):
        empty = False
        yield place, _text_of_row(row, place)
    if empty:
        raise UsageError(f"train_data: {name} has no rows")


def _text_of_row(row: Any, place: str) -> str:
    """Return the texts of all fields of `row` that may hold the prompt, and of the completion."""
    given = [field for field in FIELDS if row.get(field) is not None] if isinstance(row, dict) else []
    if not given:
        found = f"the fields {', '.join(map(repr, row)) or 'none'}" if isinstance(row, dict) else type(row).__name__
        raise UsageError(f"{place}: expected an object with one of the fields {', '.join(FIELDS)}; found {found}")
    given += ["completion"] if row.get("completion") is not None else []
    return "\n".join(_text_of(row[field], f"{place}: field {field!r}") for field in given)


def _text_of(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise UsageError(f"{where}: {_EXPECTED}; got {type(value).__name__}")
    said = [message.get("content", 0) if isinstance(message, Mapping) else 0 for message in value]
    texts = ["" if content is None else content for content in said]  # null beside a tool's call
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{where}: {_EXPECTED}; got a list with something else")
    return "\n".join(map(str, texts))
