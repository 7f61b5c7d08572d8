"""`BatchBuilder`: which groups a step trains on, their metrics, and that a restored state continues the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from groups import RIGHT, WRONG, group
from letters import LettersEnvironment

from verigym.envs import Prompt, UsageError
from verigym.trainer.batches.builder import Batch, BatchBuilder
from verigym.trainer.config.run import build_config
from verigym.trainer.credit.rows import credits_of
from verigym.trainer.engines.base import Generated
from verigym.trainer.rng import keyed_random
from verigym.trainer.rollout.collect import Group
from verigym.trainer.rollout.group_json import dump_group
from verigym.trainer.tasks.mixture import Source

LETTERS = LettersEnvironment()
EVERYTHING: dict[str, Any] = {
    "dynamic_sampling": True,
    "curriculum": True,
    "max_oversampling": 6.0,
    "hard_share": 0.2,
    "replay_share": 0.25,
    "overlong_cache": 8,
}


def make(**more: Any) -> BatchBuilder:
    parts = [{"environment": "letters", "name": "a", "weight": 3}, {"environment": "letters", "name": "b"}]
    fields = {"model": "m", "output": "o", "sources": parts, "prompts_per_step": 8, "group_size": 4, "max_new_tokens": 16}
    config = build_config({**fields, **more}, "test")

    def tasks(label: str) -> Callable[[int], Prompt]:
        return lambda index: LETTERS.prompt(f"{label} {index % 40}")

    sources = [Source(part.label, LETTERS, part.weight, tasks(part.label), ()) for part in config.sources]
    return BatchBuilder(config, sources, credits_of(config, {source.label: source.environment for source in sources}))


class Policy:
    """Solves each task as often as a hash of it says; what it writes depends on the key, as a policy's samples do."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.keys: list[tuple[object, ...]] = []

    def __call__(self, tasks: Sequence[tuple[Source, Prompt]], key: tuple[object, ...]) -> list[Group]:
        self.asked.append([source.label for source, _ in tasks])
        self.keys.append(key)
        return [self.write(source.label, prompt, (*key, number)) for number, (source, prompt) in enumerate(tasks)]

    def write(self, label: str, prompt: Prompt, key: tuple[object, ...]) -> Group:
        talent = keyed_random("talent", prompt.text).choice([0.0, 0.1, 0.5, 1.0])
        draws = keyed_random(*key, prompt.key)
        made = group(label, [RIGHT if draws.random() < talent else WRONG for _ in range(4)], tokens=[5, 9, 10, 16])
        done = [replace(one, logprobs=tuple(-draws.random() for _ in one.token_ids)) for one in made.generated]
        return replace(made, prompt=prompt, generated=tuple(done))


def told(batch: Batch) -> Any:
    return [[dump_group(found) for found in batch.groups], [dump_group(found) for found in batch.sampled], batch.metrics]


def fits(prompt: Prompt) -> bool:
    return True


def test_plain_work_is_one_round_and_trains_on_all_of_it() -> None:
    work, policy = make(), Policy()
    batch = work.step(0, policy, fits)
    assert policy.keys == [("train", 0, 0)]
    assert sorted(policy.asked[0]) == ["a"] * 6 + ["b"] * 2
    assert batch.groups == batch.sampled
    assert batch.metrics == {}
    state = work.state()
    assert state.pop("bugs")["broken"] == []
    assert state == {"leftovers": [], "replay": [], "curriculum": None}


def test_dynamic_sampling_trains_on_groups_with_a_signal_and_tells_of_all() -> None:
    work, policy = make(dynamic_sampling=True, max_oversampling=10), Policy()
    batches = [work.step(step, policy, fits) for step in range(6)]
    for before, batch in zip([None, *batches], batches, strict=False):
        assert all(len({score.reward for score in found.scores}) == 2 for found in batch.groups)
        assert [found.source for found in batch.groups].count("a") == batch.metrics["a/trained_groups"] == 6
        assert len(batch.groups) == 8
        assert batch.metrics["sampled_groups"] == len(batch.sampled) > 8 - batch.metrics["leftovers_used"]
        assert batch.metrics["missing_groups"] == 0
        if before is not None:
            assert batch.metrics["leftovers_used"] <= before.metrics["leftovers_kept"]
    assert sum(batch.metrics["leftovers_used"] for batch in batches) > 0
    assert len(set(policy.keys)) == len(policy.keys), "no two rounds draw the same randomness"


def test_where_the_bound_is_reached_the_step_is_smaller_and_says_so() -> None:
    class Hopeless(Policy):
        def write(self, label: str, prompt: Prompt, key: tuple[object, ...]) -> Group:
            return replace(group(label, [WRONG] * 4), prompt=prompt)

    work, policy = make(dynamic_sampling=True, max_oversampling=2.0), Hopeless()
    batch = work.step(0, policy, fits)
    assert batch.groups == []
    assert (batch.metrics["sampled_groups"], batch.metrics["missing_groups"]) == (16, 8)
    assert not any(value for name, value in batch.metrics.items() if name not in ("sampled_groups", "missing_groups"))


