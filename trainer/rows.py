"""From verdicts to rows to train on: each source's rewards become advantages by its own rule.

Legend: P prompts, G samples a prompt, R rewards a completion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from verigym.envs.errors import UsageError
from verigym.envs.schema import Score
from verigym.trainer.advantages import ADVANTAGES, centred, gdpo
from verigym.trainer.config import TrainConfig
from verigym.trainer.objective import bind
from verigym.trainer.rollout import Group, reward_tensors
from verigym.trainer.steps import step_advantages, step_rewards
from verigym.trainer.tokens import Codec
from verigym.trainer.update import Row

logger = logging.getLogger("verigym.trainer")


@dataclass(frozen=True)
class Credit:
    """How one source's verdicts become advantages."""

    advantage: Callable[..., torch.Tensor]
    """A function of ADVANTAGES, or gdpo, with its own options bound."""
    reward_weights: Mapping[str, float] = field(default_factory=dict)
    """Components that are rewards of their own, for gdpo; empty for the others."""
    step_rewards: bool = False
    """Whether groups whose verdicts score steps get advantages by token."""


def credits_of(config: TrainConfig) -> dict[str, Credit]:
    """Return each source's rule, by label.

    Raises:
        UsageError: an advantage is unknown, an option of it is unknown or out of range, or it would not see the KL.
    """
    found = {}
    for source in config.sources:
        own = source if source.advantage is not None else config
        name = own.advantage or ""
        advantage = bind("advantage", name, {**ADVANTAGES, "gdpo": gdpo}, own.advantage_options)
        weights = dict(own.reward_weights)
        if config.kl_place == "reward" and config.kl_coef > 0 and (weights or config.step_rewards):
            raise UsageError(
                f"source {source.label!r}: gdpo and step_rewards do not look at the one reward that kl_place reward takes the "
                "KL off; use kl_place loss"
            )
        reward_PG, scored_PG = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
        try:  # now rather than after the first step's completions
            if weights:
                advantage(reward_PG[..., None].expand(1, 2, len(weights)), scored_PG, tuple(weights.values()))
            else:
                advantage(reward_PG, scored_PG, lengths_PG=torch.ones(1, 2))
        except (TypeError, ValueError) as error:
            raise UsageError(f"source {source.label!r}: advantage {name}: {error}") from None
        found[source.label] = Credit(advantage, weights, config.step_rewards)
    return found


def training_rows(
    groups: Sequence[Group],
    credit: Mapping[str, Credit],
    codec: Codec,
    *,
    mask_truncated: bool,
    penalties_PG: torch.Tensor | None = None,
    ratio_to_sampler: bool = False,
) -> list[list[Row]]:
    """Return each group's rows to train on.

    Masked are unscored completions, those of canaries, and where asked those cut off by the token limit.

    Args:
        groups: completions with verdicts, the same number in each.
        credit: each source's rule. What a rule compares over the batch, it compares within the source: rewards of two
            sources need not have one unit.
        codec: finds the tokens of steps.
        mask_truncated: whether a truncated completion is left out of the loss; its reward still counts in its group.
        penalties_PG: taken off the rewards before the advantages, such as a KL.
        ratio_to_sampler: gives a group of an earlier policy its sampler's log-probabilities as the old ones, so that the
            loss takes its ratio to them; leave it off where a correction weighs every row by them.
    """
    if not groups:
        return []
    rewards_PG, scored_PG = reward_tensors(groups)
    if penalties_PG is not None:
        rewards_PG = rewards_PG - penalties_PG.to(rewards_PG)
    scored_PG = scored_PG & ~torch.tensor([[group.canary] for group in groups])
    advantages_PG, usable_PG = torch.zeros_like(rewards_PG), torch.zeros_like(scored_PG)
    for label in dict.fromkeys(group.source for group in groups):
        mine = [p for p, group in enumerate(groups) if group.source == label]
        found = _advantages([groups[p] for p in mine], credit[label], rewards_PG[mine], scored_PG[mine])
        advantages_PG[mine], usable_PG[mine] = found
    rows = []
    for p, group in enumerate(groups):
        by_token = step_advantages(group, codec) if credit[group.source].step_rewards else None
        rows.append(
            [
                Row(
                    prompt_ids=group.prompt_ids,
                    token_ids=done.token_ids,
                    advantage=float(advantages_PG[p, g]),
                    trained=bool(usable_PG[p, g]) and not (mask_truncated and done.finish_reason == "length"),
                    sampler_logprobs=done.logprobs,
                    old_logprobs=done.logprobs if group.earlier and ratio_to_sampler else None,
                    token_advantages=by_token[g] if by_token else None,
                )
                for g, done in enumerate(group.generated)
            ]
        )
    return rows


def _advantages(
    groups: Sequence[Group], credit: Credit, rewards_PG: torch.Tensor, scored_PG: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (advantages_PG, usable_PG) of one source's groups."""
    if credit.reward_weights:
        rewards_PGR, whole_PG = component_tensors(groups, tuple(credit.reward_weights))
        _warn_of_absent(groups, credit.reward_weights)
        usable_PG = scored_PG & whole_PG
        return credit.advantage(rewards_PGR, usable_PG, tuple(credit.reward_weights.values())), usable_PG
    lengths = [[len(done.token_ids) for done in group.generated] for group in groups]
    lengths_PG = torch.tensor(lengths, dtype=rewards_PG.dtype)
    return credit.advantage(rewards_PG, scored_PG, lengths_PG=lengths_PG), scored_PG


def component_tensors(groups: Sequence[Group], names: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rewards_PGR, scored_PG) of the named components.

    A component that a verdict lacks, because a gate before it was shut, is 0. One that is None failed, so the completion
    counts as unscored here.
    """

    def rewards(score: Score) -> list[float]:
        values = [score.components.get(name, 0.0) if score.scored else None for name in names]
        return [float("nan") if value is None else value for value in values]

    rewards_PGR = torch.tensor([[rewards(score) for score in group.scores] for group in groups], dtype=torch.float64)
    return rewards_PGR, ~rewards_PGR.isnan().any(dim=2)


def _warn_of_absent(groups: Sequence[Group], names: Iterable[str]) -> None:
    """A misspelt component would silently be a reward that is always 0."""
    known = {name for group in groups for score in group.scores for name in score.components}
    for name in names:
        if known and name not in known:
            logger.warning("source %r: no verdict has the component %r; there are %s", groups[0].source, name, sorted(known))


def has_signal(group: Group, credit: Credit) -> bool:
    """Whether rewards differ within the group, to more than rounding, in any of the ways that its source's rule looks at."""
    if group.canary:
        return False
    if credit.reward_weights:
        rewards_1GR, scored_1G = component_tensors([group], tuple(credit.reward_weights))
        return any(bool(centred(rewards_1G, scored_1G).any()) for rewards_1G in rewards_1GR.unbind(dim=2))
    if credit.step_rewards and any(score.steps for score in group.scores if score.scored):
        rewards_1N = torch.tensor([[r for score in group.scores if score.scored for r in step_rewards(score)]])
        return bool(centred(rewards_1N.double(), torch.ones_like(rewards_1N, dtype=torch.bool)).any())
    return bool(centred(*reward_tensors([group])).any())
