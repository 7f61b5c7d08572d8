"""No text goes without a verdict: a part of the fuzzer of texts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "fuzz"))

import pytest
import texts


@pytest.mark.slow
def test_every_drawn_text_has_a_verdict() -> None:
    done, without, statuses, lacking, _ = texts.run("suite", range(600))
    assert without == []
    assert sum(statuses.values()) == done >= 600 - lacking.total()
    assert len(statuses) > 4, "texts so much alike prove little"


def test_each_composition_is_judged() -> None:
    made = texts.compositions()
    for name, env, prompt in made:
        gold = env.gold(prompt)
        assert gold is None or env.score(prompt, gold).reward == env.reward_range[1], name
    assert sum(env.gold(prompt) is not None for _, env, prompt in made) >= 3
