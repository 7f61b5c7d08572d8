r"""The two readings of an expression with `\pm`."""

from __future__ import annotations

from functools import partial

from verigym.envs.math.equality.rebuild import rebuild
from verigym.envs.math.tree import Neg, Node, PlusMinus, walk


def expand_plus_minus(node: Node) -> tuple[Node, ...]:
    r"""Return the tree for the upper signs and the tree for the lower signs; the tree itself where there is no `\pm`.

    All signs go together: `\pm 1 \mp 2` is 1 - 2 and -1 + 2.
    """
    if not any(isinstance(part, PlusMinus) for part in walk(node)):
        return (node,)
    return rebuild(node, partial(_signed, 1)), rebuild(node, partial(_signed, -1))


def _signed(upper: int, part: Node) -> Node:
    if not isinstance(part, PlusMinus):
        return part
    return part.of if part.sign == upper else Neg(part.of)
