"""A training run whose engine is compared with the policy after every push: `watched_run.py CONFIG.json REPORT.json`.

The report has, for each push, the greedy completions of fixed prompts by the engine and by the policy itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

sys.path.append(str(Path(__file__).parents[2] / "support"))

from letters import LettersEnvironment

from verigym.trainer import loop
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.distributed.world import World
from verigym.trainer.engines.base import Engine, EpisodeEngine
from verigym.trainer.engines.build import build_engine
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.models.codec import Codec

PROMPTS = [[3 + 7 * i + j for j in range(2 + i)] for i in range(6)]
KEYS = [[("greedy", i)] for i in range(len(PROMPTS))]
LONGEST = 16


class Watched:
    """An engine that is compared with the policy whenever it has taken over its weights."""

    def __init__(self, engine: EpisodeEngine, policy: Engine, report: Path) -> None:
        self.engine = engine
        self.policy = policy
        self.report = report
        self.pushes: list[dict[str, Any]] = []
        self.generate = engine.generate
        self.play, self.forget = engine.play, engine.forget
        self.rest = engine.rest
        self.close = engine.close

    @property
    def positions(self) -> int | None:
        return self.engine.positions

    def sync(self) -> None:
        self.engine.sync()
        both = []
        for engine in (self.engine, self.policy):
            found = engine.generate(PROMPTS, KEYS, max_new_tokens=LONGEST, temperature=0.0, on_finished=lambda *_: None)
            both.append([row[0] for row in found])
        gaps = [
            abs(a - b) for ours, theirs in zip(*both, strict=True) for a, b in zip(ours.logprobs, theirs.logprobs, strict=False)
        ]
        self.pushes.append(
            {
                "engine": [done.token_ids for done in both[0]],
                "policy": [done.token_ids for done in both[1]],
                "reasons": [done.finish_reason for done in both[0]],
                "gap": max(gaps),
                "logprobs": [done.logprobs for done in both[0]],
            }
        )
        self.report.write_text(json.dumps(self.pushes))


def main(config_file: Path, report: Path) -> None:
    """Run it."""

    def build(config: TrainConfig, model: Any, codec: Codec, world: World) -> Any:
        policy = NativeEngine(model, codec, rows_at_a_time=64, dtype=config.dtype)
        return Watched(cast(EpisodeEngine, build_engine(config, model, codec, world)), policy, report)

    loop.build_engine = build  # type: ignore[assignment]
    loop.train(build_config(json.loads(config_file.read_text()), str(config_file)), {"letters": LettersEnvironment()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
