"""Composition is algebra: `WeightedSum`, `Gate`, `AllOf` and `AnyOf` of environments are environments themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from verigym.envs.composition.base import Composition
from verigym.envs.composition.part_scores import components_of, raised_of, reason_of, steps_of
from verigym.envs.contract.base import Environment, Expectation, Panel
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, Status
from verigym.envs.registry import load

Part = str | Environment
Parts = Sequence[Part] | Mapping[str, Part]

_WITHOUT_CONTENT = (Status.NO_ANSWER, Status.TRUNCATED, Status.LIMIT)
_OPPOSITE: dict[Expectation, Expectation] = {"maximum": "floor", "floor": "maximum", "free": "free"}


class WeightedSum(Composition):
    """Correctness plus shaping: the sum of weight times reward.

    The primary part is the correctness part. It decides the status, so CORRECT may come with less than the maximum, and
    it gives the answer; steps come from every part that scores some. The rewards are not normalised: the range is the
    weighted sum of the parts' ranges. The other parts together must weigh less than the primary, so that a wrong answer
    never outranks a right one.

    Args:
        weights: part name to weight; a negative weight is a penalty, 0 only reports the component.
        environments: the environments of parts that are not to be loaded from the registry by their name.
        name: of the whole; by default the part names joined by "+".
        primary: the correctness part; by default the first.
        optional: parts whose ERROR leaves the sum instead of making the whole ERROR.
        allow_shaping_to_dominate: accept weights under which a wrong answer can outrank a right one.

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
        for part, weight in weights.items():
            if not math.isfinite(weight):
                raise UsageError(f"weighted sum: the weight of {part!r} is {weight}; expected a finite number")
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
    def panel(self) -> Panel:
        """Floor or maximum where all parts agree (a penalty's sign turned round), else free."""

        def agree(expectations: Mapping[str, Expectation]) -> Expectation:
            turned = {_OPPOSITE[e] if self._weights[part] < 0 else e for part, e in expectations.items()}
            return turned.pop() if len(turned) == 1 else "free"

        return _panel({part: self.parts[part] for part, weight in self._weights.items() if weight}, agree)

    @property
    def summands(self) -> Mapping[str, float]:
        """The weights."""
        return self._weights

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Add up the parts."""
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
    """`then` counts only if `condition` holds, which is to say: is CORRECT. `Gate("format", "math")`.

    A shut gate gives the floor of `then`, which is not judged, with the condition's status if that is NO_ANSWER,
    TRUNCATED or LIMIT, and INCORRECT otherwise. Each part is a registry name, an environment, or a mapping with one
    entry that gives it a part name.
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
        """That of `then`."""
        return self.parts[self._then].reward_range

    @property
    def panel(self) -> Panel:
        """Floor where either part says so, maximum where both do, else free."""
        return _panel(self.parts, _all_of)

    @property
    def summands(self) -> Mapping[str, float]:
        """The condition adds nothing."""
        return {self._then: 1.0}

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Judge the condition, and the rest if it holds."""
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
        told = {"components": components_of(scores), "steps": steps_of(scores), "raised": raised_of(scores)}
        return then.model_copy(update=told)


class _Extreme(Composition):
    """Judges parts in order until the verdict is decided; rewards are brought to 0..1 by each part's own range."""

    reward_range = (0.0, 1.0)
    _decisive: float
    _default_name: str

    def __init__(
        self, parts: Parts, *, name: str | None = None, primary: str | None = None, optional: Sequence[str] = ()
    ) -> None:
        found = _resolve(parts)
        if not found:
            raise UsageError(f"{self._default_name}: no parts given")
        super().__init__(
            found,
            name=name or f"{self._default_name}({','.join(found)})",
            primary=primary or next(iter(found)),
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
    """The least of the parts' rewards; CORRECT when every part is. Stops at the first part at its floor.

    Otherwise the status is that of the part with the least reward. The answer is the primary's, by default the first part's;
    steps come from every part that was judged.
    """

    _decisive = 0.0
    _default_name = "all"

    @property
    def panel(self) -> Panel:
        """Floor where any part says so, maximum where all do, else free."""
        return _panel(self.parts, _all_of)

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Take the least."""
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
    """The greatest of the parts' rewards, with that part's status and answer, and all steps. Stops at the first maximum."""

    _decisive = 1.0
    _default_name = "any"

    @property
    def panel(self) -> Panel:
        """Maximum where any part says so, floor where all do, else free."""

        def expect(expectations: Mapping[str, Expectation]) -> Expectation:
            found = set(expectations.values())
            return "maximum" if "maximum" in found else "floor" if found == {"floor"} else "free"

        return _panel(self.parts, expect)

    def combine(self, prompt: Prompt, completion: Completion) -> Score:
        """Take the greatest."""
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
    pairs: Iterable[tuple[str, Part]]
    if isinstance(parts, Mapping):
        pairs = parts.items()
    else:
        pairs = [(part if isinstance(part, str) else getattr(part, "name", repr(part)), part) for part in parts]
    found: dict[str, Environment] = {}
    for name, part in pairs:
        if name in found:
            raise UsageError(f"two parts are called {name!r}; give them names: {{'first': ..., 'second': ...}}")
        environment = load(part) if isinstance(part, str) else part
        if not isinstance(environment, Environment):
            raise UsageError(f"part {name!r} is {environment!r}; expected a registry name or an environment")
        found[name] = environment
    return found


def _panel(parts: Mapping[str, Environment], expect: Callable[[Mapping[str, Expectation]], Expectation]) -> Panel:
    cases = {case: expect({p: getattr(e.panel, case) for p, e in parts.items()}) for case in Panel.model_fields}
    return Panel(**cases)


def _all_of(expectations: Mapping[str, Expectation]) -> Expectation:
    found = set(expectations.values())
    return "floor" if "floor" in found else "maximum" if found == {"maximum"} else "free"
