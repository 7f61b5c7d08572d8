"""Sampling that takes long: it stops between tokens, not only between completions, and says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from letters import LettersEnvironment

from verigym.envs.grading import Grader
from verigym.trainer.engines.base import Engine
from verigym.trainer.engines.hf import TransformersEngine
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.models.codec import Codec
from verigym.trainer.monitoring import progress
from verigym.trainer.monitoring.progress import Progress
from verigym.trainer.rollout.collect import Dropped, collect
from verigym.trainer.tasks.mixture import Source

LETTERS = LettersEnvironment()
LONGEST = 24


@pytest.fixture(params=[NativeEngine, TransformersEngine])
def engine(request: pytest.FixtureRequest, tiny_model: Any, tiny_tokenizer: Any) -> Engine:
    codec = Codec(tiny_tokenizer)
    codec.eos_ids = frozenset()  # no completion ends before its last token
    made: Engine = request.param(tiny_model, codec, rows_at_a_time=64, dtype="fp32")
    return made


def sample(engine: Any, **more: Any) -> Any:
    tasks = [(Source("letters", LETTERS, 1.0, LETTERS.prompt, ()), LETTERS.prompt(f"task {number}")) for number in range(2)]
    with Grader(LETTERS, workers=0) as grader:
        return collect(
            engine,
            engine.codec,
            lambda _: grader,
            tasks,
            samples=2,
            key=("test",),
            max_new_tokens=LONGEST,
            temperature=1.0,
            **more,
        )


def test_it_is_given_up_between_two_tokens(engine: Engine) -> None:
    asked: list[int] = []

    def give_up() -> bool:
        asked.append(len(asked))
        return len(asked) == 5

    with pytest.raises(Dropped):
        sample(engine, give_up=give_up)
    assert len(asked) == 5  # tokens, of 24: no completion has ended


def test_it_says_how_far_it_is(engine: Engine) -> None:
    said: list[str] = []

    def tell(describe: Callable[[], str]) -> None:
        said.append(describe())

    sample(engine, tell=tell)
    assert len(said) == LONGEST
    assert said[0].startswith("sampling: 0 of 4 completions, 4 tokens, ") and said[0].endswith(" left")
    assert said[-1].startswith(f"sampling: 0 of 4 completions, {4 * LONGEST} tokens, ")


def test_elsewhere_than_on_a_terminal_it_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shown = Progress(5, 2)
    for now in (30.0, 61.0, 90.0, 119.0):
        shown.present(lambda now=now: f"at {now:.0f} s")
    shown.step(3, {"reward": 0.5})
    now = 150.0
    shown.present(lambda: "too early after a step")
    now = 200.0
    shown.present(lambda: "much later")
    lines = [line for line in capsys.readouterr().err.splitlines() if "step " in line]
    assert lines[0] == "GRPO step 3 of 5: at 61 s"
    assert lines[-1] == "GRPO step 4 of 5: much later"
    assert not any("early" in line for line in lines)
