"""Which sources share a grader."""

from __future__ import annotations

from pathlib import Path

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.tasks.mixture import build_source


def test_sources_share_a_grader_unless_their_options_differ() -> None:
    sources = [
        SourceConfig(environment="arithmetic", options={"digits": 1}, name="one"),
        SourceConfig(environment="arithmetic", options={"digits": 2}, name="two"),
        SourceConfig(environment="arithmetic", options={"digits": 1}, name="one again"),
        SourceConfig(environment="units"),
        SourceConfig(environment="arithmetic", options={"digits": 1}, format={}, name="gated"),
        SourceConfig(environment="arithmetic", options={"digits": 1}, format={"tags": []}, name="other gate"),
    ]
    config = TrainConfig(model="m", output=Path("o"), sources=tuple(sources), workers=0)
    built = [build_source(source, 0, 1) for source in sources]
    with open_graders(built, config) as graders:
        assert graders["one"] is graders["one again"] is graders["units"] is graders["gated"]
        assert graders["two"] is graders["other gate"] is not graders["one"]
        for source in built:
            prompt = source.train(0)
            gold = source.environment.gold(prompt)
            assert gold is not None
            score = graders[source.label].grade([(prompt, gold)])[0]
            assert score.reward == 1
            assert score.grader == source.environment.grader
