"""Load balancing: which rows of an update each process runs."""

from __future__ import annotations

from collections.abc import Sequence

from verigym.trainer.distributed.world import World


def share_rows(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], numbers: Sequence[int], world: World
) -> list[int]:
    """Return the numbers of the rows that this process runs, ascending. Each row goes to exactly one process.

    All rows of a prompt form a bundle for one process, so that the prompt runs only once. A bundle with many more tokens than
    an even share is split. Bundles are assigned greedily, the largest first, to the process with the fewest tokens.

    Args:
        prompts: token ids of the prompt of each row.
        completions: token ids of the completion of each row.
        numbers: the rows to run.
        world: the processes that train together.
    """
    if world.size == 1:
        return list(numbers)
    rows_of: dict[tuple[int, ...], list[int]] = {}
    for number in numbers:
        rows_of.setdefault(tuple(prompts[number]), []).append(number)

    def cost(rows: Sequence[int]) -> int:
        return len(prompts[rows[0]]) + sum(len(completions[row]) for row in rows)

    even = max(1, sum(map(cost, rows_of.values())) // world.size)
    bundles: list[list[int]] = []
    for rows in rows_of.values():
        parts = min(len(rows), max(1, round(cost(rows) / even)))
        bundles += [rows[part::parts] for part in range(parts)]
    loads, shares = [0] * world.size, [list[int]() for _ in range(world.size)]
    for bundle in sorted(bundles, key=lambda rows: (-cost(rows), rows[0])):
        rank = loads.index(min(loads))
        loads[rank] += cost(bundle)
        shares[rank] += bundle
    return sorted(shares[world.rank])
