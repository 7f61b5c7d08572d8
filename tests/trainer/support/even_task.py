"""A procedural environment whose worked solutions have two steps, and a policy that carries on from whatever it has written."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from verigym.envs.contract.generated import Made
from verigym.envs.contract.schema import Prompt
from verigym.envs.generated.families import ProceduralEnvironment
from verigym.trainer.engines.base import Generated, OnFinished
from verigym.trainer.models.codec import Codec

EVENS = tuple(map(str, range(10, 100, 2)))


class EvenEnvironment(ProceduralEnvironment):
    """Any even number of two digits will do."""

    name = "even"
    version = "1"

    def make(self, rng: random.Random) -> Made:
        """Return a question, one of its answers and the step before it."""
        answer = rng.choice(EVENS)
        return Made(f"Case {rng.randint(100, 999)}: an even number?", answer, f"I take {answer}.")

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return task number `index`, with all of its answers."""
        question = self.drawn(split, seed, index).question
        return self.prompt(question, answer=EVENS)


def solution(number: str) -> str:
    """Return two steps that end in this number."""
    return f"I take {number}.\n\nSo \\boxed{{{number}}}"


class CarriesOn:
    """An engine whose policy trusts what stands there: it boxes the last number, or slips one time in so many."""

    def __init__(self, codec: Codec, *, slips: int = 0) -> None:
        """Slip at every sample whose number is a multiple of `slips`."""
        self.codec, self.slips = codec, slips
        self.keys: list[tuple[object, ...]] = []

    def sync(self) -> None:
        """Do nothing."""

    def rest(self) -> None:
        """Do nothing."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Finish each prompt."""
        done: list[list[Generated]] = []
        for place, (prompt, keys) in enumerate(zip(prompts, row_keys, strict=True)):
            number = re.findall("[0-9]+", self.codec.decode(prompt))[-1]
            done.append([])
            for sample, key in enumerate(keys):
                self.keys.append(key)
                slip = self.slips and sample % self.slips == 0
                ids = self.codec.encode_text(f"So \\boxed{{{'neither' if slip else number}}}")
                cut = len(ids) > max_new_tokens
                ids = ids[:max_new_tokens]
                done[-1].append(Generated(ids, (0.0,) * len(ids), "length" if cut else "stop"))
                on_finished(place, sample, done[-1][-1])
        return done

    def close(self) -> None:
        """Do nothing."""
