"""What length costs in the rewards of a group, before advantages are taken: a soft punishment, or a price of being cut off."""

from __future__ import annotations

from dataclasses import replace

from verigym.trainer.credit.length_terms import soft_overlong
from verigym.trainer.rollout.collect import Group


def punish_overlong(group: Group, max_tokens: int, cache: int) -> Group:
    """Return the group with the punishment in its rewards, as component `overlong`, and in the reasons that samples show.

    Unscored completions stay so, and statuses stay as they are: accuracy does not change.

    Args:
        group: completions with verdicts.
        max_tokens: length at which the punishment is 1.
        cache: tokens before that over which it grows from 0.
    """
    scores = []
    for score, done in zip(group.scores, group.generated, strict=True):
        if score.reward is not None:
            length = done.length
            punishment = soft_overlong(length, max_tokens, cache)
            reason = f"{score.reason}; " if score.reason else ""
            score = score.model_copy(
                update={
                    "reward": score.reward + punishment,
                    "components": {**score.components, "overlong": punishment},
                    "reason": f"{reason}{punishment:+.2f} for {length} tokens" if punishment else score.reason,
                }
            )
        scores.append(score)
    return replace(group, scores=tuple(scores))


def price_truncated(group: Group, reward: float) -> Group:
    """Return the group with this reward for each scored completion that the token limit cut off, and why in its reason.

    Tulu 3's reward for a response without an end-of-sequence token (2411.15124, table 21). Statuses stay as they are.

    Args:
        group: completions with verdicts.
        reward: in place of the verdict's.
    """
    scores = []
    for score, done in zip(group.scores, group.generated, strict=True):
        if score.reward is not None and done.finish_reason == "length":
            reason = f"{score.reason}; " if score.reason else ""
            score = score.model_copy(update={"reward": reward, "reason": f"{reason}{reward:g} for being cut off"})
        scores.append(score)
    return replace(group, scores=tuple(scores))
