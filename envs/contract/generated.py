"""Base class of environments that generate their tasks. It maps (split, seed, index) to a prompt with its reference.

Tasks are drawn from a random generator that is seeded with the sha256 of (stream, seed, split, index); the stream is a text
that differs between environments. A drawn task is used only if its question belongs to the requested split. The hash of the
question decides to which split it belongs, so no question of the test split occurs in training, whatever the seeds and
difficulty levels.
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
    """Return the split to which `question` belongs, train or test. The hash of the question's text decides."""
    return "test" if int(sha256_hex(question)[:8], 16) < HELD_OUT_SHARE * 2**32 else "train"


class Made(NamedTuple):
    """A generated task."""

    question: str
    answer: str | None = None
    """A right answer, which becomes the reference's field `answer`; None if the reference has no such field."""
    reasoning: str = ""
    """A worked solution, if there is one."""
    facts: Mapping[str, Any] = MappingProxyType({})
    """All other fields of the reference."""


class GeneratedTasks(BaseEnvironment[R, Opts]):
    """Base class of environments that generate their tasks.

    A subclass writes `make`, which draws a task from a random generator, and `judge`.
    """

    @abstractmethod
    def make(self, rng: random.Random) -> Made:
        """Return a task. All its randomness comes from `rng`."""

    def stream(self) -> str:
        """Return the first part of the random generator's seed, (stream, seed, split, index). It must differ by environment."""
        return self.name

    def drawn(self, split: str, seed: int, index: int) -> Made:
        """Return task number `index` of `split` for `seed`.

        Raises:
            UsageError: `split` is neither train nor test, or the environment has so few questions that none is in this split.
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
        """Return the prompt of task number `index` of `split` for `seed`; the sequence has no end.

        Raises:
            UsageError: see `drawn`; or the fields that `make` returned are not those of the reference.
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
