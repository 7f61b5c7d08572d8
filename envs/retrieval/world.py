"""Worlds of invented people, towns and companies: documents about them, and questions that take one or two steps.

A world is drawn from a hash of its key. Each generated task has its own world, so facts remembered from one task are useless in
another: the model has to look them up.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from verigym.envs.contract.schema import sha256_hex
from verigym.envs.retrieval.corpus import Document

VERSION = "1"
"""Raised whenever a key may give another world."""
Kind = Literal["person", "town", "company"]

FIRST_YEAR, LAST_YEAR = 1100, 1990
TRADES = (
    "apothecary archivist baker barber beekeeper blacksmith bookbinder brewer carpenter cartographer chandler clockmaker "
    "cobbler cooper dyer engraver falconer farrier ferryman furrier gardener gilder glassblower goldsmith hatter joiner "
    "locksmith luthier mason midwife miller notary painter potter printer saddler surveyor tanner thatcher weaver"
).split()
GOODS = (
    "anchors axles barometers bells bricks brooms buckles buttons candles carpets chains clocks compasses corks cutlery drums "
    "flutes gloves hinges inks kettles lamps lenses looms mirrors nails needles organs paper pianos pumps ropes saddles sails "
    "scales soap tiles umbrellas varnish violins"
).split()
FEWEST_ANSWERS = min(len(TRADES), len(GOODS))
"""Size of the smallest set from which an answer is drawn uniformly.

