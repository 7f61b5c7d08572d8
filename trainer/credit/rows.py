"""From verdicts to training rows: each source's rewards become advantages by the source's own rule.

Legend: P prompts, G samples per prompt, R rewards per completion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from verigym.envs.composition.terms import Term, step_parts, terms_of, weighted_sum
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError, error_context
from verigym.envs.contract.schema import Score
from verigym.envs.contract.session import opens_sessions
from verigym.trainer.advantages.table import ADVANTAGES
from verigym.trainer.config.lookup import bind
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.step_rewards import credited_terms, steps_differ, token_advantages
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.credit.turn_rewards import earned_by_turns, refuse_unused, rewards_of_turns, turn_advantages
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group, reward_tensors

logger = logging.getLogger("verigym.trainer")


@dataclass(frozen=True)
class Credit:
    """The rule by which the verdicts of one source become advantages."""

    advantage: Callable[..., torch.Tensor]
    """A function of ADVANTAGES with its options bound."""
    reward_weights: Mapping[str, float] = field(default_factory=dict)
    """For gdpo: the components that count as rewards, with their weights; empty for other advantages."""
    terms: tuple[Term, ...] = ()
    """The environment's parts as the summands of its reward, if step_rewards is on and one of them scores steps; else empty."""
    step_parts: frozenset[str] | None = None
    """Names of the environment's parts that have `scores_steps = True`; None if step_rewards is off."""
    by_turn: bool = False
    """Whether each turn of an episode gets an advantage of its own."""
    reward_scale: float = 1.0
    """Factor by which rewards are multiplied before penalties and advantages; logs show the rewards without it."""

    @property
    def outcome_terms(self) -> tuple[Term, ...]:
        """Return the terms whose rewards count for the completion as a whole. The other terms are parts that score steps.

        The single term of an environment without parts is always included.
        """
        return tuple(term for term in self.terms if not term.steps or not term.part)


def credits_of(config: TrainConfig, environments: Mapping[str, Environment] | None) -> dict[str, Credit]:
    """Return the rule of each source, by the source's label.

    Args:
        config: the settings of the run.
        environments: the environments by their source's label; None before they are loaded. With None, it is not checked
            whether any environment scores steps, as step_rewards needs.

    Raises:
        UsageError: an advantage or one of its options is unknown or out of range, an advantage conflicts with another setting,
            or step_rewards has no effect.
    """
    functions = {name: entry.function for name, entry in ADVANTAGES.items()}
    rules = {}
    for source in config.sources:
        own = source if source.advantage is not None else config
        name = own.advantage or ""
        advantage = bind("advantage", name, functions, own.advantage_options)
        weights = dict(own.reward_weights)
        terms: tuple[Term, ...] = ()
        parts = None
        if config.step_rewards and environments is not None:
            parts = step_parts(environments[source.label])
            with error_context(f"source {source.label!r}: step_rewards"):
                terms = terms_of(environments[source.label])
            terms = terms if any(term.steps for term in terms) else ()
        conflict = _conflict(config, name, weights, steps=bool(terms))
        if conflict:
            raise UsageError(f"source {source.label!r}: {conflict}")
        reward_PG, scored_PG = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
        try:  # a bad option is reported now, not after the first step's completions
            if weights:
                advantage(reward_PG[..., None].expand(1, 2, len(weights)), scored_PG, tuple(weights.values()))
            else:
                advantage(reward_PG, scored_PG, lengths_PG=torch.ones(1, 2))
        except (TypeError, ValueError) as error:
            raise UsageError(f"source {source.label!r}: advantage {name}: {error}") from None
        if source.reward_scale != 1.0 and not _scale_counts(config, name, advantage, steps=bool(terms)):
            raise UsageError(
                f"source {source.label!r}: field 'reward_scale': advantage {name} is the same for rewards of any scale, so "
                f"{source.reward_scale:g} would change nothing; leave it out, or set kl_place to reward and kl_coef above 0"
            )
        by_turn = ADVANTAGES[name].takes == "turns"
        if by_turn and environments is not None:
            _refuse_one_turn(source.label, environments[source.label])
        rules[source.label] = Credit(advantage, weights, terms, parts, by_turn, source.reward_scale)
    if config.step_rewards and environments is not None and not any(rule.terms for rule in rules.values()):
        raise UsageError(
            "step_rewards has no effect: no source's reward has a part that scores steps; add one with a weight, such as "
            "`add: {process: {weight: 0.5}}`, declare `scores_steps = True` in an environment of yours that sets Score.steps, "
            "or leave step_rewards out (a gate's condition has no share of the reward)"
        )
    return rules


