"""Canaries: tasks that no answer solves, sampled in addition to a step's tasks and never trained on.

A policy that exploits its verifier gets the reward of a correct answer. A canary exposes this: no answer to it is right, so a
canary that is graded correct stops the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.composition.base import canary_of
from verigym.envs.contract.schema import Prompt
from verigym.trainer.rng import keyed_random
from verigym.trainer.tasks.mixture import Source


def draw_canaries(sources: Sequence[Source], seed: int, step: int, count: int, share: float) -> list[tuple[Source, Prompt]]:
    """Return the canaries of a step. They depend on the arguments alone, so a resumed run samples the same canaries.

    Args:
        sources: the mixture; sources whose environment has no canaries are skipped.
        seed: key of all randomness.
        step: number of the step, counted from 0.
        count: number of prompts of the step.
        share: probability of a canary, for each of the `count` prompts.
    """
    canaries = []
    for slot in range(count if share > 0 else 0):
        draws = keyed_random(seed, "canary", step, slot)
        if draws.random() >= share:
            continue
        offered = [(source, canary_of(source.environment, seed, step * count + slot)) for source in sources]
        able = [(source, prompt) for source, prompt in offered if prompt is not None]
        if able:
            canaries += draws.choices(able, [source.weight for source, _ in able])
    return canaries
