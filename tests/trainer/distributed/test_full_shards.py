"""`shard: full` in two processes does what one process does: weights to 1e-8 in float64, the same logs, a final model of the same form.

Legend of the folders: `one` was trained by one process, `optimizer` and `full` by two with that `shard`.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from run_together import compute_exactly, run_all
from safetensors.torch import load_file
from together import MASKED, STEPS, distance, launch, metrics, rewound, samples, settings, weights

FULL = {"shard": "full"}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    """A model that one token in eight ends, so that lengths differ; its matrices do not divide by two evenly everywhere."""
    folder = tmp_path_factory.mktemp("model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Runs of one process and of two, and one of each that the other sort has ended."""
    root = tmp_path_factory.mktemp("runs")
    settings(root / "one", model_folder)
    settings(root / "one-masked", model_folder, **MASKED)
    checkpointed = {"gradient_checkpointing": True, "engine": "transformers", "steps": 2, "eval_every": 0}
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        run_all(root / "one/config.json", root / "one-masked/config.json")
        configs = [
            settings(root / "full", model_folder, **FULL),
            settings(root / "full-masked", model_folder, **MASKED, **FULL),
            settings(root / "full-checkpointing", model_folder, **checkpointed, **FULL),
            rewound(root / "one", root / "one-full", 3, model_folder, **FULL),
            settings(root / "plain", model_folder, steps=2, eval_every=0, **FULL),
        ]
        done = launch(*configs)
        assert done.returncode == 0, done.stderr[-3000:]
        run_all(rewound(root / "full", root / "full-one", 3, model_folder))
    return root


@pytest.mark.slow
def test_the_weights_are_those_of_one_process(runs: Path, model_folder: Path) -> None:
    before = load_file(model_folder / "model.safetensors")
    assert max(float((weights(runs / "full")[name] - before[name]).abs().max()) for name in before) > 1e-3
    assert distance(runs / "full", runs / "one") < 1e-8


@pytest.mark.slow
def test_the_logs_and_the_sampled_tokens_are_those_of_one_process(runs: Path) -> None:
    for kind in ("train", "eval"):
        mine, theirs = metrics(runs / "full", kind), metrics(runs / "one", kind)
        assert len(mine) == len(theirs) > 0
        for row, expected in zip(mine, theirs, strict=True):
            assert row.pop("kind") == expected.pop("kind")
            assert row == pytest.approx(expected, rel=1e-5, abs=1e-9)
    mine, theirs = ([sample["completion"] for sample in samples(runs / name)] for name in ("full", "one"))
    assert mine == theirs


@pytest.mark.slow
def test_a_process_without_rows_keeps_step(runs: Path) -> None:
    assert any(row["rows_with_gradient"] == 1 for row in metrics(runs / "one-masked"))
    assert distance(runs / "full-masked", runs / "one-masked") < 1e-8
