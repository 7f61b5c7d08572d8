"""Check of the summed rewards from another library's environment against the reward range that our wrapper declares."""

from __future__ import annotations

from verigym.envs.contract.errors import EnvironmentFailure

ROUNDING = 1e-9


def bounded_sum(total: float, low: float, high: float) -> float:
    """Return `total`, or the bound `low` or `high` if `total` differs from it only by rounding.

    Raises:
        EnvironmentFailure: `total` is outside the range from `low` to `high`.
    """
    if not low - ROUNDING <= total <= high + ROUNDING:
        raise EnvironmentFailure(
            "gold_invalid", f"the rewards add up to {total}, outside {low}..{high}: set the options floor and maximum"
        )
    return next((bound for bound in (low, high) if abs(total - bound) <= ROUNDING), total)
