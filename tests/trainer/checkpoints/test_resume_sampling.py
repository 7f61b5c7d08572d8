"""With dynamic sampling, curriculum, replay and the punishment of length on, a run that was stopped or killed goes on as if
it had not been: the same bytes, the same metrics.
"""

from __future__ import annotations

import copy
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from letters import LettersEnvironment
from patience import HANG_S
from warm_python import warm_python

from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train

SCRIPT = Path(__file__).parent.parent / "support/run_letters.py"
STEPS = 8


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    """A model that one token in eight ends, so that lengths differ."""
    folder = tmp_path_factory.mktemp("model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def settings(folder: Path, model: Path, steps: int = STEPS) -> dict[str, Any]:
    return {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [
            {"environment": "letters", "name": "a", "weight": 9, "advantage": "rloo"},
            {"environment": "letters", "name": "b", "min_share": 0.2},
        ],
        "seed": 4,
        "steps": steps,
        "prompts_per_step": 5,
        "group_size": 4,
        "max_new_tokens": 8,
        "learning_rate": 1e-3,
        "updates_per_step": 2,
        "dynamic_sampling": True,
        "max_oversampling": 4,
        "curriculum": True,
        "hard_share": 0.4,
        "replay_share": 0.4,
        "overlong_cache": 4,
        "checkpoint_every": 2,
        "eval_every": 0,
        "threads": 1,
        "workers": 0,
        "device": "cpu",
    }


def run(folder: Path, model: Path, steps: int = STEPS) -> None:
    train(build_config(settings(folder, model, steps), "test"), {"letters": LettersEnvironment()})


def weights(folder: Path) -> bytes:
    return (folder / "out/final/model.safetensors").read_bytes()


def metrics(folder: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows if row["kind"] == "train"]


def samples(folder: Path) -> list[str]:
    return (folder / "out/samples.jsonl").read_text().splitlines()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run(folder, model_folder)
    return folder


def test_everything_is_used(whole: Path, model_folder: Path) -> None:
    rows = metrics(whole)
    assert len(rows) == STEPS
    for name in ("leftovers_used", "leftovers_kept", "replayed_groups", "curriculum_easy", "curriculum_hard"):
        assert sum(row[name] for row in rows) > 0, name
    assert any(row["sampled_groups"] > 5 for row in rows)
    assert all(row["a/overlong"] < 0 for row in rows)
    assert all(row["b/unscored"] == 0 for row in rows if "b/unscored" in row)
    assert weights(whole) != (model_folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("stop", [1, 5])
def test_stopped_it_goes_on_with_its_leftovers_and_pools(stop: int, whole: Path, model_folder: Path, tmp_path: Path) -> None:
    run(tmp_path, model_folder, stop)
    run(tmp_path, model_folder)
    assert weights(tmp_path) == weights(whole)
    assert metrics(tmp_path) == metrics(whole)
    assert samples(tmp_path) == samples(whole)


def test_a_step_without_any_signal_leaves_the_weights_alone(model_folder: Path, tmp_path: Path) -> None:
    fields = settings(tmp_path, model_folder, 2) | {"sources": [{"environment": "arithmetic"}], "overlong_cache": 0}
    train(build_config(fields | {"kl_coef": 0.1, "kl_place": "reward"}, "test"))
    for row in metrics(tmp_path):
        assert (row["sampled_groups"], row["missing_groups"], row["trained_rows"]) == (20, 5, 0)
        assert row["reward"] == row["accuracy"] == 0
    assert weights(tmp_path) == (model_folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("correction", [None, "token_truncated"])
def test_what_an_earlier_policy_wrote_is_measured_against_its_sampler(
    correction: str | None, model_folder: Path, tmp_path: Path
) -> None:
    fields = settings(tmp_path, model_folder, 5) | {"learning_rate": 0.02, "updates_per_step": 1, "warmup_steps": 0}
    train(build_config(fields | {"correction": correction, "clip_high": 0.01}, "test"), {"letters": LettersEnvironment()})
    rows = [row for row in metrics(tmp_path) if row["replayed_groups"] or row["leftovers_used"]]
    assert rows
    if correction is None:
        assert all(row["clip_fraction"] > 0 for row in rows), "fresh rows have a ratio of 1, earlier ones have not"
    else:
        assert all(abs(row["correction"] - 1) > 1e-3 and row["clip_fraction"] == 0 for row in rows)


@pytest.mark.slow
def test_killed_it_goes_on_with_its_leftovers_and_pools(whole: Path, model_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings(tmp_path, model_folder)))
    died = subprocess.run([*warm_python(), str(SCRIPT), str(path), "step-5"], capture_output=True, timeout=HANG_S)
    assert died.returncode == -signal.SIGKILL, died.stderr[-500:]
    assert not (tmp_path / "out/final").exists()
    run(tmp_path, model_folder)
    assert weights(tmp_path) == weights(whole)
    assert metrics(tmp_path) == metrics(whole)