def _refuse_one_turn(label: str, environment: Environment) -> None:
    """Refuse an advantage by turn if the source `label` has a single turn per completion.

    Raises:
        UsageError: the environment has no episodes.
    """
    if not opens_sessions(environment):
        raise UsageError(
            f"source {label!r}: advantage turn_returns is about the turns of episodes, and environment {environment.name!r} "
            "has none; take rloo, which is the same for one turn"
        )


def _scale_counts(config: TrainConfig, name: str, advantage: Callable[..., torch.Tensor], *, steps: bool) -> bool:
    """Return True if the scale of a source's rewards changes training: alone, or by a KL in the reward or a critic."""
    if ADVANTAGES[name].takes == "components" or steps:
        return False
    if ADVANTAGES[name].takes == "critic" or (config.kl_place == "reward" and config.kl_coef > 0):
        return True
    rewards_PG = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    scored_PG, lengths_PG = torch.ones(2, 4, dtype=torch.bool), torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2, dtype=torch.float64)
    one, ten = (advantage(scale * rewards_PG, scored_PG, lengths_PG=lengths_PG) for scale in (1.0, 10.0))
    return not torch.allclose(one, ten, rtol=0.01, atol=0.01)


def _conflict(config: TrainConfig, name: str, reward_weights: Mapping[str, float], *, steps: bool) -> str | None:
    """Return an error sentence if a setting is ignored by the advantage `name`, or would fail during the run; else None."""
    advantage = ADVANTAGES[name]
    critic = advantage.takes == "critic"
    kl_in_reward = config.kl_place == "reward" and config.kl_coef > 0
    if critic is not (config.advantage == "gae"):
        return "a critic gives every source its advantages; set advantage gae for the run alone, or for nothing"
    if config.group_size == 1 and advantage.needs_group:
        return f"group_size is 1, but {name} compares the completions of a group; set it to 2 or more"
    if advantage.takes == "turns" and (steps or kl_in_reward):
        return (
            "turn_returns gives turns their rewards; step_rewards and kl_place reward would take their place, so leave them out"
        )
    if critic and config.step_rewards:
        return "step_rewards would take the place of the critic's advantages; set one of them"
    if kl_in_reward and (reward_weights or steps):
        return "gdpo and step_rewards do not look at the one reward that kl_place reward takes the KL off; use kl_place loss"
    if reward_weights and steps:
        return (
            "gdpo compares components of whole completions by reward_weights, step_rewards the steps of parts by their weights "
            "in the sum; one part cannot go by both, so leave step_rewards out or take another advantage for this source"
        )
    if reward_weights and config.overlong_cache and "overlong" not in reward_weights:
        return "gdpo looks only at the components in reward_weights; name `overlong` there, or set overlong_cache to 0"
    if not advantage.negative_rewards and config.overlong_cache:
        return f"{name} refuses rewards below 0, which overlong_cache can make; set it to 0 or take another advantage"
    if not advantage.negative_rewards and (config.truncated_reward or 0) < 0:
        return f"{name} refuses rewards below 0, such as this truncated_reward; leave it out or take another advantage"
    if reward_weights and config.truncated_reward is not None:
        return "gdpo does not look at the one reward that truncated_reward replaces; leave it out"
    if not advantage.negative_rewards and kl_in_reward:
        return f"{name} refuses rewards below 0, which a KL in the reward can make; use kl_place loss or another advantage"
    return None


