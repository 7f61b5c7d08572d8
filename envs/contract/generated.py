"""Base of environments that write their own tasks: from (split, seed, index) to a prompt with its reference.

Task number `index` of a split depends on sha256 of (stream, seed, split, index) alone. A task belongs to the held-out split
by the hash of its own text, so no held-out question ever occurs in training, whatever the seeds and levels.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from verigym.envs.contract.base import BaseEnvironment, Options
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt, Reference, sha256_hex

HELD_OUT_SHARE = 0.2
TRIES = 1000
SPLITS = ("train", "test")

R = TypeVar("R", bound=Reference)
Opts = TypeVar("Opts", bound=Options)


def split_of(question: str) -> str:
    """Return the split a question belongs to, by the hash of its text."""
    return "test" if int(sha256_hex(question)[:8], 16) < HELD_OUT_SHARE * 2**32 else "train"


class Made(NamedTuple):
    """A task as it was drawn."""

    question: str
    answer: str | None = None
    """A right answer, for the reference's field `answer`; None where the reference has no such field."""
    reasoning: str = ""
    """A worked solution, where one is written."""
    facts: Mapping[str, Any] = MappingProxyType({})
    """All other fields of the reference."""


class GeneratedTasks(BaseEnvironment[R, Opts]):
    """Base: write `make`, which draws a task from a generator, and `judge`."""

    @abstractmethod
    def make(self, rng: random.Random) -> Made:
        """Return a task; everything random in it comes from `rng`."""

    def stream(self) -> str:
        """Return the first part of the key that draws are made from."""
        return self.name

    def drawn(self, split: str, seed: int, index: int) -> Made:
        """Return task number `index` of a split.

        Raises:
            UsageError: the split is neither train nor test, or there are so few questions that none falls into it.
        """
        if split not in SPLITS:
            raise UsageError(f"{self.name!r} has the splits train and test, not {split!r}")
        rng = random.Random(int(sha256_hex(f"{self.stream()}/{seed}/{split}/{index}")[:16], 16))
        for _ in range(TRIES):
            made = self.make(rng)
            if split_of(made.question) == split:
                return made
        raise UsageError(f"{self.name!r} has so few questions that {TRIES} draws gave none of the split {split!r}")

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return task number `index` of an endless sequence.

        Raises:
            UsageError: as `drawn`, or `make` gave other fields than the reference has.
        """
        made = self.drawn(split, seed, index)
        metadata = {"split": split, "seed": seed, "index": index}
        known = self.reference_type.model_fields
        if made.answer is not None and "answer" not in known:
            raise UsageError(
                f"{self.name!r}: make() gave an answer, and {self.reference_type.__name__} has no field 'answer'; give its "
                f"fields ({', '.join(known) or 'none'}) as Made(question, facts={{'field': value}}), or add the field"
            )
        answer = {} if made.answer is None else {"answer": made.answer}
        return self.prompt(made.question, metadata=metadata, **answer, **made.facts)
