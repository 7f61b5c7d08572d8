"""Groups as JSON, for checkpoints: tokens, log-probabilities and verdicts are restored to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Completion, Score
from verigym.trainer.engines.base import Generated
from verigym.trainer.rollout.collect import Group


def dump_group(group: Group) -> dict[str, Any]:
    """Return `group` as JSON data, from which `load_group` restores it. Floats are exact."""
    return {
        "source": group.source,
        "prompt": group.prompt.model_dump(mode="json"),
        "prompt_ids": list(group.prompt_ids),
        "generated": [
            [
                list(done.token_ids),
                list(done.logprobs),
                done.finish_reason,
                done.loss_mask and list(done.loss_mask),
                done.turns,
                done.policy_step,
            ]
            for done in group.generated
        ],
        "texts": list(group.texts),
        "scores": [score.model_dump(mode="json") for score in group.scores],
        "off_policy": group.off_policy,
        "episodes": [episode.model_dump(mode="json") for episode in group.episodes],
    }


def load_group(data: Mapping[str, Any], environments: Mapping[str, Environment]) -> Group:
    """Return the group that `dump_group` turned into `data`.

    Args:
        data: from `dump_group`. Data from checkpoints of older versions can be read as well: there, `off_policy` may be
            called `earlier`, and `episodes` or `policy_step` may be missing.
        environments: environment of each source, by label; needed to rebuild the references of prompts in their own types.
    """
    return Group(
        source=data["source"],
        prompt=environments[data["source"]].load_prompt(data["prompt"]),
        prompt_ids=tuple(data["prompt_ids"]),
        generated=tuple(
            Generated(
                tuple(ids),
                tuple(logprobs),
                reason,
                loss_mask and tuple(loss_mask),
                turns=tuple((start, end) for start, end in (later[0] if later else ())),
                policy_step=later[1] if len(later) > 1 else None,
            )
            for ids, logprobs, reason, loss_mask, *later in data["generated"]
        ),
        texts=tuple(data["texts"]),
        scores=tuple(Score.model_validate(score) for score in data["scores"]),
        off_policy=data["off_policy"] if "off_policy" in data else data["earlier"],
        episodes=tuple(Completion(**episode) for episode in data.get("episodes", ())),
    )
