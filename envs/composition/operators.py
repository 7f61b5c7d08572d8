"""The operators `WeightedSum`, `Gate`, `AllOf` and `AnyOf`: environments made of environments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from verigym.envs.composition.base import Composition
from verigym.envs.composition.part_scores import components_of, raised_of, reason_of, steps_of
from verigym.envs.contract.base import Environment, Expectation, ExpectedVerdicts
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, Status
from verigym.envs.registry import load

Part = str | Environment
Parts = Sequence[Part] | Mapping[str, Part]

_WITHOUT_CONTENT = (Status.NO_ANSWER, Status.TRUNCATED, Status.LIMIT)
_OPPOSITE: dict[Expectation, Expectation] = {"maximum": "floor", "floor": "maximum", "free": "free"}


class WeightedSum(Composition):
    """Composition whose reward is the weighted sum of its parts' rewards: correctness plus shaping.

    The primary part judges correctness: it alone decides the status and provides the answer. The other parts change only the
    reward, so a CORRECT completion may get less than the maximum. Steps come from every part that scores steps. The rewards are
    not normalised: the range is the weighted sum of the parts' ranges. The other parts together must be able to change the
    reward by less than the primary part can, so that a wrong answer never outranks a right one.

    Args:
        weights: mapping from part name to weight. A negative weight makes the part a penalty. With weight 0 the part's reward
            is reported but not added.
        environments: environments by part name; a part that is missing here is loaded from the registry by its name.
        name: name of the sum; by default the part names joined by "+".
        primary: the correctness part; by default the first part.
        optional: parts that are left out of the sum if they give an ERROR. An ERROR of any other part makes the composed score
            an ERROR.
        allow_shaping_to_dominate: accept weights with which a wrong answer can outrank a right one.

    Raises:
        UsageError: a weight is not finite, shaping could dominate, or a part is unknown.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        environments: Mapping[str, Environment] | None = None,
        *,
        name: str | None = None,
        primary: str | None = None,
        optional: Sequence[str] = (),
        allow_shaping_to_dominate: bool = False,
    ) -> None:
        given = dict(environments or {})
        if not isinstance(weights, Mapping):
            raise UsageError(
                f"weighted sum: the weights are {weights!r:.200}; expected a mapping, {{'math': 1.0, 'format': 0.1}}"
            )
        for part, weight in weights.items():
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise UsageError(f"weighted sum: the weight of {part!r} is {weight!r}; expected a finite number")
        unweighted = sorted(set(given) - set(weights))
        if unweighted or not weights:
            raise UsageError(f"weighted sum: no weight for {unweighted}" if unweighted else "weighted sum: no parts given")
        parts = _resolve({part: given.get(part, part) for part in weights})
        super().__init__(
            parts,
            name=name or "+".join(parts),
            primary=primary or next(iter(parts)),
            weights=tuple(float(weight) for weight in weights.values()),
            optional=optional,
        )
        self._weights = dict(zip(parts, self.options.weights, strict=True))
        spans = {part: high - low for part, (low, high) in self._ranges().items()}
        lead = spans.pop(self.options.primary)
        if self._weights[self.options.primary] <= 0:
            raise UsageError(f"{self.name!r}: the weight of the primary part {self.options.primary!r} must be positive")
        if math.fsum(spans.values()) >= lead and not allow_shaping_to_dominate:
            raise UsageError(
                f"{self.name!r}: the other parts can add up to {math.fsum(spans.values()):g}, the primary part "
                f"{self.options.primary!r} only to {lead:g}, so a wrong answer could outrank a right one; "
                f"lower their weights or pass allow_shaping_to_dominate=True (in a source's YAML: added_may_dominate)"
            )

    @property
    def reward_range(self) -> tuple[float, float]:
        """The weighted sum of the parts' ranges."""
        ranges = self._ranges().values()
        return math.fsum(low for low, _ in ranges), math.fsum(high for _, high in ranges)

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return the verdict that `check_env` expects for each kind of completion.

        This verdict is the floor if all parts expect the floor, and the maximum if all expect the maximum. Otherwise it is
        `free`: any reward in the range is accepted. For a part with a negative weight, floor and maximum are exchanged. Parts
        with weight 0 are ignored.
        """

        def agree(expectations: Mapping[str, Expectation]) -> Expectation:
            signed = {_OPPOSITE[e] if self._weights[part] < 0 else e for part, e in expectations.items()}
            return signed.pop() if len(signed) == 1 else "free"

        return _expected_verdicts({part: self.parts[part] for part, weight in self._weights.items() if weight}, agree)

    @property
    def summands(self) -> Mapping[str, float]:
        """The weights."""
        return self._weights

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Judge with all parts and add up their weighted rewards."""
        scores = {part: self.judge_part(part, prompt, completion) for part in self.parts}
        low, high = self.reward_range
        terms = [self._weights[part] * s.reward for part, s in scores.items() if s.reward is not None]
        primary = scores[self.options.primary]
        return Score(
            reward=min(max(math.fsum(terms), low), high),
            status=primary.status,
            components=components_of(scores),
            answer=primary.answer,
            steps=steps_of(scores),
            raised=raised_of(scores),
            reason=reason_of(primary.reason, scores),
        )

    def _ranges(self) -> dict[str, tuple[float, float]]:
        ranges = {}
        for part, weight in self._weights.items():
            ends = [weight * end for end in self.parts[part].reward_range]
            if part in self.options.optional:  # in ERROR it adds nothing
                ends.append(0.0)
            ranges[part] = (min(ends), max(ends))
        return ranges


