"""What is added to a verdict's reward before advantages are taken: pure functions of plain numbers."""

from __future__ import annotations


def soft_overlong(length: int, max_length: int, cache: int) -> float:
    """Punish a completion that comes near the limit: 0 up to `max_length - cache`, then falling to -1 (DAPO, arXiv 2503.14476).

    Args:
        length: of the completion, in tokens.
        max_length: where the punishment is complete, in tokens.
        cache: over how many tokens before that it grows; 0 punishes only what is longer than `max_length`.

    Returns:
        From -1 to 0, to be added to the reward.

    Raises:
        ValueError: a negative number, or a cache larger than the limit.
    """
    if length < 0 or not 0 <= cache <= max_length:
        raise ValueError(f"expected length >= 0 and 0 <= cache <= max_length, got length={length}, {max_length=} and {cache=}")
    if length > max_length:
        return -1.0
    return min(0.0, (max_length - cache - length) / cache) if cache else 0.0
