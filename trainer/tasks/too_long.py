"""Leaves out and counts prompts and examples that are too long; too many of them are an error."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from verigym.datasets_cfg.load import RowError
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.trainer.models.codec import Codec
from verigym.trainer.tasks.mixture import Source

CHECKED_TASKS = 200
"""Tasks of each source whose lengths are checked before a run."""


def refuse_many(what: str, too_long: int, of: int, longest: int, *, field: str, limit: int, share: float) -> None:
    """Check that at most a small share of prompts was left out as too long.

    Args:
        what: subject of the message, such as "source 'gsm8k': held-out prompts".
        too_long: number of prompts that are too long.
        of: number of all prompts.
        longest: length of the longest prompt, in tokens.
        field: the setting that limits the length.
        limit: value of `field`, in tokens.
        share: largest share that may be left out (`max_left_out`).

    Raises:
        UsageError: more than `share` of the prompts are too long.
    """
    if too_long > share * of:
        enough = ceil(1000 * too_long / of) / 1000
        raise UsageError(
            f"{what}: {too_long} of {of} are longer than {field}, {limit} tokens; the longest has {longest}. "
            f"That is more than a share of {share:g} (max_left_out): set {field} to {longest} or more, or max_left_out to "
            f"{enough:g} or more to go on without them"
        )


def fitting(
    sources: Sequence[Source], codec: Codec, limit: int, share: float
) -> tuple[list[tuple[Source, Prompt]], dict[str, int]]:
    """Return the held-out prompts that are short enough, with their sources, and each source's number of too long prompts.

    Args:
        sources: sources with their held-out prompts.
        codec: counts tokens.
        limit: most tokens of a prompt.
        share: largest share of a source's prompts that may be too long.

    Raises:
        UsageError: more than `share` of a source's prompts are too long.
    """
    tasks: list[tuple[Source, Prompt]] = []
    left_out: dict[str, int] = {}
    for source in sources:
        lengths = [len(codec.encode(prompt)) for prompt in source.held_out]
        left_out[source.label] = too_long = sum(length > limit for length in lengths)
        what = f"source {source.label!r}: held-out prompts"
        refuse_many(what, too_long, len(lengths), max(lengths, default=0), field="max_prompt_tokens", limit=limit, share=share)
        tasks += [(source, prompt) for prompt, length in zip(source.held_out, lengths, strict=True) if length <= limit]
    return tasks, left_out


def check_tasks(sources: Sequence[Source], codec: Codec, limit: int, share: float) -> None:
    """Check, before a run, that not too many prompts are too long. The first tasks of each source serve as a random sample.

    Args:
        sources: the mixture.
        codec: counts tokens.
        limit: most tokens of a prompt.
        share: largest share of a source's prompts that may be too long.

    Raises:
        UsageError: more than `share` of a source's tasks are too long.
    """
    for source in sources if share < 1 else ():
        lengths = []
        for index in range(CHECKED_TASKS):
            try:
                lengths.append(len(codec.encode(source.train(index))))
            except RowError:
                continue  # counted where it is drawn
        too_long = sum(length > limit for length in lengths)
        what = f"source {source.label!r}: prompts, of the first {CHECKED_TASKS}"
        refuse_many(what, too_long, len(lengths), max(lengths, default=0), field="max_prompt_tokens", limit=limit, share=share)
