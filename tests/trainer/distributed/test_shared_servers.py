"""Engine vllm-server in two processes, against a real HTTP server over a small model: one push a step, one process's texts."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
from run_together import compute_exactly, run_all
from together import distance, launch, metrics, samples, settings

from tests.support.needs import require

sys.path.append(str(Path(__file__).parents[1] / "engines/support"))

from small_server import small_server

SERVED = {"engine": "vllm-server", "steps": 3, "vllm_wait_s": 60.0, "vllm_requests": 4}


@pytest.fixture(scope="module")
def policy(tiny_tokenizer: Any, tiny_model: Any) -> Any:
    """A model that one token in eight ends, so that lengths differ."""
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    return model


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, policy: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    policy.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_weights_are_pushed_once_and_prompts_are_divided(tmp_path: Path, policy: Any, model_folder: Path) -> None:
    asked, pushed = {}, {}
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        for name in ("one", "two", "full", "restarted"):
            with small_server(policy) as server:
                shard = "full" if name == "full" else "optimizer"
                config = settings(tmp_path / name, model_folder, **SERVED, vllm_urls=[server.url], shard=shard)
                if name == "restarted":
                    server.tricks.extend([*[None] * 30, "restart", *[None] * 20, "drop"])
                if name == "one":
                    run_all(config)
                else:
                    done = launch(config)
                    assert done.returncode == 0, done.stderr[-3000:]
                asked[name] = sorted(map(tuple, server.prompts))
                pushed[name] = server.engine.calls.count("reload_weights")
    assert asked["two"] == asked["full"] == asked["restarted"] == asked["one"]
    assert pushed["two"] == pushed["full"] == pushed["one"] == 4, "before the first step and after each, by one process"
    for name in ("two", "full", "restarted"):
        for row, expected in zip(metrics(tmp_path / name), metrics(tmp_path / "one"), strict=True):
            assert row.pop("kind") == expected.pop("kind")
            assert row == pytest.approx(expected, rel=1e-5, abs=1e-6)
        written, wanted = ([sample["completion"] for sample in samples(tmp_path / run)] for run in (name, "one"))
        assert written == wanted
        assert distance(tmp_path / name, tmp_path / "one") < 1e-6


@pytest.mark.slow
def test_adapters_on_a_sharded_base_are_pushed_merged(tmp_path: Path, policy: Any, model_folder: Path) -> None:
    require("peft")
    fields = {**SERVED, "steps": 2, "eval_every": 0, "lora_rank": 4, "lora_alpha": 8.0, "learning_rate": 1e-2}
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        with small_server(policy) as server:
            run_all(settings(tmp_path / "one", model_folder, **fields, vllm_urls=[server.url]))
        with small_server(policy) as server:
            done = launch(settings(tmp_path / "full", model_folder, **fields, vllm_urls=[server.url], shard="full"))
            assert done.returncode == 0, done.stderr[-3000:]
            assert server.engine.calls.count("reload_weights") == 3
    written, wanted = ([sample["completion"] for sample in samples(tmp_path / run)] for run in ("full", "one"))
    assert written == wanted
    assert distance(tmp_path / "full", tmp_path / "one") < 1e-6
