"""Reads the prompts and completions of an already graded input again; no environment is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from verigym.datasets_cfg.fields import FieldProblem
from verigym.envs import Completion, Message
from verigym.grade.reading.columns import Columns, prompt_messages, samples_of
from verigym.grade.reading.opening import open_source
from verigym.grade.reading.records import MAX_RECORD_BYTES, BadRow


@dataclass(frozen=True, slots=True)
class GradedText:
    """The text of a completion, with the row and sample number by which its line in the file of scores refers to it."""

    row: int
    sample_index: int
    prompt: str | tuple[Message, ...] | None
    """None where the row only names a task of a data set."""
    completion: Completion
    data: Mapping[str, Any]
    """The whole row."""


def graded_texts(
    path: str, columns: Columns, format: str | None = None, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[GradedText]:
    """Yield the completions of an input in the order in which `verigym grade` reads them, leaving out bad rows.

    Args:
        path: the input file.
        columns: the columns from the `.meta.json` of the scores, which include those that were chosen by default.
        format: see `open_source`.
        max_record_bytes: see `open_source`.

    Raises:
        UsageError: the input cannot be read.
    """
    with open_source(path, format, max_record_bytes=max_record_bytes) as source:
        for row in source:
            if isinstance(row, BadRow):
                continue
            prompt: str | tuple[Message, ...] | None = None
            if columns.task is None:
                try:
                    messages = prompt_messages(row, columns.prompt)
                except FieldProblem:
                    continue
                prompt = messages if isinstance(messages, str) else tuple(messages)
            found, _ = samples_of(row, columns.completions)
            for index, (_, completion) in enumerate(found):
                if isinstance(completion, Completion):
                    yield GradedText(row.number, index, prompt, completion, row.data)
