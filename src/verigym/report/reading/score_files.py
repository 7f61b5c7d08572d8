"""Reads a file of scores from `verigym grade`, together with the texts of the file that was graded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from verigym.envs import Message, UsageError
from verigym.envs.file_hash import file_sha256
from verigym.grade.out_file import sidecar
from verigym.grade.reading.columns import Columns
from verigym.grade.reading.records import MAX_RECORD_BYTES, STDIN, sample_place
from verigym.grade.reading.texts import GradedText, graded_texts
from verigym.report.reading.inputs import Input
from verigym.report.record import (
    NO_SOURCE,
    Fields,
    NotASample,
    Record,
    TextLimit,
    completion_texts,
    difficulty,
    identity,
    message_texts,
    raised_by_judge,
    score_texts,
    text,
    turn_texts,
    verdict,
    whole,
)
from verigym.report.rows import Lines, Row, read_json


def score_samples(one: Input, place: int, limit: TextLimit, column: str | None, graded: Path | None = None) -> Iterator[Record]:
    """Yield a record for each line of a file of scores.

    Args:
        one: the input, a file of scores.
        place: the input's number among the report's inputs.
        limit: cuts long texts.
        column: name of the column that holds a task's difficulty; None to look for `difficulty` or `level`.
        graded: the file that was graded; needed only if it is no longer in the place that the scores' `.meta.json` names.

    Raises:
        UsageError: `graded` is not the file that was graded.
    """
    meta = read_json(sidecar(one.path, "meta.json"))
    texts = _Texts(one, meta, graded)
    source = text(meta.get("environment")) or NO_SOURCE
    lines, left_out, missing = Lines(one.path), 0, 0
    for line in lines:
        try:
            record = _sample(line, place, source, texts, limit, column)
        except NotASample:
            left_out += 1
            continue
        missing += "completion" not in record.texts
        yield record
    if left_out + lines.unreadable:
        one.notes.append(f"{left_out + lines.unreadable:,} lines hold no score and are left out")
    if missing:
        one.notes.append(f"{missing:,} samples are shown without their texts: {texts.why or 'the input lacks them'}")


def _sample(line: Row, place: int, source: str, texts: _Texts, limit: TextLimit, column: str | None) -> Record:
    score = line.get("score")
    if not isinstance(score, Mapping) or not isinstance(line.get("row"), int) or not isinstance(line.get("sample_index"), int):
        raise NotASample("not a line of verigym grade")
    status, reward = verdict(score)
    graded = texts.of(line)
    shown: Fields = {"place": sample_place(line), **score_texts(score, limit)}
    characters, group, asked = -1, line.get("group"), None
    if graded is not None:
        characters = len(graded.completion.text)
        shown |= completion_texts(graded.completion.text, score.get("steps"), limit)
        shown["finish"] = text(graded.completion.finish_reason)
        if graded.prompt is not None:
            asked = _prompt_text(graded.prompt)
            group = group if texts.by_column else asked
            messages = graded.prompt if isinstance(graded.prompt, str) else [one.model_dump() for one in graded.prompt]
            shown["prompt"] = message_texts(messages, limit)
        if graded.completion.turns:
            shown["turns"] = turn_texts([turn.model_dump(mode="json") for turn in graded.completion.turns], limit)
    if line.get("gold"):
        shown["gold"] = limit.cut(_gold(line["gold"]))
    kept = line.get("columns")
    if isinstance(kept, Mapping) and kept:
        shown["metadata"] = limit.cut(text(kept))
    for name in ("task", "label", "column"):
        if line.get(name) is not None:
            shown[name] = text(line[name])
    tokens = graded.completion.token_ids if graded is not None else None
    return Record(
        input=place,
        kind="graded",
        source=source,
        status=status,
        reward=reward,
        prompt_id=identity(group),
        twin_id=identity(line["row"], line["sample_index"], line.get("completion"), asked),
        tokens=-1 if tokens is None else len(tokens),
        characters=characters,
        difficulty=difficulty(kept, graded.data if graded is not None else None, column=column),
        raised=raised_by_judge(score),
        texts=shown,
    )


def _prompt_text(prompt: str | tuple[Message, ...]) -> list[list[str]]:
    """Return what identifies a prompt whatever grades it: its group's key depends on the environment, too."""
    return [["user", prompt]] if isinstance(prompt, str) else [[one.role, one.content] for one in prompt]


def _gold(gold: Any) -> str:
    """Return the reference as text: the value alone where it has a single field."""
    if isinstance(gold, Mapping) and len(gold) == 1:
        return text(next(iter(gold.values())))
    return text(gold)


class _Texts:
    """The texts of the graded input, read beside the scores, in the same order."""

    def __init__(self, one: Input, meta: Mapping[str, Any], graded: Path | None) -> None:
        self.why = ""
        """Why there are none."""
        self.by_column = False
        """Whether a column, and not the prompt, says which samples belong together."""
        self._next: GradedText | None = None
        self._rest: Iterator[GradedText] = iter(())
        path = self._find(one, meta, graded)
        if path is None:
            return
        try:
            columns = Columns.model_validate(meta.get("columns"))
        except ValidationError:
            self.why = f"{sidecar(one.path, 'meta.json').name} names no columns"
            return
        self.by_column = columns.group_by is not None
        most = whole(meta.get("max_record_bytes"), MAX_RECORD_BYTES)
        self._rest = graded_texts(str(path), columns, meta.get("format"), most)
        self._advance()

    def of(self, line: Row) -> GradedText | None:
        """Return the text of a line of scores; None where it is not in the input as it was graded."""
        wanted = (line["row"], line["sample_index"])
        while self._next is not None and (self._next.row, self._next.sample_index) < wanted:
            self._advance()
        found = self._next
        if found is None or (found.row, found.sample_index) != wanted:
            return None
        if found.completion.digest[:32] != line.get("completion"):
            self.why = self.why or "the input holds other completions than those that were graded"
            return None
        return found

    def _advance(self) -> None:
        try:
            self._next = next(self._rest, None)
        except UsageError as error:
            self._next, self.why = None, str(error)

    def _find(self, one: Input, meta: Mapping[str, Any], graded: Path | None) -> Path | None:
        """Return the file that was graded: the one given, else the one that the sidecar names."""
        made_from = meta.get("input")
        wanted: Mapping[str, Any] = made_from if isinstance(made_from, Mapping) else {}
        if graded is not None:
            if not _is(graded, wanted):
                raise UsageError(f"--graded {graded} is not the file that {one.path} was made from (size or sha256 differ)")
            return graded
        if not meta:
            self.why = f"there is no readable {sidecar(one.path, 'meta.json').name} beside the scores, which names the input"
            return None
        runs = meta.get("runs")
        last = runs[-1] if isinstance(runs, list) and runs and isinstance(runs[-1], Mapping) else {}
        name = text(last.get("input"))
        if not name or name == STDIN:
            self.why = "the input was standard input, which is gone; grade a file, or give it with --graded"
            return None
        for path in (Path(name), one.path.parent / name, one.path.parent / Path(name).name):
            if _is(path, wanted):
                return path
        self.why = f"the input {name} has moved or changed; give it with --graded"
        return None


def _is(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Return whether a file is the one that the sidecar describes."""
    try:
        return path.is_file() and os.stat(path).st_size == wanted.get("size") and file_sha256(path) == wanted.get("sha256")
    except OSError:
        return False
