"""Puts the parts' scores into a composed score: rewards and components by name, steps with the part that judged them."""

from __future__ import annotations

from collections.abc import Mapping

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Raised, Score, StepScore


def scores_steps(environment: Environment) -> bool:
    """Return whether the environment's scores have steps."""
    return bool(getattr(environment, "scores_steps", False))


def components_of(scores: Mapping[str, Score]) -> dict[str, float | None]:
    """Return the parts' rewards by part name, and each part's own components as `part/name`."""
    components: dict[str, float | None] = {}
    for part, score in scores.items():
        components[part] = score.reward
        components.update({f"{part}/{inner}": value for inner, value in score.components.items()})
    return components


def steps_of(scores: Mapping[str, Score]) -> tuple[StepScore, ...] | None:
    """Return the steps of all parts, each with the name of the part that judged it, or None if no part has steps."""
    steps = tuple(
        step.model_copy(update={"part": f"{part}/{step.part}" if step.part else part})
        for part, score in scores.items()
        for step in score.steps or ()
    )
    return steps or None


def raised_of(scores: Mapping[str, Score]) -> Raised | None:
    """Return the exception of the first part that raised one."""
    return next((score.raised for score in scores.values() if score.raised is not None), None)


def reason_of(reason: str, scores: Mapping[str, Score]) -> str:
    """Return `reason`, followed by the names of the optional parts that gave no score."""
    left_out = [f"optional part {part!r} gave no score: {s.reason}" for part, s in scores.items() if not s.scored]
    return "; ".join([reason, *left_out])
