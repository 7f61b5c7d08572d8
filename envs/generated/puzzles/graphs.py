"""`graphs`: a shortest path in an undirected graph. Any path that is as short as the shortest is right."""

from __future__ import annotations

import heapq
import random
import re
from typing import Self

from pydantic import Field, model_validator

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import TextOptions, TextPuzzle, TextReference, at
from verigym.envs.match.lists import unbracketed, unquoted

NODES = (5, 6, 7, 9, 12)
HEAVIEST = (1, 1, 5, 9, 20)
NAMES = "ABCDEFGHIJKL"

Edge = tuple[str, str, int]


def lengths(edges: tuple[Edge, ...]) -> dict[str, dict[str, int]]:
    """Return, for each node, a mapping from each neighbour to the length of the shortest edge between them."""
    table: dict[str, dict[str, int]] = {}
    for one, other, length in edges:
        for a, b in ((one, other), (other, one)):
            table.setdefault(a, {})[b] = min(length, table.get(a, {}).get(b, length))
    return table


def shortest(edges: tuple[Edge, ...], start: str, goal: str) -> tuple[int, list[str]] | None:
    """Return the length and the nodes of a shortest path, by Dijkstra's algorithm, or None if `goal` cannot be reached."""
    table = lengths(edges)
    queue, done = [(0, [start])], set()
    while queue:
        so_far, path = heapq.heappop(queue)
        if path[-1] == goal:
            return so_far, path
        if path[-1] not in done:
            done.add(path[-1])
            for node, length in table.get(path[-1], {}).items():
                heapq.heappush(queue, (so_far + length, [*path, node]))
    return None


class GraphReference(TextReference):
    """A graph, two of its nodes, and a shortest path between them."""

    edges: tuple[tuple[str, str, int], ...] = Field(min_length=1, max_length=2000)
    """The edges as (node, node, length). Each edge can be walked in both directions. Lengths are at least 1."""
    start: str
    """The node at which a path begins."""
    goal: str
    """The node at which it ends."""

    @model_validator(mode="after")
    def _answer_is_right(self) -> Self:
        if any(length < 1 for _, _, length in self.edges):
            raise ValueError("an edge is shorter than 1")
        problem = wrong(self, self.answer)
        if problem:
            raise ValueError(f"the answer {self.answer!r} is none: {problem}")
        return self


def wrong(reference: GraphReference, answer: str) -> str:
    """Return what is wrong with the path `answer`, or an empty string if it is a shortest path."""
    path = [unquoted(node.strip()) for node in re.split(r"->|[-,;]", unbracketed(answer))]
    if path[0] != reference.start or path[-1] != reference.goal:
        return f"not a path from {reference.start} to {reference.goal}"
    table, total = lengths(reference.edges), 0
    for one, other in zip(path, path[1:], strict=False):
        if other not in table.get(one, {}):
            return f"no edge joins {one[:20]!r} and {other[:20]!r}"
        total += table[one][other]
    best = shortest(reference.edges, reference.start, reference.goal)
    if best is None or total > best[0]:
        return f"a path of length {total}, and there is a shorter one"
    return ""


class GraphsEnvironment(TextPuzzle[GraphReference, TextOptions]):
    """Shortest paths: by the number of edges at levels 1 and 2, and by the sum of the edge lengths from level 3 on."""

    name = "graphs"
    version = "3"
    reference_type = GraphReference
    options_type = TextOptions

    def make(self, rng: random.Random) -> Made:
        """Draw a connected graph, and two nodes that no edge joins."""
        names = NAMES[: at(self.level, NODES)]
        heaviest = at(self.level, HEAVIEST)
        while True:
            order = rng.sample(names, len(names))
            pairs = [(node, rng.choice(order[:place])) for place, node in enumerate(order) if place]
            pairs += [(order[a], order[b]) for a, b in (rng.sample(range(len(order)), 2) for _ in range(len(order) // 2))]
            sides = sorted({(min(pair), max(pair)) for pair in pairs})
            edges = tuple((one, other, rng.randint(1, heaviest)) for one, other in sides)
            start, goal = sorted(rng.sample(names, 2))
            found = shortest(edges, start, goal)
            if found and len(found[1]) > 2:
                break
        shown = ", ".join(f"{one}-{other}" + (f" ({length})" if heaviest > 1 else "") for one, other, length in edges)
        question = (
            f"A graph has these edges{', each with its length' if heaviest > 1 else ''}; they lead both ways: {shown}. "
            f"Give a shortest path from {start} to {goal} as its nodes, separated by hyphens."
        )
        return Made(question, "-".join(found[1]), facts={"edges": edges, "start": start, "goal": goal})

    def problem(self, reference: GraphReference, answer: str) -> str:
        """A path along edges whose length is the least."""
        return wrong(reference, answer)