def test_replays_take_the_place_of_new_prompts_and_are_bounded() -> None:
    work, policy = make(replay_share=0.25), Policy()
    batches = [work.step(step, policy, fits) for step in range(12)]
    counts = [batch.metrics["replayed_groups"] for batch in batches]
    assert counts[0] == 0
    assert max(counts) == 2
    for batch in batches:
        old = [found for found in batch.groups if found.off_policy]
        assert len(old) == batch.metrics["replayed_groups"]
        assert len(batch.groups) == 8
        assert len(batch.sampled) == 8 - len(old)
        assert all(found.pass_rate == 0.25 for found in old)


def test_a_curriculum_sees_what_dynamic_sampling_leaves_out() -> None:
    work, policy = make(dynamic_sampling=True, curriculum=True, hard_share=0.0), Policy()
    batch = work.step(0, policy, fits)
    left_out = {found.prompt.key for found in batch.sampled} - {found.prompt.key for found in batch.groups}
    assert left_out
    assert work.curriculum is not None
    assert all(not work.curriculum.is_normal("a", key) or not work.curriculum.is_normal("b", key) for key in left_out)
    assert batch.metrics["curriculum_easy"] + batch.metrics["curriculum_hard"] >= len(left_out)


def test_the_punishment_of_length_is_in_what_is_compared() -> None:
    batch = make(overlong_cache=8).step(0, Policy(), fits)
    for found in batch.groups:
        assert [score.components["overlong"] for score in found.scores] == [0.0, -0.125, -0.25, -1.0]
        assert all(abs(score.reward or 0) <= 1 for score in found.scores)


def test_dynamic_sampling_leaves_out_what_the_rule_or_the_mask_would_not_train_on() -> None:
    class Cut(Policy):
        def write(self, label: str, prompt: Prompt, key: tuple[object, ...]) -> Group:
            made = super().write(label, prompt, key)
            return replace(made, generated=tuple(replace(one, finish_reason="length") for one in made.generated))

    assert make(dynamic_sampling=True).step(0, Cut(), fits).groups
    assert make(dynamic_sampling=True, truncated="mask").step(0, Cut(), fits).groups == []
    one_right = make(dynamic_sampling=True, advantage="passk", max_oversampling=10).step(0, Policy(), fits).groups
    assert one_right
    assert {found.pass_rate for found in one_right} == {0.25}


def test_an_advantage_that_learns_from_equal_rewards_has_no_dynamic_sampling() -> None:
    make(advantage="reinforce++")
    with pytest.raises(UsageError, match="source 'a': its advantage compares completions with more than their own group"):
        make(advantage="reinforce++", dynamic_sampling=True)


def test_a_curriculum_asks_no_task_twice_in_a_step() -> None:
    class Hard(Policy):
        def __call__(self, tasks: Sequence[tuple[Source, Prompt]], key: tuple[object, ...]) -> list[Group]:
            keys = [prompt.key for _, prompt in tasks]
            assert len(set(keys)) == len(keys)
            return super().__call__(tasks, key)

    work = make(curriculum=True, hard_share=0.9, easy_share=0.1, hard_below=0.4)
    policy = Hard()
    for step in range(8):
        work.step(step, policy, fits)
    assert sum(work.mixture.drawn.values()) < 8 * 8, "some were asked again"


def test_a_difference_in_length_alone_is_not_a_signal() -> None:
    batch = make(dynamic_sampling=True, overlong_cache=8).step(0, Policy(), fits)
    assert all(0 < (found.pass_rate or 0) < 1 for found in batch.groups)
    assert any(found.pass_rate == 0 for found in batch.sampled)


def test_a_canary_that_is_paid_for_stops_the_run_even_where_it_is_left_out() -> None:
    class Hacked(Policy):
        def write(self, label: str, prompt: Prompt, key: tuple[object, ...]) -> Group:
            canary = LETTERS.prompt("unsolvable", metadata={"canary": "reject"})
            return replace(group(label, [RIGHT] * 4), prompt=canary)

    with pytest.raises(UsageError, match="cannot be trusted"):
        make(dynamic_sampling=True).step(0, Hacked(), fits)


@pytest.mark.parametrize("stop", [1, 5, 8])
def test_a_restored_state_goes_on_the_same(stop: int) -> None:
    whole = make(**EVERYTHING)
    batches = [whole.step(step, Policy(), fits) for step in range(10)]
    assert sum(batch.metrics["leftovers_used"] for batch in batches[stop:]) > 0
    assert sum(batch.metrics["replayed_groups"] for batch in batches[stop:]) > 0
    first = make(**EVERYTHING)
    for step in range(stop):
        first.step(step, Policy(), fits)
    second = make(**EVERYTHING)
    second.restore(first.mixture.drawn, json.loads(json.dumps(first.state())))
    for step in range(stop, 10):
        assert told(second.step(step, Policy(), fits)) == told(batches[step])
    assert second.state() == whole.state()


def test_leftovers_are_not_asked_again() -> None:
    work, policy = make(dynamic_sampling=True), Policy()
    spare = replace(policy.write("b", LETTERS.prompt("spare"), ()), scores=(RIGHT, WRONG, WRONG, WRONG))
    work.leftovers = [spare]
    batch = work.step(0, policy, fits)
    assert policy.asked[0].count("b") == 1
    assert spare.prompt in [found.prompt for found in batch.groups if found.off_policy]
    assert Generated((7,) * 5, spare.generated[0].logprobs, "stop") in [found.generated[0] for found in batch.groups]