class Gate(Composition):
    """Composition that gives the verdict of `then` if `condition` is CORRECT, otherwise the floor: `Gate("format", "math")`.

    If `condition` is not CORRECT, `then` is not judged. If the status of `condition` is NO_ANSWER, TRUNCATED or LIMIT, it
    becomes the status of the gate; otherwise the status is INCORRECT. Each part is a registry name, an environment, or a
    mapping from a part name to a registry name or an environment.
    """

    def __init__(
        self, condition: Part | Mapping[str, Part], then: Part | Mapping[str, Part], *, name: str | None = None
    ) -> None:
        first, second = (_resolve(part if isinstance(part, Mapping) else [part]) for part in (condition, then))
        if len(first) != 1 or len(second) != 1 or first.keys() == second.keys():
            raise UsageError(
                f"gate: expected one condition and one other part with different names, got {[*first]} and {[*second]}"
            )
        (self._condition,), (self._then,) = first, second
        super().__init__(first | second, name=name or f"{self._condition}>{self._then}", primary=self._then)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range of `then`."""
        return self.parts[self._then].reward_range

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return the verdict that `check_env` expects for each kind of completion.

        This verdict is the floor if either part expects the floor, and the maximum if both expect the maximum. Otherwise it is
        `free`: any reward in the range is accepted.
        """
        return _expected_verdicts(self.parts, _all_of)

    @property
    def summands(self) -> Mapping[str, float]:
        """Weight 1 for `then`; the condition adds nothing."""
        return {self._then: 1.0}

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Judge the condition, and `then` if it holds."""
        scores = {self._condition: self.judge_part(self._condition, prompt, completion)}
        condition = scores[self._condition]
        if condition.status is not Status.CORRECT:
            return Score(
                reward=self.reward_range[0],
                status=condition.status if condition.status in _WITHOUT_CONTENT else Status.INCORRECT,
                components=components_of(scores),
                steps=steps_of(scores),
                raised=raised_of(scores),
                reason=f"{self._condition!r} does not hold: {condition.reason}",
            )
        then = scores[self._then] = self.judge_part(self._then, prompt, completion)
        update = {"components": components_of(scores), "steps": steps_of(scores), "raised": raised_of(scores)}
        return then.model_copy(update=update)


class _Extreme(Composition):
    """Judges parts in order until the verdict is decided; each part's reward is scaled to 0..1 by its range."""

    reward_range = (0.0, 1.0)
    _decisive: float
    _default_name: str

    def __init__(
        self, parts: Parts, *more: Part, name: str | None = None, primary: str | None = None, optional: Sequence[str] = ()
    ) -> None:
        if more:
            raise UsageError(f"{self._default_name}: give the parts as one list, [{parts!r}, {', '.join(map(repr, more))}]")
        environments = _resolve(parts)
        if not environments:
            raise UsageError(f"{self._default_name}: no parts given")
        super().__init__(
            environments,
            name=name or f"{self._default_name}({','.join(environments)})",
            primary=primary or next(iter(environments)),
            optional=optional,
        )

    def _judge_until_decided(self, prompt: Prompt, completion: Completion) -> tuple[dict[str, Score], dict[str, float]]:
        scores: dict[str, Score] = {}
        levels: dict[str, float] = {}
        for part, environment in self.parts.items():
            score = scores[part] = self.judge_part(part, prompt, completion)
            if score.reward is None:
                continue
            low, high = environment.reward_range
            levels[part] = (score.reward - low) / (high - low) if high > low else 1.0
            if levels[part] == self._decisive:
                break
        return scores, levels


