"""The stage `pairs`: preference pairs of graded completions, right against wrong, as JSON Lines."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints.store import locked, prepare
from verigym.trainer.reward_models.config import PairsConfig
from verigym.trainer.reward_models.pairs import paired, read_graded
from verigym.trainer.stages.sampling import write_text

logger = logging.getLogger("verigym.trainer")


def make_pairs(config: PairsConfig) -> Path:
    """Write the pairs and return their file, `pairs.jsonl`; `summary.json` beside it has the counts.

    Raises:
        UsageError: a file does not fit, or no prompt has completions of different rewards.
    """
    prepare(config.output)
    with locked(config.output):
        graded = [one for path in config.data for one in read_graded(path)]
        pairs, counts = paired(
            graded,
            per_prompt=config.per_prompt,
            least_gap=config.least_gap,
            gap_as_margin=config.gap_as_margin,
            seed=config.seed,
        )
        write_text(config.output / "summary.json", json.dumps({"counts": {"all": counts}}, indent=1))
        if not pairs:
            raise UsageError(
                f"no prompt has two completions whose rewards differ by {config.least_gap:g} (least_gap): {counts}; a `sample` "
                "stage keeps wrong ones as well with keep: best and at_most: null"
            )
        path = config.output / "pairs.jsonl"
        rows = (
            {
                "prompt": [message.model_dump() for message in pair.messages],
                "chosen": pair.chosen,
                "rejected": pair.rejected,
                "margin": pair.margin,
            }
            for pair in pairs
        )
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    logger.info("pairs: %s", counts)
    return path
