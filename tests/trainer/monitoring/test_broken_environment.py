"""A broken environment in the mixture: training goes on, its samples are masked and counted, the log says why, none gets 0."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from letters import BrokenEnvironment, LettersEnvironment
from runs import settings

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raises", "hangs", "nan", "memory", "kills", "returns"])
def test_training_goes_on(
    how: str, tmp_path: Path, tiny_model: Any, tiny_tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    steps = 1 if how == "hangs" else 3  # each verdict takes as long as it may
    tiny_model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    fields = settings(
        tmp_path / "model",
        tmp_path / "out",
        sources=[{"environment": "letters"}, {"environment": "broken", "eval_split": None}],
        max_new_tokens=8,
        learning_rate=1e-3,
        checkpoint_every=3,
        samples_per_step=4,
        steps=steps,
        workers=2,
        grade_timeout_s=5.0 if how == "hangs" else 600.0,
        grade_memory_mb=1024,
        on_broken_grader="warn",
    )
    given = {"letters": LettersEnvironment(), "broken": BrokenEnvironment(how=how)}
    with caplog.at_level(logging.WARNING):
        with pytest.raises(UsageError, match=rf"no verdict came from source 'broken' \(0 of {8 * steps} completions\)"):
            train(build_config(fields, "test"), given)
    assert (tmp_path / "out/final/config.json").exists()
    logged = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    told = {row["name"] for row in logged if row["kind"] == "warning"}
    assert told == ({"judge_exception", "broken_grader"} if how in ("raises", "nan", "memory", "returns") else set())
    rows = [row for row in logged if row["kind"] == "train"]
    assert len(rows) == steps
    for row in rows:
        assert row["broken/unscored"] == 8
        assert row["letters/unscored"] == 0
        assert "broken/reward" not in row
        assert row["trained_rows"] == 8
        assert row["reward"] == row["letters/reward"]
        assert row["grad_norm"] > 0
    samples = [json.loads(line) for line in (tmp_path / "out/samples.jsonl").read_text().splitlines()]
    broken = [row for row in samples if row["source"] == "broken"]
    assert broken
    assert all(row["reward"] is None and row["status"] == "error" and row["reason"] for row in broken)
    assert "broken" in caplog.text