def training_rows(
    groups: Sequence[Group],
    credit: Mapping[str, Credit],
    codec: Codec,
    *,
    mask_truncated: bool,
    penalties_PG: torch.Tensor | None = None,
    ratio_to_sampler: bool = False,
) -> list[list[TrainingRow]]:
    """Return the training rows of each group.

    Unscored completions and those of canaries (tasks that no answer solves) are masked. With `mask_truncated`, completions
    that the token limit cut off are masked, too.

    Args:
        groups: completions with verdicts, the same number in each group.
        credit: the rule of each source. An advantage over the batch is taken over the rows of one source only, because
            rewards of different sources may have different units.
        codec: decodes completions to find the tokens at which steps end.
        mask_truncated: if True, a truncated completion is left out of the loss; its reward still counts in its group.
        penalties_PG: penalties, such as a KL, that are subtracted from the rewards before advantages are computed.
        ratio_to_sampler: if True, the sampler's log-probabilities of an off-policy row become its old log-probabilities, so
            that the loss uses the ratio to the sampler. Leave it False if a correction already weighs rows by that ratio.
    """
    if not groups:
        return []
    rewards_PG, scored_PG = reward_tensors(groups)
    for p, group in enumerate(groups):
        if credit[group.source].by_turn:
            rewards_PG[p] += earned_by_turns([group])[0]
        else:
            refuse_unused(group)
    rewards_PG = rewards_PG * torch.tensor([[credit[group.source].reward_scale] for group in groups], dtype=torch.float64)
    if penalties_PG is not None:
        rewards_PG = rewards_PG - penalties_PG.to(rewards_PG)
    scored_PG = scored_PG & ~torch.tensor([[group.canary] for group in groups])
    advantages_PG, usable_PG = torch.zeros_like(rewards_PG), torch.zeros_like(scored_PG)
    for label in dict.fromkeys(group.source for group in groups):
        indices = [p for p, group in enumerate(groups) if group.source == label]
        members, rule = [groups[p] for p in indices], credit[label]
        _warn_of_absent(members, rule.reward_weights)
        _refuse_undeclared(members, rule.step_parts)
        source_PG = outcome_rewards(members, rule.outcome_terms) if rule.terms else rewards_PG[indices]
        advantages_PG[indices], usable_PG[indices] = _advantages(members, rule, source_PG, scored_PG[indices])
    rows = []
    for p, group in enumerate(groups):
        rule = credit[group.source]
        by_token = token_advantages(group, rule.terms, advantages_PG[p].tolist(), codec) if rule.terms else None
        if rule.by_turn:
            by_token = turn_advantages(group, advantages_PG[p].tolist(), rule.reward_scale)
        rows.append(
            [
                TrainingRow(
                    prompt_ids=group.prompt_ids,
                    token_ids=done.token_ids,
                    advantage=float(advantages_PG[p, g]),
                    trained=bool(usable_PG[p, g]) and not (mask_truncated and done.finish_reason == "length"),
                    sampler_logprobs=done.logprobs,
                    old_logprobs=done.logprobs if group.off_policy and ratio_to_sampler else None,
                    token_advantages=by_token[g] if by_token else None,
                    off_policy=group.off_policy,
                    loss_mask=done.loss_mask,
                )
                for g, done in enumerate(group.generated)
            ]
        )
    return rows


