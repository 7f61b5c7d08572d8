"""Adapters, and the critic of PPO, in two processes: the weights and logs of one, each other's checkpoints, exact resume.

Legend of the folders: `lora` and `critic`, with `-one` and `-two` for the number of processes; `lora-one-two` was begun by one
process and ended by two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_together import compute_exactly, run_all
from safetensors.torch import load_file
from together import STEPS, distance, launch, lives, metrics, rewound, samples, settings, weights

from tests.support.needs import require

ALONE = {"dynamic_sampling": False, "curriculum": False, "replay_share": 0.0}
KINDS: dict[str, dict[str, Any]] = {
    "lora": {"lora_rank": 4, "lora_alpha": 8.0, "learning_rate": 1e-2},
    "critic": {**ALONE, "advantage": "gae", "value_clip": 0.2, "critic_learning_rate": 1e-3, "kl_place": "reward"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Runs by one process and by two, and one of each that the other sort has ended."""
    require("peft")
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        run_all(*(settings(root / f"{kind}-one", model_folder, **changes) for kind, changes in KINDS.items()))
        configs = [settings(root / f"{kind}-two", model_folder, **changes) for kind, changes in KINDS.items()]
        configs.append(settings(root / "critic-full", model_folder, **KINDS["critic"], shard="full"))
        configs.append(rewound(root / "critic-one", root / "critic-one-full", 3, model_folder, **KINDS["critic"], shard="full"))
        for kind, changes in KINDS.items():
            configs.append(rewound(root / f"{kind}-one", root / f"{kind}-one-two", 3, model_folder, **changes))
        done = launch(*configs)
        assert done.returncode == 0, done.stderr[-3000:]
        for kind, changes in KINDS.items():
            run_all(rewound(root / f"{kind}-two", root / f"{kind}-two-one", 3, model_folder, **changes))
    return root


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_are_those_of_one_process(kind: str, runs: Path, model_folder: Path) -> None:
    before = load_file(model_folder / "model.safetensors")
    assert max(float((weights(runs / f"{kind}-two")[name] - before[name]).abs().max()) for name in before) > 1e-3
    assert distance(runs / f"{kind}-two", runs / f"{kind}-one") < BOUND[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_logs_are_those_of_one_process(kind: str, runs: Path) -> None:
    for rows in ("train", "eval"):
        mine, theirs = (metrics(runs / f"{kind}-{number}", rows) for number in ("two", "one"))
        assert len(mine) == len(theirs) > 0
        for row, expected in zip(mine, theirs, strict=True):
            assert row.pop("kind") == expected.pop("kind")
            for one in (row, expected):
                one.pop("value_clip_fraction", None)  # of values that have hardly moved, rounding decides
            assert row == pytest.approx(expected, rel=1e-4, abs=1e-7)
    written, expected = ([sample["completion"] for sample in samples(runs / f"{kind}-{number}")] for number in ("two", "one"))
    assert written == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begun", ["one-two", "two-one"])
def test_a_checkpoint_is_read_by_another_number_of_processes(begun: str, kind: str, runs: Path) -> None:
    assert distance(runs / f"{kind}-{begun}", runs / f"{kind}-one") < BOUND[kind]
    assert [row["step"] for row in metrics(runs / f"{kind}-{begun}")] == [*range(1, STEPS + 1)]


@pytest.mark.slow
def test_the_critic_does_the_same_fully_sharded(runs: Path) -> None:
    for name in ("critic-full", "critic-one-full"):
        assert distance(runs / name, runs / "critic-one") < BOUND["critic"]
    for row, expected in zip(metrics(runs / "critic-full"), metrics(runs / "critic-one"), strict=True):
        for name in ("value", "value_loss", "critic_grad_norm", "explained_variance", "loss", "reward"):
            assert row[name] == pytest.approx(expected[name], rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_the_critic_is_sharded(runs: Path) -> None:
    folder = runs / "critic-two/out/checkpoints/step-00000005"
    assert not (folder / "critic.pt").exists()
    parts = [load_file(path) for path in sorted((folder / "critic/shards").iterdir())]
    assert len(parts) == 2
    assert all(len(part["exp_avg/base_model.embed_tokens.weight"]) for part in parts)
    rows = metrics(runs / "critic-two")
    assert sum(row["value_loss"] for row in rows) > 0 and all(row["critic_grad_norm"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_it_ends_with_the_same_bytes(kind: str, runs: Path, model_folder: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, model_folder, **KINDS[kind])
    done = launch(config, options=["--max-restarts=1"], SIGNAL="SIGKILL:1:3")
    assert done.returncode == 0, done.stderr[-3000:]
    assert lives(tmp_path) == 2, done.stderr[-3000:]
    assert distance(tmp_path, runs / f"{kind}-two") == 0
    assert metrics(tmp_path) == metrics(runs / f"{kind}-two")


BOUND = {"lora": 1e-6, "critic": 1e-8}
"""Largest difference of a weight. Merged adapters are float32."""