A guess is right with a probability of at most 1 / FEWEST_ANSWERS.
"""

_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ei", "ou")
_CODAS = ("", "l", "m", "n", "r", "s", "nd", "rk", "lt")
_TOWN_ENDS = ("by", "dorf", "ford", "gate", "ham", "holm", "mouth", "stad", "wick", "worth")
_COMPANY_ENDS = (
    "and Daughters",
    "Brothers",
    "Foundry",
    "Guild",
    "Manufactory",
    "Partners",
    "Supply",
    "Trading",
    "Union",
    "Mills",
)


class Entity(NamedTuple):
    """A person, a town or a company, with its facts by relation."""

    id: str
    kind: Kind
    name: str
    facts: Mapping[str, str]
    """Values, or names of other entities of the world."""


@dataclass(frozen=True)
class Relation:
    """A fact that every entity of a kind has."""

    of: Kind
    name: str
    ask: str
    """A question, with `{}` for the entity."""
    refer: str = ""
    """A phrase for the entity that the fact names, with `{}` for the entity that has the fact, such as `the mayor of {}`.
    Empty if the fact names no entity."""
    to: Kind | None = None


RELATIONS = (
    Relation("person", "born", "In which year was {} born?"),
    Relation("person", "town", "In which town was {} born?", "the town where {} was born", "town"),
    Relation("person", "trade", "What is the trade of {}?"),
    Relation("person", "company", "For which company does {} work?", "the company that {} works for", "company"),
    Relation("town", "founded", "In which year was {} founded?"),
    Relation("town", "river", "On which river does {} lie?"),
    Relation("town", "mayor", "Who is the mayor of {}?", "the mayor of {}", "person"),
    Relation("company", "founded", "In which year was {} founded?"),
    Relation("company", "seat", "In which town does {} have its seat?", "the town where {} has its seat", "town"),
    Relation("company", "head", "Who is the head of {}?", "the head of {}", "person"),
    Relation("company", "goods", "What does {} make?"),
)


class Question(NamedTuple):
    """A question, its answer, and the documents that lead to the answer, in order."""

    text: str
    answer: str
    path: tuple[tuple[str, str], ...]
    """Title and id of each document."""


class World:
    """Generated people, towns and companies.

    Args:
        key: any text. The same key and number of people give the same world in every process.
        people: number of people; there are half as many towns, and as many companies as towns.
    """

    def __init__(self, key: str, people: int) -> None:
        rng = random.Random(int(sha256_hex(f"retrieval/world/{VERSION}/{people}/{key}")[:16], 16))
        taken: set[str] = set()
        towns = [_unused(rng, taken, lambda: _name(rng, 2) + rng.choice(_TOWN_ENDS)) for _ in range(max(people // 2, 2))]
        companies = [_unused(rng, taken, lambda: f"{_name(rng, 2)} {rng.choice(_COMPANY_ENDS)}") for _ in towns]
        rivers = [_unused(rng, taken, lambda: _name(rng, 2)) for _ in towns]
        # Few first and last names, so that a search for one person finds others as well.
        few = max(int((2 * people) ** 0.5), 3)
        firsts = [_unused(rng, taken, lambda: _name(rng, 2)) for _ in range(few)]
        lasts = [_unused(rng, taken, lambda: _name(rng, 3)) for _ in range(few)]
        names = [_unused(rng, taken, lambda: f"{rng.choice(firsts)} {rng.choice(lasts)}") for _ in range(people)]
        kinds: list[tuple[Kind, str, Mapping[str, str]]] = []
        for name in names:
            facts = {
                "born": _year(rng),
                "town": rng.choice(towns),
                "trade": rng.choice(TRADES),
                "company": rng.choice(companies),
            }
            kinds.append(("person", name, facts))
        for name, river in zip(towns, rivers, strict=True):
            kinds.append(("town", name, {"founded": _year(rng), "river": river, "mayor": rng.choice(names)}))
        for name in companies:
            facts = {"founded": _year(rng), "seat": rng.choice(towns), "head": rng.choice(names), "goods": rng.choice(GOODS)}
            kinds.append(("company", name, facts))
        numbers = rng.sample(range(100, 100 + 9 * len(kinds)), len(kinds))  # ids that say nothing
        self.entities = [Entity(f"d{at}", *parts) for at, parts in zip(numbers, kinds, strict=True)]
        self._by_name = {entity.name: entity for entity in self.entities}
        self._documents = [Document(entity.id, entity.name, _told(rng, entity)) for entity in self.entities]

    def documents(self) -> list[Document]:
        """Return one document an entity."""
        return self._documents

    def question(self, rng: random.Random, hops: int) -> Question | None:
        """Return a random question of one or two steps (`hops`), or None if the question drawn would contain its own answer."""
        first = rng.choice(self.entities)
        step = rng.choice([one for one in RELATIONS if one.of == first.kind and one.to is not None]) if hops == 2 else None
        kind = first.kind if step is None else step.to
        drawn = self._asked(first, step, rng.choice([one for one in RELATIONS if one.of == kind]))
        return None if drawn.answer.casefold() in drawn.text.casefold() else drawn

    def find(self, text: str) -> Question | None:
        """Return the question of that text; None if there is none."""
        for first in self.entities:
            if first.name in text:
                for step in (None, *(one for one in RELATIONS if one.of == first.kind and one.to is not None)):
                    kind = first.kind if step is None else step.to
                    for last in RELATIONS:
                        if last.of == kind and (asked := self._asked(first, step, last)).text == text:
                            return asked
        return None

    def _asked(self, first: Entity, step: Relation | None, last: Relation) -> Question:
        """Return the question for a fact of an entity, or of the one that a step from it leads to."""
        subject, path = first.name, [first]
        if step is not None:
            subject = step.refer.format(subject)
            path.append(self._by_name[first.facts[step.name]])
        return Question(last.ask.format(subject), path[-1].facts[last.name], tuple((one.name, one.id) for one in path))


def _year(rng: random.Random) -> str:
    return str(rng.randint(FIRST_YEAR, LAST_YEAR))


def _name(rng: random.Random, syllables: int) -> str:
    parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) + (rng.choice(_CODAS) if at else "") for at in range(syllables)]
    return "".join(parts).capitalize()


def _unused(rng: random.Random, taken: set[str], draw: Callable[[], str]) -> str:
    while (name := draw()) in taken:
        continue
    taken.add(name)
    return name


def _told(rng: random.Random, entity: Entity) -> str:
    """Return a text with a sentence for each fact, and others that tell nothing asked for, in any order."""
    sentences = [rng.choice(forms).format(name=entity.name, **entity.facts) for forms in _FACTS[entity.kind]]
    sentences += rng.sample(_REMARKS[entity.kind], 3)
    rng.shuffle(sentences)
    return " ".join(sentences)


_FACTS: Mapping[Kind, Sequence[Sequence[str]]] = {
    "person": (
        ("{name} was born in {born}.", "The year of birth of {name} is {born}."),
        ("{name} comes from {town}, the town of birth.", "The birthplace of {name} is the town of {town}."),
        ("{name} is {trade} by trade.", "The trade that {name} learnt is that of {trade}."),
        ("{name} works for {company}.", "The employer of {name} is {company}."),
    ),
    "town": (
        ("{name} was founded in {founded}.", "The founding of {name} is dated to {founded}."),
        ("{name} lies on the river {river}.", "The river {river} runs through {name}."),
        ("The mayor of {name} is {mayor}.", "{mayor} is mayor of {name}."),
    ),
    "company": (
        ("{name} was founded in {founded}.", "The founding of {name} is dated to {founded}."),
        ("{name} has its seat in {seat}.", "The seat of {name} is in {seat}."),
        ("The head of {name} is {head}.", "{name} is headed by {head}."),
        ("{name} makes {goods}.", "The goods of {name} are {goods}."),
    ),
}
_REMARKS: Mapping[Kind, Sequence[str]] = {
    "person": (
        "Those who were asked praised a dry humour.",
        "Little is known of the family.",
        "There are two portraits, neither of them a good likeness.",
        "In the evenings one can meet this person at the chess club.",
        "A diary of those years has been lost.",
        "Letters to a cousin abroad have been kept.",
    ),
    "town": (
        "A market is held on Thursdays.",
        "Its bridge was rebuilt after a flood.",
        "The old walls can still be seen in three places.",
        "Visitors come for the bell tower.",
        "Its school has a good name in the country around.",
        "The winters there are mild.",
    ),
    "company": (
        "Its goods are sold abroad as well.",
        "There was a fire once, and nobody was hurt.",
        "Apprentices stay for four years.",
        "It has never had to borrow.",
        "The accounts are kept in a fair hand.",
        "A second workshop was opened and closed again.",
    ),
}


@functools.lru_cache(maxsize=64)
def world_of(key: str, people: int) -> World:
    """Return the world of a key; the last ones are kept."""
    return World(key, people)
