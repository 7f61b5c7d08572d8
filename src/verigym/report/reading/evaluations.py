"""Reads the file of samples from `verigym eval` or from a pipeline stage: a head line, then one line per prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from verigym.report.rows import Lines, Row


def evaluation_samples(one: Input, place: int, limit: TextLimit, column: str | None) -> Iterator[Record]:
    """Yield a record for each sample in a file that a `SampleLog` wrote.

    Args:
        one: the input, an evaluation.
        place: the input's number among the report's inputs.
        limit: cuts long texts.
        column: name of the metadata that holds a task's difficulty; None to look for `difficulty` or `level`.
    """
    lines, left_out = Lines(one.path), 0
    for line in lines:
        if "made_with" in line and "samples" not in line:
            continue  # the head
        samples = line.get("samples")
        for index, sample in enumerate(samples if isinstance(samples, list) else ()):
            try:
                yield _sample(line, index, sample, place, limit, column)
            except NotASample:
                left_out += 1
        left_out += not isinstance(samples, list)
    if left_out + lines.unreadable:
        one.notes.append(f"{left_out + lines.unreadable:,} lines or samples cannot be read and are left out")


def _sample(line: Row, index: int, sample: Any, place: int, limit: TextLimit, column: str | None) -> Record:
    if not isinstance(sample, Sequence) or isinstance(sample, str) or len(sample) < 4 or not isinstance(sample[3], Mapping):
        raise NotASample("expected [text, tokens, finish_reason, score]")
    completion, tokens, finish, score, *more = sample
    status, reward = verdict(score)
    completion, source, metadata = text(completion), text(line.get("source")) or NO_SOURCE, line.get("metadata")
    texts: Fields = {
        "prompt": message_texts(line.get("messages"), limit),
        **completion_texts(completion, score.get("steps"), limit),
        **score_texts(score, limit),
        "finish": text(finish),
        "place": f"prompt {whole(line.get('number')) + 1}, sample {index + 1}",
    }
    if line.get("gold") is not None:
        texts["gold"] = limit.cut(text(line["gold"]))
    if len(more) > 1 and isinstance(more[1], Mapping) and (turns := turn_texts(more[1].get("turns"), limit)):
        texts["turns"] = turns
    if isinstance(metadata, Mapping) and metadata:
        texts["metadata"] = limit.cut(text(metadata))
    return Record(
        input=place,
        kind="evaluation",
        source=source,
        status=status,
        reward=reward,
        prompt_id=identity(source, line.get("prompt_key")),
        tokens=whole(tokens),
        characters=len(completion),
        difficulty=difficulty(metadata, column=column),
        raised=raised_by_judge(score),
        texts=texts,
    )
