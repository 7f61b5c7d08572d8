"""Preference pairs: read from JSON Lines, split by prompt, and made from graded completions (stage `pairs`)."""

from __future__ import annotations

import itertools
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Message, canonical_json, sha256_hex
from verigym.envs.progress import Progress
from verigym.trainer.checkpoints.store import locked, prepare
from verigym.trainer.reward_models.config import PairsConfig
from verigym.trainer.rng import keyed_random
from verigym.trainer.stages.examples import json_lines, messages_of
from verigym.trainer.stages.rejection_sampling import write_text

logger = logging.getLogger("verigym.trainer")


@dataclass(frozen=True)
class Preference:
    """A preference: two answers to the same prompt, where the answer `chosen` is better than the answer `rejected`."""

    messages: tuple[Message, ...]
    chosen: str
    rejected: str
    margin: float = 0.0
    """By how much `chosen` is better than `rejected`, in units of the model's output; at least 0."""

    @property
    def key(self) -> str:
        """Return a hash of the prompt alone."""
        return sha256_hex(canonical_json([message.model_dump() for message in self.messages]))

    @property
    def digest(self) -> str:
        """Return a hash of all fields."""
        return sha256_hex(canonical_json([self.key, self.chosen, self.rejected, self.margin]))

    @property
    def chosen_shown_first(self) -> bool:
        """Return True if the answer `chosen` comes first when the two answers are put in an order drawn by their hash."""
        return int(sha256_hex("/".join(sorted((self.chosen, self.rejected))))[0], 16) % 2 == (self.chosen < self.rejected)


@dataclass(frozen=True)
class GradedCompletion:
    """A completion with its reward; the reward is None if the verifier failed."""

    messages: tuple[Message, ...]
    text: str
    reward: float | None

    @property
    def key(self) -> str:
        """Return a hash of the prompt alone."""
        return sha256_hex(canonical_json([message.model_dump() for message in self.messages]))


def read_preferences(path: Path) -> list[Preference]:
    """Read pairs from JSON Lines: `prompt` (a text or messages), `chosen`, `rejected` and optionally `margin`.

    Other fields, such as the origin of a pair, are ignored.

    Raises:
        UsageError: the file cannot be read, is empty, or a line does not fit; the message names file, line and field.
    """
    found = []
    for place, row in rows_of(path, "prompt, chosen and rejected"):
        if "chosen" not in row and "reward" in row:
            raise UsageError(f"{place}: these are graded completions, not pairs; `verigym pairs` makes pairs of them")
        chosen, rejected = text_of(row, "chosen", place), text_of(row, "rejected", place)
        if chosen == rejected:
            raise UsageError(f"{place}: fields 'chosen' and 'rejected' are the same text; a pair needs two different answers")
        margin = _number(row.get("margin", 0.0), "margin", place)
        if margin < 0:
            raise UsageError(f"{place}: field 'margin' is {margin:g}; give at least 0, or exchange chosen and rejected")
        found.append(Preference(prompt_of(row, place), chosen, rejected, margin))
    return found


def read_graded(path: Path, on_row: Callable[[], None] = lambda: None) -> list[GradedCompletion]:
    """Read graded completions from JSON Lines: `prompt`, `completion` and `reward` (null if it was not scored).

    Args:
        path: the file.
        on_row: called after each row, for example to show progress.

    Raises:
        UsageError: as `read_preferences`.
    """
    found = []
    for place, row in rows_of(path, "prompt, completion and reward"):
        if "reward" not in row:
            raise UsageError(f"{place}: field 'reward' is missing; give a number, or null where there is no verdict")
        reward = None if row["reward"] is None else _number(row["reward"], "reward", place)
        found.append(GradedCompletion(prompt_of(row, place), text_of(row, "completion", place), reward))
        on_row()
    return found


