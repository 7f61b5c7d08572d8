"""SIGTERM during an update: it ends between micro-batches, the step is not kept, and the resumed run has the same bytes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from runs import LETTERS, rows, settings, weights

from verigym.trainer import loop
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.learner import learner as learner_module
from verigym.trainer.monitoring.progress import Interrupted


def configured(model: Path, output: Path, **more: Any) -> TrainConfig:
    # So few tokens that a step has many micro-batches.
    return build_config(settings(model, output, micro_batch_tokens=40, threads=1, checkpoint_every=100, **more), "test")


def run_stopped_in_the_update(config: TrainConfig, monkeypatch: pytest.MonkeyPatch, step: int) -> list[int]:
    """Train, with SIGTERM after the first micro-batch of an update; return how many rows had been run after each one."""
    seen: list[int] = []
    real = loop.rows_reported

    def reported(between: Any) -> Any:
        def told(done: int, of: int) -> None:
            if len(rows(config.output) if step else []) == step:
                seen.append(done)
                if len(seen) == 1:
                    signal.raise_signal(signal.SIGTERM)
            between(done, of)

        return real(told)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "rows_reported", reported)
        with pytest.raises(Interrupted, match=f"stopped after step {step} of 3" if step else "stopped before the first step"):
            loop.train(config, LETTERS)
    return seen


@pytest.mark.parametrize("step", [0, 2])
def test_it_ends_between_micro_batches_and_the_step_is_repeated(
    step: int, letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.train(configured(letters_model, tmp_path / "whole"), LETTERS)
    config = configured(letters_model, tmp_path / "stopped")
    assert len(run_stopped_in_the_update(config, monkeypatch, step)) == 1, "no micro-batch was run after it"
    assert [row["step"] for row in (rows(config.output) if step else [])] == [*range(1, step + 1)]
    loop.train(config, LETTERS)
    assert weights(config.output / "final") == weights(tmp_path / "whole/final")


def test_an_update_that_has_changed_weights_is_ended(
    letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"updates_per_step": 2, "loss": "clipped"}
    loop.train(configured(letters_model, tmp_path / "whole", **more), LETTERS)
    config = configured(letters_model, tmp_path / "stopped", **more)
    real = learner_module.step_if_finite

    def stepped(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(learner_module, "step_if_finite", stepped)
        with pytest.raises(Interrupted, match="stopped after step 1 of 3"):
            loop.train(config, LETTERS)
    loop.train(config, LETTERS)
    assert weights(config.output / "final") == weights(tmp_path / "whole/final")
