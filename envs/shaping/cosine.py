"""`CosineLength`: the whole cosine reward of "Demystifying Long Chain-of-Thought Reasoning" (2502.03373).

It is a composition with one part. The reward of a right answer falls from `right[0]` at length 0 to `right[1]` at the limit, so
that short answers are better. The reward of a wrong answer rises from `wrong[0]` to `wrong[1]`, which encourages more thought.
Beyond the limit, every completion gets `beyond`.
"""

from __future__ import annotations

from collections.abc import Mapping

from verigym.envs.composition.base import Composition
from verigym.envs.composition.part_scores import components_of, steps_of
from verigym.envs.contract.base import Environment, ExpectedVerdicts
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, Status
from verigym.envs.registry import load
from verigym.envs.shaping.length import cosine
from verigym.envs.shaping.measure import Unit, length

# The paper's table of hyperparameters.
RIGHT, WRONG, BEYOND = (2.0, 1.0), (-10.0, 0.0), -10.0


class CosineLength(Composition):
    """The cosine length reward, wrapped around an environment that judges the answer.

    Args:
        environment: the correctness part: a registry name, an environment, or a mapping with one entry that names it.
        limit: length in `unit` above which the reward is `beyond`.
        right: reward of a right answer at length 0 and at the limit.
        wrong: reward of a wrong answer at length 0 and at the limit.
        beyond: reward of any completion longer than `limit`.
        unit: unit of length, as in `length`.
        outrank: whether settings are accepted with which a wrong answer may get as much as a right answer within the limit.
        name: name of this environment.

    Raises:
        UsageError: more than one environment is given, `limit` is not positive, or a wrong answer could get as much as a right
            one while `outrank` is False.
    """

    version = "3"  # beyond the other compositions': it counts words itself

    def __init__(
        self,
        environment: str | Environment | Mapping[str, str | Environment],
        *,
        limit: int,
        right: tuple[float, float] = RIGHT,
        wrong: tuple[float, float] = WRONG,
        beyond: float = BEYOND,
        unit: Unit = "auto",
        outrank: bool = False,
        name: str | None = None,
    ) -> None:
        given = environment if isinstance(environment, Mapping) else {_name(environment): environment}
        if len(given) != 1:
            raise UsageError(f"cosine: expected one environment, got {sorted(given)}")
        ((part, inner),) = given.items()
        if limit < 1:
            raise UsageError(f"cosine: limit is {limit}; expected a length of at least 1")
        if not outrank and max(*wrong, beyond) >= min(right):
            raise UsageError(
                f"cosine: a wrong answer can get {max(*wrong, beyond):g} and a right one as little as {min(right):g}, so wrong "
                f"could outrank right; change right, wrong or beyond, or pass outrank=True"
            )
        figures = (float(limit), *map(float, right), *map(float, wrong), float(beyond))
        super().__init__(
            {part: load(inner) if isinstance(inner, str) else inner},
            name=name or f"cosine({part},{unit})",
            primary=part,
            weights=figures,
        )
        self._unit: Unit = unit

    @property
    def reward_range(self) -> tuple[float, float]:
        """From the least of the six figures to the greatest."""
        return min(self.options.weights[1:]), max(self.options.weights[1:])

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return expectations that allow any verdict on sample completions, because the reward depends on the length."""
        return ExpectedVerdicts(gold="free", empty="free", echo="free", garbage="free", hacks="free")

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Judge the answer, then look its length up on its curve."""
        (part,) = self.parts
        inner = self.judge_part(part, prompt, completion)
        counted, unit = length(completion, self._unit)
        limit, short_right, long_right, short_wrong, long_wrong, beyond = self.options.weights
        if counted > limit:
            reward = beyond
        elif inner.status is Status.CORRECT:
            reward = cosine(counted, limit, short_right, long_right)
        else:
            reward = cosine(counted, limit, short_wrong, long_wrong)
        status = inner.status
        if status is Status.CORRECT and reward <= self.reward_range[0]:
            status = Status.LIMIT
        scores = {part: inner}
        return inner.model_copy(
            update={
                "reward": reward,
                "status": status,
                "components": {**components_of(scores), "length": float(counted)},
                "steps": steps_of(scores),
                "reason": f"{inner.reason}; {counted} {unit}, limit {limit:g}",
            }
        )


def _name(environment: str | Environment) -> str:
    return environment if isinstance(environment, str) else environment.name
