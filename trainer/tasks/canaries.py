"""Canaries: tasks that no answer solves, asked beside the step's own. One that is paid for stops the run; none is trained on.

A policy that finds a hole in its verifier is paid for it as for an honest answer. Where the right verdict is known, that shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.composition.base import canary_of
from verigym.envs.contract.schema import Prompt
from verigym.trainer.rng import keyed_random
from verigym.trainer.tasks.mixture import Source


def draw_canaries(sources: Sequence[Source], seed: int, step: int, count: int, share: float) -> list[tuple[Source, Prompt]]:
    """Return the canaries of a step: a function of its arguments, so a resumed run asks the same.

    Args:
        sources: the mixture; those whose environments have no canaries are passed over.
        seed: key of all randomness.
        step: counted from 0.
        count: prompts of a step, each of which brings a canary along by chance.
        share: that chance.
    """
    found = []
    for slot in range(count if share > 0 else 0):
        draws = keyed_random(seed, "canary", step, slot)
        if draws.random() >= share:
            continue
        offered = [(source, canary_of(source.environment, seed, step * count + slot)) for source in sources]
        able = [(source, prompt) for source, prompt in offered if prompt is not None]
        if able:
            found += draws.choices(able, [source.weight for source, _ in able])
    return found