def _advantages(
    groups: Sequence[Group], credit: Credit, rewards_PG: torch.Tensor, scored_PG: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (advantages_PG, usable_PG) of one source's groups; `usable_PG` is False for completions without an advantage."""
    if credit.reward_weights:
        rewards_PGR, whole_PG = component_tensors(groups, tuple(credit.reward_weights))
        usable_PG = scored_PG & whole_PG
        return credit.advantage(rewards_PGR, usable_PG, tuple(credit.reward_weights.values())), usable_PG
    lengths = [[done.length for done in group.generated] for group in groups]
    lengths_PG = torch.tensor(lengths, dtype=rewards_PG.dtype)
    return credit.advantage(rewards_PG, scored_PG, lengths_PG=lengths_PG), scored_PG


def outcome_rewards(groups: Sequence[Group], terms: Sequence[Term]) -> torch.Tensor:
    """Return rewards_PG, in which the reward of a completion is the sum of the rewards of `terms`; nan where unscored."""
    rewards = [[weighted_sum(terms, score) for score in group.scores] for group in groups]
    rewards_PG = [[float("nan") if reward is None else reward for reward in row] for row in rewards]
    return torch.tensor(rewards_PG, dtype=torch.float64)


def _refuse_undeclared(groups: Sequence[Group], declared: frozenset[str] | None) -> None:
    """Refuse scored steps that step_rewards would ignore because the environment does not declare that it scores them.

    Raises:
        UsageError: step_rewards is set, and a verdict has steps of an undeclared component.
    """
    for group in groups if declared is not None else ():
        for score in group.scores:
            for step in score.steps or ():
                if step.part not in (declared or ()):
                    scorer = f"the part {step.part!r}" if step.part else "the environment"
                    raise UsageError(
                        f"source {group.source!r}: {scorer} scored steps without declaring it, so step_rewards would not see "
                        "them; set `scores_steps = True` in its class"
                    )


def component_tensors(groups: Sequence[Group], names: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rewards_PGR, scored_PG) of the components `names`.

    A component that is missing, because a gate stopped the grading before it, counts as 0. A component that is None has
    failed, so the completion counts as unscored.
    """

    def rewards(score: Score) -> list[float]:
        values = [score.components.get(name, 0.0) if score.scored else None for name in names]
        return [float("nan") if value is None else value for value in values]

    rewards_PGR = torch.tensor([[rewards(score) for score in group.scores] for group in groups], dtype=torch.float64)
    return rewards_PGR, ~rewards_PGR.isnan().any(dim=2)


def _warn_of_absent(groups: Sequence[Group], names: Iterable[str]) -> None:
    """Warn of components that no verdict contains: a misspelt name would be a reward that is always 0."""
    known = {name for group in groups for score in group.scores for name in score.components}
    for name in names:
        if known and name not in known:
            logger.warning("source %r: no verdict has the component %r; there are %s", groups[0].source, name, sorted(known))


def has_signal(group: Group, credit: Credit, *, mask_truncated: bool = False) -> bool:
    """Return True if at least one completion of the group would be trained on with a nonzero advantage.

    With step_rewards, the result may be True although every token's advantage is 0. This happens if the only steps with
    different rewards end within the same token, or if the advantages of outcome and steps add up to 0 at every token.

    Args:
        group: completions with verdicts.
        credit: the rule of the group's source. It must compare completions within their group only; see `compares_prompts`.
        mask_truncated: as in `training_rows`.
    """
    if group.canary:
        return False
    rewards_1G, scored_1G = reward_tensors([group])
    if credit.by_turn:
        rewards_1G = rewards_1G + earned_by_turns([group])
    if credit.terms:
        rewards_1G = outcome_rewards([group], credit.outcome_terms)
    advantages_1G, trained_1G = _advantages([group], credit, rewards_1G, scored_1G)
    moved_G = advantages_1G[0] != 0
    if credit.by_turn:
        moved_G = moved_G | torch.tensor([any(rewards_of_turns(one)[:-1]) for one in group.episodes] or [False] * len(moved_G))
    by_step = credited_terms(group, credit.terms)
    if by_step and not by_step[0].part:  # the steps replace the reward
        moved_G = torch.zeros_like(moved_G)
    for term in by_step:
        moved_G = moved_G | torch.tensor(steps_differ(group, term))
    if mask_truncated:
        trained_1G = trained_1G & ~torch.tensor([group.truncated])
    return bool((moved_G & trained_1G[0]).any())


def compares_prompts(credit: Credit) -> bool:
    """Return True if `credit` compares a group with other prompts, so that a group of equal rewards can have a gradient."""
    if credit.reward_weights:
        return False
    rewards_PG = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    scored_PG, lengths_PG = torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.float64)
    return bool(credit.advantage(rewards_PG, scored_PG, lengths_PG=lengths_PG).any())
