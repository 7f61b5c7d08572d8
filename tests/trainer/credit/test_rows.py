"""Rows: what is masked, which rule makes which advantages, and that sources are not compared with each other."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch
from groups import RIGHT, UNSCORED, WRONG, group
from letters import LettersEnvironment
from rewards import REWARD_ADVANTAGES

from verigym.envs import Score, UsageError
from verigym.envs.contract.schema import StepScore
from verigym.trainer.advantages.batch import gdpo
from verigym.trainer.advantages.table import ADVANTAGES, Advantage
from verigym.trainer.config.run import build_config
from verigym.trainer.credit.rows import compares_prompts, credits_of, has_signal, training_rows
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any) -> Codec:
    return Codec(tiny_tokenizer)


def credit(*sources: dict[str, Any], **more: Any) -> Any:
    parts = list(sources) or [{"environment": "letters", "name": "a"}]
    config = build_config({"model": "m", "output": "o", "sources": parts, **more}, "test")
    return credits_of(config, {one.label: SteppedLetters() for one in config.sources})


class SteppedLetters(LettersEnvironment):
    """Declares that its verdicts hold steps."""

    scores_steps = True


GDPO: dict[str, Any] = {"advantage": "gdpo", "reward_weights": {"math": 1.0}}


def source(name: str, **more: Any) -> dict[str, Any]:
    return {"environment": "letters", "name": name, **more}


def rows(groups: list[Group], codec: Codec, rules: Any = None, **more: Any) -> list[list[TrainingRow]]:
    return training_rows(groups, rules or credit(), codec, **{"mask_truncated": False, **more})


def advantages(found: list[list[TrainingRow]]) -> torch.Tensor:
    return torch.tensor([[row.advantage for row in part] for part in found], dtype=torch.float64)


def partial(*rewards: float) -> list[Score]:
    return [Score.partial(reward) for reward in rewards]


def canary(scores: list[Score]) -> Group:
    made = group("a", scores)
    return replace(made, prompt=LettersEnvironment().prompt("unsolvable", metadata={"canary": "reject"}))


def test_masked_rows_are_the_unscored_the_truncated_where_asked_and_canaries(codec: Codec) -> None:
    groups = [group("a", [RIGHT, WRONG, UNSCORED], cut=[1]), canary([WRONG, WRONG, WRONG])]
    for mask_truncated, trained in ((False, [True, True, False]), (True, [True, False, False])):
        found = rows(groups, codec, mask_truncated=mask_truncated)
        assert [row.trained for row in found[0]] == trained
        assert not any(row.trained for row in found[1])
    assert [row.advantage > 0 for row in found[0]] == [True, False, False]
    assert found[0][2].advantage == 0


def test_two_verdicts_make_a_comparison_and_one_does_not(codec: Codec, assert_literal: Any) -> None:
    found = rows([group("a", [UNSCORED, RIGHT, UNSCORED, WRONG]), group("a", [UNSCORED, RIGHT, UNSCORED, UNSCORED])], codec)
    # Of two scored rewards 1 and 0 the mean is 1/2 and the deviation with ddof 1 is 1/sqrt(2); eps is 1e-4.
    half = 0.5 / (0.5**0.5 + 1e-4)
    assert_literal(advantages(found), [[0, half, 0, -half], [0, 0, 0, 0]])
    assert [row.trained for row in found[1]] == [False, True, False, False]


def test_options_and_lengths_reach_the_advantage(codec: Codec, assert_literal: Any) -> None:
    one = [group("a", [RIGHT, WRONG, WRONG, WRONG], tokens=[2, 4, 4, 6])]
    population = credit(advantage_options={"ddof": 0, "eps": 0.0})
    assert_literal(advantages(rows(one, codec, population)), [[1.732051, -0.577350, -0.577350, -0.577350]])
    assert_literal(advantages(rows(one, codec, credit(advantage="opo"))), [[0.875, -0.125, -0.125, -0.125]])


def test_each_source_has_its_own_advantage(codec: Codec, assert_literal: Any) -> None:
    rules = credit(source("a"), source("b", advantage="rloo"), advantage="centred")
    found = rows([group(label, [RIGHT, WRONG, WRONG, WRONG]) for label in "ab"], codec, rules)
    assert_literal(advantages(found), [[0.75, -0.25, -0.25, -0.25], [1, -1 / 3, -1 / 3, -1 / 3]])


@pytest.mark.parametrize("name", REWARD_ADVANTAGES)
def test_a_source_does_not_move_the_scale_of_another(name: str, codec: Codec) -> None:
    small = [group("a", partial(0, 0, 1, 0.5)), group("a", partial(0, 1, 1, 1))]
    large = [group("b", partial(0, 1000, 10, 0))]
    rules = credit(source("a"), source("b"), advantage=name)
    alone, mixed = advantages(rows(small, codec, rules)), advantages(rows([small[0], *large, small[1]], codec, rules))
    assert alone.abs().max() > 0
    assert torch.equal(mixed[[0, 2]], alone)


def test_a_canary_is_in_no_statistic_of_the_batch(codec: Codec) -> None:
    groups = [group("a", partial(0, 0, 1)), group("a", partial(0, 1, 1))]
    rules = credit(advantage="reinforce++")
    mixed = rows([*groups, canary([WRONG] * 3)], codec, rules)
    assert torch.equal(advantages(mixed)[:2], advantages(rows(groups, codec, rules)))


def test_penalties_come_off_before_the_comparison(codec: Codec, assert_literal: Any) -> None:
    penalties = torch.tensor([[0.5, 0.0, 0.0]])
    found = rows([group("a", [RIGHT, WRONG, UNSCORED])], codec, credit(advantage="centred"), penalties_PG=penalties)
    assert_literal(advantages(found), [[0.25, -0.25, 0]])
    assert not found[0][2].trained


def scored(**components: float | None) -> Score:
    return Score.partial(0.5).model_copy(update={"components": components})


def test_components_are_rewards_of_their_own(codec: Codec, assert_literal: Any) -> None:
    scores = [scored(math=1.0, style=1.0), scored(math=0.0, style=1.0), scored(math=0.0, style=0.0), scored(math=0.0)]
    rules = credit(advantage="gdpo", reward_weights={"style": 1.0, "math": 1.0})
    found = rows([group("a", scores)], codec, rules)
    assert_literal(advantages(found), [[1.332031, 0.206077, -0.769054, -0.769054]])  # a part that was not reached is 0
    failed = rows([group("a", [*scores, scored(math=None, style=0.0)])], codec, rules)
    assert_literal(advantages(failed), [[1.332031, 0.206077, -0.769054, -0.769054, 0]])
    assert [row.trained for row in failed[0]] == [True] * 4 + [False]
    weights = credit(source("a", advantage="gdpo", reward_weights={"style": 3.0, "math": 0.5}, advantage_options={"ddof": 0}))
    rewards_PGR = torch.tensor([[[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    expected = gdpo(rewards_PGR, torch.ones(1, 4, dtype=torch.bool), (3.0, 0.5), ddof=0)
    assert_literal(advantages(rows([group("a", scores)], codec, weights)), expected.tolist())


def test_a_component_that_no_verdict_has_is_said(codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    rules = credit(advantage="gdpo", reward_weights={"mth": 1.0})
    with caplog.at_level(logging.WARNING, "verigym.trainer"):
        rows([group("a", [scored(math=1.0), scored(math=0.0)])], codec, rules)
    assert "no verdict has the component 'mth'; there are ['math']" in caplog.text


def test_where_no_verdict_has_components_no_name_is_called_wrong(codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    rules = credit(advantage="gdpo", reward_weights={"math": 1.0})
    with caplog.at_level(logging.WARNING, "verigym.trainer"):
        rows([group("a", [UNSCORED, UNSCORED])], codec, rules)
        rows([group("a", [scored(math=1.0), UNSCORED])], codec, rules)
    assert not caplog.records


def test_a_group_of_an_earlier_policy_brings_its_own_old_logprobs(codec: Codec) -> None:
    groups = [group("a", [RIGHT, WRONG]), replace(group("a", [RIGHT, WRONG]), off_policy=True)]
    fresh, earlier = rows(groups, codec, ratio_to_sampler=True)
    assert all(row.old_logprobs is None for row in fresh)
    assert all(row.old_logprobs == row.sampler_logprobs == (-1.0, -1.0, -1.0) for row in earlier)
    assert [row.off_policy for row in [*fresh, *earlier]] == [False, False, True, True]
    assert all(row.old_logprobs is None for part in rows(groups, codec) for row in part)


def stepped(*steps: tuple[int, int, float]) -> Score:
    found = tuple(StepScore(start=start, end=end, reward=reward) for start, end, reward in steps)
    return Score.partial(0.5).model_copy(update={"steps": found})


def test_steps_give_advantages_by_token(codec: Codec, assert_literal: Any) -> None:
    ids = codec.encode_text("2+4=6 2+4=6")
    text = codec.decode(ids)
    made = group("a", [stepped((0, 5, 0.2), (5, len(text), 0.8)), Score.partial(0.4)], text=text)
    done = replace(made.generated[0], token_ids=ids, logprobs=(-1.0,) * len(ids))
    made = replace(made, generated=(done, made.generated[1]))
    first, second = rows([made], codec, credit(step_rewards=True))[0]
    # Rewards .2, .8 and .4 (a verdict without steps is one step): mean .466667, deviation with ddof 1 .305505.
    low, high, only = -0.872872, 1.091089, -0.218218
    before = len(codec.encode_text("2+4=6"))
    assert first.token_advantages is not None and second.token_advantages is not None
    assert_literal(torch.tensor(first.token_advantages), [low + high] * before + [high] * (len(ids) - before))
    assert_literal(torch.tensor(second.token_advantages), [only] * 3)
    assert all(row.token_advantages is None for row in rows([made], codec)[0])
    assert all(row.token_advantages is None for row in rows([group("a", [RIGHT, WRONG])], codec, credit(step_rewards=True))[0])


def test_signal_is_what_the_sources_rule_can_see() -> None:
    plain, parts = credit()["a"], credit(advantage="gdpo", reward_weights={"math": 2.0, "style": 1.0})["a"]
    even = credit(advantage="gdpo", reward_weights={"math": 1.0, "style": 1.0})["a"]
    by_step = credit(step_rewards=True)["a"]
    assert has_signal(group("a", [RIGHT, WRONG]), plain)
    assert not has_signal(group("a", [RIGHT, RIGHT]), plain)
    assert not has_signal(group("a", [RIGHT, UNSCORED]), plain)
    assert not has_signal(group("a", [UNSCORED, UNSCORED]), plain)
    assert not has_signal(canary([RIGHT, WRONG]), plain)
    assert not has_signal(group("a", partial(0.1 + 0.2, 0.3)), plain), "rounding is no signal"
    same_sum = group("a", [scored(math=1.0, style=0.0), scored(math=0.0, style=1.0)])
    assert has_signal(same_sum, parts)
    assert not has_signal(same_sum, plain)
    assert not has_signal(same_sum, even), "what one component gives the other takes"
    steps = group("a", [stepped((0, 1, 0.0), (1, 2, 1.0)), stepped((0, 1, 1.0), (1, 2, 0.0))])
    assert has_signal(steps, by_step)
    assert not has_signal(steps, plain)
    assert not has_signal(group("a", [stepped((0, 1, 0.5), (1, 2, 0.5)), Score.partial(0.5)]), by_step)
    assert not has_signal(group("a", [stepped((0, 1, 0.2)), UNSCORED]), by_step)
    assert has_signal(group("a", [RIGHT, WRONG]), by_step), "no verdict scores steps"


@pytest.mark.parametrize("first", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("inside", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("last", [0.0, 0.5, 1.0])
def test_a_group_that_would_be_trained_on_has_a_signal(first: float, inside: float, last: float, codec: Codec) -> None:
    """Steps that end within one token are merged in training, and not where a signal is looked for."""
    ids = codec.encode_text("<think>2+4")
    assert codec.decode(ids[:1]) == "<think>"
    made = group("a", [stepped((0, 3, inside), (3, 7, first), (7, 10, last)), Score.partial(0.5)])
    done = replace(made.generated[0], token_ids=ids, logprobs=(-1.0,) * len(ids))
    made = replace(made, generated=(done, made.generated[1]))
    rule = credit(step_rewards=True)
    (found,) = rows([made], codec, rule)
    trained = any(any(row.advantages) for row in found)
    assert trained is (min(first, inside) != 0.5 or last != 0.5)
    signal = has_signal(made, rule["a"])
    assert signal or not trained
    assert signal is (not first == inside == last == 0.5), "one whose steps differ inside a token alone is kept for nothing"


def test_an_entry_of_the_table_is_all_that_a_new_advantage_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADVANTAGES, "newest", Advantage("group:centred", negative_rewards=False))
    rewards_PG, scored_PG = torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool)
    assert credit(advantage="newest")["a"].advantage(rewards_PG, scored_PG).tolist() == [[0.5, -0.5]]
    with pytest.raises(UsageError, match="source 'a': newest refuses rewards below 0, which overlong_cache can make"):
        credit(advantage="newest", overlong_cache=8)
    with pytest.raises(UsageError, match="there is no advantage 'newes'; did you mean 'newest'?"):
        credit(advantage="newes")


@pytest.mark.parametrize("name", sorted(set(REWARD_ADVANTAGES) - {"reinforce++"}))
@pytest.mark.parametrize("mask_truncated", [False, True])
def test_signal_is_an_advantage_on_what_is_trained_on(name: str, mask_truncated: bool, codec: Codec) -> None:
    rules = credit(advantage=name)
    pools = [[RIGHT, WRONG, WRONG], [RIGHT, RIGHT, WRONG], [RIGHT] * 3, [WRONG, UNSCORED, RIGHT], [WRONG, UNSCORED, WRONG]]
    groups = [group("a", scores, cut=cut) for scores in pools for cut in ([], [0], [2], [0, 1, 2])]
    for one in groups:
        found = rows([one], codec, rules, mask_truncated=mask_truncated)[0]
        expected = any(row.trained and row.advantage for row in found)
        assert has_signal(one, rules["a"], mask_truncated=mask_truncated) is expected


def test_two_right_answers_are_no_signal_for_passk_and_cut_ones_none_where_they_are_masked() -> None:
    assert not has_signal(group("a", [RIGHT, RIGHT, WRONG]), credit(advantage="passk")["a"])
    cut = group("a", [RIGHT, WRONG], cut=[0, 1])
    assert has_signal(cut, credit()["a"])
    assert not has_signal(cut, credit()["a"], mask_truncated=True)


def test_to_ask_for_a_signal_warns_of_no_component(caplog: pytest.LogCaptureFixture) -> None:
    rule = credit(advantage="gdpo", reward_weights={"math": 1.0, "style": 1.0})["a"]
    with caplog.at_level(logging.WARNING, "verigym.trainer"):
        assert has_signal(group("a", [scored(math=1.0), scored(math=0.0)]), rule)
    assert not caplog.records, "one group may lack a component that a gate kept from it"


def test_an_advantage_without_groups_compares_prompts() -> None:
    assert [name for name in REWARD_ADVANTAGES if compares_prompts(credit(advantage=name)["a"])] == ["reinforce++"]
    assert not compares_prompts(credit(advantage="gdpo", reward_weights={"math": 1.0})["a"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"advantage": "gppo"}, "did you mean 'grpo'"),
        ({"advantage": "rloo", "advantage_options": {"ddof": 1}}, "rloo takes no option 'ddof'"),
        ({"advantage_options": {"dof": 1}}, "did you mean 'ddof'"),
        ({"advantage_options": {"ddof": 2}}, "source 'a': advantage grpo: ddof"),
        ({"advantage_options": {"lengths_PG": 2}}, "takes no option 'lengths_PG'"),
        ({"advantage": "gdpo"}, "reward_weights go together"),
        ({"reward_weights": {"math": 1.0}}, "reward_weights go together"),
        ({"sources": [source("a", advantage_options={"ddof": 0})]}, "name it in `advantage`"),
        ({"step_rewards": True, "kl_coef": 0.1, "kl_place": "reward"}, "use kl_place loss"),
        ({"step_rewards": True, "overlong_cache": 8}, "step_rewards does not look at; set one"),
        ({**GDPO, "step_rewards": True}, "source 'a': gdpo compares components of whole completions .* cannot go by both"),
        ({**GDPO, "overlong_cache": 8}, "source 'a': gdpo looks only at .* name `overlong` there"),
        ({"overlong_cache": 8, "sources": [source("a", **GDPO)]}, "source 'a': gdpo looks only at .* name `overlong` there"),
        ({"advantage": "maxrl", "overlong_cache": 8}, "source 'a': maxrl refuses rewards below 0, which overlong_cache"),
        ({"overlong_cache": 8, "sources": [source("a", advantage="maxrl")]}, "maxrl refuses rewards below 0"),
        ({"advantage": "maxrl", "kl_coef": 0.1, "kl_place": "reward"}, "below 0, which a KL in the reward can make"),
        ({"replay_share": 0.1, "prompts_per_step": 8}, "replay_share 0.1 of 8 prompts_per_step is less than one group"),
        ({"replay_share": 0.5, "group_size": 3}, "replay_below is 0.25, but .* pass rate of 0.333"),
        ({"loss": "reinforce", "replay_share": 0.5}, "replay_share trains on groups that an earlier policy sampled"),
        ({"loss": "reinforce", "dynamic_sampling": True}, "dynamic_sampling trains on groups that an earlier policy sampled"),
        (
            {"loss": "sequence_reinforce", "dynamic_sampling": True, "correction": "opsm"},
            "to which loss sequence_reinforce takes no ratio; set a correction",
        ),
        ({"overlong_cache": 9, "max_new_tokens": 8}, "overlong_cache is 9, more than max_new_tokens"),
        ({"hard_share": 0.7, "easy_share": 0.7}, "add up to more than 1"),
        ({"hard_below": 0.5, "easy_above": 0.5}, "a task is in one pool"),
        ({"sources": [source("a", min_share=0.6), source("b", min_share=0.6)]}, "more than 1"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        credit(**{"sources": [source("a")], **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"advantage": "gdpo", "reward_weights": {"math": 1.0, "overlong": 0.5}, "overlong_cache": 8},
        {"advantage": "maxrl", "kl_coef": 0.1},
        {"replay_share": 0.125, "prompts_per_step": 8, "group_size": 4},
        {"loss": "reinforce", "dynamic_sampling": True, "replay_share": 0.5, "correction": "token_truncated"},
    ],
    ids=str,
)
def test_what_is_close_to_a_refusal_can_be(fields: dict[str, Any]) -> None:
    assert list(credit(**fields)) == ["a"]


def test_a_sources_reward_scale_is_what_a_penalty_is_weighed_against(codec: Codec, assert_literal: Any) -> None:
    rules = credit(source("a", reward_scale=10.0), source("b"), advantage="centred")
    groups = [group("a", [RIGHT, WRONG]), group("b", [RIGHT, WRONG])]
    assert_literal(advantages(rows(groups, codec, rules)), [[5, -5], [0.5, -0.5]])
    penalties_PG = torch.tensor([[0.5, 0.0], [0.5, 0.0]])
    assert_literal(advantages(rows(groups, codec, rules, penalties_PG=penalties_PG)), [[4.75, -4.75], [0.25, -0.25]])


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"advantage": "grpo"}, False),
        ({"advantage": "reinforce++", "kl_coef": 0.1, "kl_place": "loss"}, False),
        ({"advantage": "maxrl"}, False),
        ({"advantage": "grpo", "kl_coef": 0.1, "kl_place": "reward"}, True),
        ({"advantage": "gae"}, True),
        ({"advantage": "rloo"}, True),
        ({"advantage": "opo"}, True),
        (GDPO, False),
        ({"advantage": "centred", "step_rewards": True}, False),
    ],
    ids=str,
)
def test_a_reward_scale_that_changes_nothing_is_refused(fields: dict[str, Any], counts: bool) -> None:
    if counts:
        assert credit(source("a", reward_scale=10.0), **fields)["a"].reward_scale == 10
        return
    with pytest.raises(UsageError, match="source 'a': field 'reward_scale': advantage .* 10 would change nothing"):
        credit(source("a", reward_scale=10.0), **fields)
