r"""Rewrites other spellings of sets of reals: `x \ne \pm 2`, `x \ne 2, -2`, `all real x`, `all x > 1`."""

from __future__ import annotations

import re

from verigym.envs.math.build import expand_plus_minus
from verigym.envs.math.tree import Listing, NamedSet, Node, Phrase, PlusMinus, Relation, SetBuilder, Symbol, Text, walk

_EVERY = re.compile(r"(?:for )?(?:all|any|every|forall)(?: (?:reals?|numbers?|values?|of))*", re.IGNORECASE)
_REAL = re.compile(r"\breals?\b", re.IGNORECASE)


def spelled_out(node: Node) -> Node:
    """Return the set of reals that `node` spells in another way, as relations; `node` itself if it does not."""
    match node:
        case SetBuilder(element, condition):
            return SetBuilder(element, spelled_out(condition))
        case Phrase((Text(words), Relation() as relation)) if _EVERY.fullmatch(words.strip(" ,")):
            return spelled_out(relation)
        case Phrase((Text(words), Symbol() as name)) if _EVERY.fullmatch(words.strip(" ,")) and _REAL.search(words):
            return Relation((name, NamedSet("R")), ("in",))
        case Relation((_, _), ("!=",)) if any(isinstance(part, PlusMinus) for part in walk(node)):
            return Listing(expand_plus_minus(node), "and")
        case Listing((Relation((Symbol() as name, _), ("!=",)) as first, *others), "comma" | "and" as joiner):
            if not any(isinstance(part, Relation) for other in others for part in walk(other)):
                excluded = [first, *(Relation((name, other), ("!=",)) for other in others)]
                return Listing(tuple(excluded), joiner)
    return node