class AllOf(_Extreme):
    """Composition whose reward is the least of its parts' rewards, each scaled to 0..1 by the range of its part.

    The status is CORRECT if every part is CORRECT. Otherwise it is the status of the part with the least reward, or PARTIAL if
    that part is CORRECT. Judging stops at the first part that gives its floor. The answer is the primary part's (by default the
    first part's); steps come from every part that was judged.
    """

    _decisive = 0.0
    _default_name = "all"

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return the verdict that `check_env` expects for each kind of completion.

        This verdict is the floor if any part expects the floor, and the maximum if all expect the maximum. Otherwise it is
        `free`: any reward in the range is accepted.
        """
        return _expected_verdicts(self.parts, _all_of)

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Return the least reward of the parts judged."""
        scores, levels = self._judge_until_decided(prompt, completion)
        worst = min(levels, key=levels.__getitem__)
        status = scores[worst].status
        if status is Status.CORRECT and any(scores[part].status is not Status.CORRECT for part in levels):
            status = Status.PARTIAL
        primary = scores.get(self.options.primary)
        return Score(
            reward=levels[worst],
            status=status,
            components=components_of(scores),
            answer=primary.answer if primary else None,
            steps=steps_of(scores),
            raised=raised_of(scores),
            reason=reason_of(f"{worst}: {scores[worst].reason}", scores),
        )


class AnyOf(_Extreme):
    """Composition whose reward is the greatest of its parts' rewards, each scaled to 0..1 by the range of its part.

    Status and answer are those of the part with the greatest reward. Judging stops at the first part that gives its maximum.
    Steps come from every part that was judged.
    """

    _decisive = 1.0
    _default_name = "any"

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Return the verdict that `check_env` expects for each kind of completion.

        This verdict is the maximum if any part expects the maximum, and the floor if all expect the floor. Otherwise it is
        `free`: any reward in the range is accepted.
        """

        def expect(expectations: Mapping[str, Expectation]) -> Expectation:
            distinct = set(expectations.values())
            return "maximum" if "maximum" in distinct else "floor" if distinct == {"floor"} else "free"

        return _expected_verdicts(self.parts, expect)

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Return the greatest reward of the parts judged."""
        scores, levels = self._judge_until_decided(prompt, completion)
        best = max(levels, key=levels.__getitem__)
        return Score(
            reward=levels[best],
            status=scores[best].status,
            components=components_of(scores),
            answer=scores[best].answer,
            steps=steps_of(scores),
            raised=raised_of(scores),
            reason=reason_of(f"{best}: {scores[best].reason}", scores),
        )


def _resolve(parts: Parts) -> dict[str, Environment]:
    """Return the environments by part name; registry names are loaded.

    Raises:
        UsageError: a part name stands twice, or a part is neither a registry name nor an environment.
    """
    pairs: Iterable[tuple[str, Part]]
    if not isinstance(parts, Iterable) or isinstance(parts, str):
        raise UsageError(f"the parts are {parts!r}; expected a list of them, ['math', 'format'], or a mapping with their names")
    if isinstance(parts, Mapping):
        pairs = parts.items()
    else:
        pairs = [(part if isinstance(part, str) else getattr(part, "name", repr(part)), part) for part in parts]
    environments: dict[str, Environment] = {}
    for name, part in pairs:
        if name in environments:
            raise UsageError(f"two parts are called {name!r}; give them names: {{'first': ..., 'second': ...}}")
        environment = load(part) if isinstance(part, str) else part
        if not isinstance(environment, Environment):
            raise UsageError(f"part {name!r} is {environment!r}; expected a registry name or an environment")
        environments[name] = environment
    return environments


def _expected_verdicts(
    parts: Mapping[str, Environment], expect: Callable[[Mapping[str, Expectation]], Expectation]
) -> ExpectedVerdicts:
    expected = {
        kind: expect({part: getattr(environment.expected_verdicts, kind) for part, environment in parts.items()})
        for kind in ExpectedVerdicts.model_fields
    }
    return ExpectedVerdicts(**expected)


def _all_of(expectations: Mapping[str, Expectation]) -> Expectation:
    distinct = set(expectations.values())
    return "floor" if "floor" in distinct else "maximum" if distinct == {"maximum"} else "free"
