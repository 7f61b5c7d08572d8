"""Changes rewards by length, before advantages are computed: DAPO's soft punishment, or a fixed reward if truncated."""

from __future__ import annotations

from dataclasses import replace

from verigym.envs.shaping.overlong import soft_overlong
from verigym.trainer.rollout.collect import Group


def punish_overlong(group: Group, max_tokens: int, cache: int) -> Group:
    """Return a copy of `group` whose rewards include a length penalty.

    In a completion's score, the penalty is added to the reward and stored as the component `overlong`; the score's reason
    mentions a penalty that is not 0. Unscored completions and all statuses stay as they are, so accuracy does not change.

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
    """Return a copy of `group` in which each scored completion that the token limit cut off has the reward `reward`.

    The reason in the completion's score mentions the cut-off. Tulu 3 gives such a reward to a response without an
    end-of-sequence token (arXiv 2411.15124, table 21). Statuses do not change.

    Args:
        group: completions with verdicts.
        reward: replaces the reward in the verdict.
    """
    scores = []
    for score, done in zip(group.scores, group.generated, strict=True):
        if score.reward is not None and done.finish_reason == "length":
            reason = f"{score.reason}; " if score.reason else ""
            score = score.model_copy(update={"reward": reward, "reason": f"{reason}{reward:g} for being cut off"})
        scores.append(score)
    return replace(group, scores=tuple(scores))
