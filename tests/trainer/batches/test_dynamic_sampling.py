"""Dynamic sampling: every slot gets a group with a signal, leftovers are used once, the bound holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from groups import RIGHT, WRONG, group
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import LettersEnvironment

from verigym.trainer.batches.dynamic_sampling import Filled, refill
from verigym.trainer.rng import keyed_random
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source

LETTERS = LettersEnvironment()
SOURCES = {label: Source(label, LETTERS, 1.0, LETTERS.prompt, ()) for label in "abc"}


def made(label: str, signal: bool, text: str = "text") -> Group:
    return group(label, [RIGHT, WRONG if signal else RIGHT], text=text)


def has_signal(found: Group) -> bool:
    return len({score.reward for score in found.scores}) > 1


class Sampler:
    """Gives each source the verdicts that a function of (source, how many before) says, and remembers the rounds."""

    def __init__(self, signal: Callable[[str, int], bool]) -> None:
        self.signal = signal
        self.rounds: list[str] = []
        self.drawn: Counter[str] = Counter()

    def __call__(self, sources: Sequence[Source]) -> list[Group]:
        self.rounds.append("".join(source.label for source in sources))
        groups = []
        for source in sources:
            number = self.drawn[source.label]
            self.drawn[source.label] += 1
            groups.append(made(source.label, self.signal(source.label, number), f"{source.label}{number}"))
        return groups


def fill(plan: str, sampler: Sampler, leftovers: Sequence[Group] = (), bound: float = 3.0) -> Filled:
    return refill([SOURCES[label] for label in plan], leftovers, sampler, has_signal, bound)


def names(groups: Sequence[Group]) -> list[str]:
    return [found.prompt.text for found in groups]


def test_with_a_signal_everywhere_one_round_is_enough() -> None:
    sampler = Sampler(lambda label, number: True)
    filled = fill("abab", sampler)
    assert sampler.rounds == ["abab"]
    assert names(filled.groups) == ["a0", "b0", "a1", "b1"]
    assert (filled.leftovers, filled.missing) == ([], 0)
    assert not any(found.off_policy for found in filled.groups)


def test_later_rounds_draw_what_the_share_of_signals_makes_likely_and_keep_the_surplus() -> None:
    sampler = Sampler(lambda label, number: number in (1, 5, 6, 7))
    filled = fill("aaaa", sampler)
    # One of four had a signal, so 3 more need ceil(3 * 5/2) = 8 draws, but a round is never larger than the first.
    assert sampler.rounds == ["aaaa", "aaaa"]
    assert names(filled.groups) == ["a1", "a5", "a6", "a7"]
    sampler = Sampler(lambda label, number: number not in (0, 1))
    filled = fill("aaaa", sampler)
    assert sampler.rounds == ["aaaa", "aaaa"], "2 more need ceil(2 * 5/3) = 4"
    assert names(filled.groups) == ["a2", "a3", "a4", "a5"]
    assert names(filled.leftovers) == ["a6", "a7"]


def test_how_many_are_drawn_follows_from_all_that_were_drawn_and_had_a_signal_so_far() -> None:
    first, second = {0, 2, 4, 6, 8}, {9, 10}
    sampler = Sampler(lambda label, number: number in first | second or number > 15)
    filled = fill("a" * 9, sampler)
    # 5 of 9 had a signal: 4 more need ceil(4 * 10/6) = 7. Then 7 of 16 had one: 2 more need ceil(2 * 17/8) = 5.
    assert sampler.rounds == ["a" * 9, "a" * 7, "a" * 5]
    assert (len(filled.groups), len(filled.leftovers), filled.missing) == (9, 3, 0)


def test_leftovers_come_first_are_marked_and_never_wait_twice() -> None:
    old = [made("a", True, f"old{number}") for number in range(3)] + [made("c", True, "no slot")]
    sampler = Sampler(lambda label, number: True)
    filled = fill("aab", sampler, old)
    assert names(filled.groups) == ["old0", "old1", "b0"]
    assert [found.off_policy for found in filled.groups] == [True, True, False]
    assert sampler.rounds == ["b"]
    assert filled.leftovers == []
    assert fill("aa", sampler, old).groups[0].off_policy and sampler.rounds == ["b"], "nothing to draw, nothing drawn"


def test_the_bound_is_each_sources_own_and_others_lend_their_surplus() -> None:
    sampler = Sampler(lambda label, number: label == "a" and number != 0)
    filled = fill("aabb", sampler, bound=2.5)
    assert sampler.drawn == {"a": 4, "b": 5}
    assert names(filled.groups) == ["a1", "a2", "a3"]
    assert (filled.leftovers, filled.missing) == ([], 1)
    nothing = fill("ab", Sampler(lambda label, number: False), bound=1.0)
    assert (nothing.groups, nothing.leftovers, nothing.missing) == ([], [], 2)


@settings(max_examples=60, deadline=None)
@given(
    plan=st.text("abc", min_size=1, max_size=8),
    old=st.text("abc", max_size=4),
    shares=st.tuples(*[st.sampled_from([0.0, 0.2, 0.6, 1.0])] * 3),
    bound=st.sampled_from([1.0, 1.5, 3.0]),
    seed=st.integers(0, 99),
)
def test_what_always_holds(plan: str, old: str, shares: tuple[float, ...], bound: float, seed: int) -> None:
    sampler = Sampler(lambda label, number: keyed_random(seed, label, number).random() < shares["abc".index(label)])
    leftovers = [made(label, True, f"old{number}") for number, label in enumerate(old)]
    filled = fill(plan, sampler, leftovers, bound)
    assert len(filled.groups) + filled.missing == len(plan)
    assert all(has_signal(found) for found in [*filled.groups, *filled.leftovers])
    assert not any(found.off_policy for found in filled.leftovers)
    assert len(set(names([*filled.groups, *filled.leftovers]))) == len(filled.groups) + len(filled.leftovers)
    for label, count in Counter(plan).items():
        assert sampler.drawn[label] <= bound * count
        mine = sum(found.source == label for found in filled.groups)
        # Short of its own slots only where its bound is reached; never while it has a group left over.
        assert mine >= count or int(bound * count) == sampler.drawn[label]
        assert mine >= count or all(found.source != label for found in filled.leftovers)
    assert not filled.missing or not filled.leftovers


@pytest.mark.parametrize("bound", [1.0, 4.0])
def test_the_same_verdicts_choose_the_same_groups(bound: float) -> None:
    def once() -> Filled:
        return fill("abcab", Sampler(lambda label, number: number % 3 == 1), bound=bound)

    assert once() == once()
