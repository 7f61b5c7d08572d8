"""Groups as JSON, for checkpoints: tokens, log-probabilities and verdicts come back as they were, to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Score
from verigym.trainer.engines.base import Generated
from verigym.trainer.rollout.collect import Group


def dump_group(group: Group) -> dict[str, Any]:
    """Return a group as JSON. Python writes a float with the digits that give the same float back."""
    return {
        "source": group.source,
        "prompt": group.prompt.model_dump(mode="json"),
        "prompt_ids": list(group.prompt_ids),
        "generated": [
            [list(done.token_ids), list(done.logprobs), done.finish_reason, done.written and list(done.written)]
            for done in group.generated
        ],
        "texts": list(group.texts),
        "scores": [score.model_dump(mode="json") for score in group.scores],
        "earlier": group.earlier,
    }


def load_group(data: Mapping[str, Any], environments: Mapping[str, Environment]) -> Group:
    """Return the group that was dumped.

    Args:
        data: from `dump_group`.
        environments: by source; they make the typed references of the prompt again.
    """
    return Group(
        source=data["source"],
        prompt=environments[data["source"]].load_prompt(data["prompt"]),
        prompt_ids=tuple(data["prompt_ids"]),
        generated=tuple(
            Generated(tuple(ids), tuple(logprobs), reason, written and tuple(written))
            for ids, logprobs, reason, written in data["generated"]
        ),
        texts=tuple(data["texts"]),
        scores=tuple(Score.model_validate(score) for score in data["scores"]),
        earlier=data["earlier"],
    )
