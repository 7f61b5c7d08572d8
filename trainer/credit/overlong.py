"""Length in the rewards of a group, before advantages are taken: DAPO's soft punishment, or a fixed reward where truncated."""

from __future__ import annotations

from dataclasses import replace

from verigym.envs.shaping.overlong import soft_overlong
from verigym.trainer.rollout.collect import Group


def punish_overlong(group: Group, max_tokens: int, cache: int) -> Group:
    """Return `group` with a length penalty added to its rewards as component `overlong`, and noted in the reasons.

    Unscored completions and all statuses stay, so accuracy does not change.

    Args:
        group: completions with verdicts.
        max_tokens: length in tokens at which the penalty reaches -1.
        cache: number of tokens before `max_tokens` over which the penalty grows from 0 to -1.
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
    """Return `group` with `reward` for each scored completion that the token limit cut off, noted in its reason.

    This is Tulu 3's reward for a response without an end-of-sequence token (2411.15124, table 21). Statuses do not change.

    Args:
        group: completions with verdicts.
        reward: replaces the verdict's reward.
    """
    scores = []
    for score, done in zip(group.scores, group.generated, strict=True):
        if score.reward is not None and done.finish_reason == "length":
            reason = f"{score.reason}; " if score.reason else ""
            score = score.model_copy(update={"reward": reward, "reason": f"{reason}{reward:g} for being cut off"})
        scores.append(score)
    return replace(group, scores=tuple(scores))