def rows_of(path: Path, wanted: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (`file:line`, object) for each line of a JSON Lines file. `wanted` names the expected fields in error messages.

    Raises:
        UsageError: the file cannot be read, has no rows, or a line is not an object.
    """
    empty = True
    for place, row in json_lines(path):
        if not isinstance(row, dict):
            raise UsageError(f"{place}: expected an object with {wanted}, got {type(row).__name__}")
        empty = False
        yield place, row
    if empty:
        raise UsageError(f"data: {path} has no rows; expected objects with {wanted}")


def prompt_of(row: Mapping[str, Any], place: str) -> tuple[Message, ...]:
    """Return the prompt in `row` as messages. The field `prompt` is a text or a list of messages.

    Raises:
        UsageError: the field is not of this form; the error message begins with `place`, the file and line of the row.
    """
    prompt = row.get("prompt")
    messages = (Message(role="user", content=prompt),) if isinstance(prompt, str) else messages_of(prompt, "prompt", place)
    for message in messages:
        _encodable(message.content, "prompt", place)
    return messages


def text_of(row: Mapping[str, Any], field: str, place: str) -> str:
    """Return the text in the field `field` of `row`.

    Raises:
        UsageError: the field is missing, not a text, or blank; the error message begins with `place`, the row's file and line.
    """
    value = row.get(field)
    if not isinstance(value, str):
        given = "is missing" if field not in row else f"must be a text, got {type(value).__name__}"
        raise UsageError(f"{place}: field {field!r} {given}")
    if not value.strip():
        raise UsageError(f"{place}: field {field!r} is blank")
    return _encodable(value, field, place)


def _encodable(text: str, field: str, place: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{place}: field {field!r} holds half a surrogate pair at character {error.start}, which is no Unicode text"
        ) from None
    return text


def _number(value: Any, field: str, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{place}: field {field!r} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError(f"{place}: field {field!r} must be a finite number")
    return number


def split_by_prompt(pairs: Sequence[Preference], share: float, most: int) -> tuple[list[Preference], list[Preference]]:
    """Return (training pairs, held-out pairs), split by the hash of the prompt, so that no prompt is in both.

    Args:
        pairs: all pairs.
        share: share of the prompts that is held out.
        most: most held-out pairs; the pairs beyond this number are used in neither set.
    """
    held = [one for one in pairs if int(one.key[:8], 16) < share * 2**32]
    train = [one for one in pairs if int(one.key[:8], 16) >= share * 2**32]
    return train, sorted(held, key=lambda one: one.digest)[:most]


def make_preferences(
    graded: Sequence[GradedCompletion], *, per_prompt: int, least_gap: float, gap_as_margin: float, seed: int
) -> tuple[list[Preference], dict[str, int]]:
    """Make pairs of a better and a worse completion of the same prompt.

    Return the pairs, and counts by name, such as the number of prompts without a pair.

    Args:
        graded: completions, of any number of prompts in any order. If a prompt has completions of equal text, they count once.
        per_prompt: most pairs per prompt, drawn by hash.
        least_gap: smallest difference between the rewards of a pair, more than 0.
        gap_as_margin: a pair's margin is this factor times the difference of its rewards.
        seed: key of the choice of pairs.
    """
    prompts: dict[str, dict[str, GradedCompletion]] = {}
    for one in graded:
        mine = prompts.setdefault(one.key, {})
        if one.reward is not None:
            mine.setdefault(one.text, one)
    pairs: list[Preference] = []
    alike = 0
    for key, mine in prompts.items():
        some = [
            Preference(good.messages, good.text, bad.text, gap_as_margin * _gap(good, bad))
            for good in mine.values()
            for bad in mine.values()
            if _gap(good, bad) >= least_gap
        ]
        keyed_random("preference pairs", seed, key).shuffle(some)
        pairs += some[:per_prompt]
        alike += not some
    counts = {
        "prompts": len(prompts),
        "completions": len(graded),
        "unscored": sum(one.reward is None for one in graded),
        "prompts_without_a_pair": alike,
        "pairs": len(pairs),
    }
    return pairs, counts


def _gap(good: GradedCompletion, bad: GradedCompletion) -> float:
    return (good.reward or 0.0) - (bad.reward or 0.0)


def make_pairs(config: PairsConfig) -> Path:
    """Run the stage `pairs`: write preference pairs to `pairs.jsonl` and return its path. `summary.json` has the counts.

    Raises:
        UsageError: a file does not fit, or no prompt has completions of different rewards.
    """
    prepare(config.output)
    with locked(config.output):
        rows = itertools.count(1)
        with Progress("reading") as progress:
            graded = [one for path in config.data for one in read_graded(path, lambda: progress.update(next(rows), None))]
        pairs, counts = make_preferences(
            graded,
            per_prompt=config.per_prompt,
            least_gap=config.least_gap,
            gap_as_margin=config.gap_as_margin,
            seed=config.seed,
        )
        write_text(config.output / "summary.json", json.dumps({"counts": {"all": counts}}, indent=1))
        if not pairs:
            raise UsageError(
                f"no prompt has two completions whose rewards differ by {config.least_gap:g} (least_gap): {counts}; a `sample` "
                "stage keeps wrong ones as well with keep: best and at_most: null"
            )
        path = config.output / "pairs.jsonl"
        lines = (
            {
                "prompt": [message.model_dump() for message in pair.messages],
                "chosen": pair.chosen,
                "rejected": pair.rejected,
                "margin": pair.margin,
            }
            for pair in pairs
        )
        write_text(path, "".join(json.dumps(row) + "\n" for row in lines))
    logger.info("pairs: %s", counts)
    return path
