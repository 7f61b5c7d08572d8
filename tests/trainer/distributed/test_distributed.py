"""Two processes under torchrun do what one does: the same weights to 1e-8 in float64, the same logs, each other's checkpoints.

Legend of the folders: `one` and `two` were trained by so many processes; `masked` are runs with few rows to train on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment
from patience import HANG_S
from run_together import compute_exactly, run_all
from safetensors.torch import load_file
from together import MASKED, STEPS, distance, launch, lives, metrics, rewound, samples, settings, weights

from verigym.cli import main
from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.distributed.balance import share_rows
from verigym.trainer.distributed.sharded_checkpoint import load_shards, save_shards
from verigym.trainer.distributed.torchrun import LAUNCHED
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.loop import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """Runs by one process and by two, and one of each that the other sort has ended."""
    root = tmp_path_factory.mktemp("runs")
    settings(root / "plain", model_folder, steps=2, eval_every=0)
    for name in ("one", "two"):
        settings(root / name, model_folder)
        settings(root / f"{name}-masked", model_folder, **MASKED)
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        run_all(root / "one/config.json", root / "one-masked/config.json")
        half_done = rewound(root / "one", root / "one-two", 3, model_folder)
        done = launch(
            root / "two/config.json", root / "two-masked/config.json", half_done, root / "plain/config.json", warm=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        run_all(rewound(root / "two", root / "two-one", 3, model_folder))
    return root


@pytest.mark.slow
def test_the_weights_are_those_of_one_process(runs: Path, model_folder: Path) -> None:
    before = load_file(model_folder / "model.safetensors")
    assert max(float((weights(runs / "two")[name] - before[name]).abs().max()) for name in before) > 1e-3
    assert distance(runs / "two", runs / "one") < 1e-8


@pytest.mark.slow
def test_the_logs_are_those_of_one_process(runs: Path) -> None:
    for kind in ("train", "eval"):
        mine, theirs = metrics(runs / "two", kind), metrics(runs / "one", kind)
        assert len(mine) == len(theirs) > 0
        for row, expected in zip(mine, theirs, strict=True):
            assert row.pop("kind") == expected.pop("kind")
            assert row == pytest.approx(expected, rel=1e-5, abs=1e-9)
    written, expected = ([sample["completion"] for sample in samples(runs / name)] for name in ("two", "one"))
    assert written == expected
    rows = metrics(runs / "two")
    for name in ("clip_fraction", "kl", "leftovers_used", "replayed_groups"):
        assert sum(row[name] for row in rows) > 0, name
    assert all(row["grad_norm"] > 0.1 for row in rows), "gradients are clipped"


@pytest.mark.slow
def test_it_is_so_in_float32_too(runs: Path) -> None:
    assert {tensor.dtype for tensor in weights(runs / "plain").values()} == {torch.float32}
    plain, exact = metrics(runs / "plain")[0], metrics(runs / "one")[0]
    for name in ("loss", "grad_norm", "kl"):
        assert plain[name] == pytest.approx(exact[name], rel=1e-3, abs=1e-6)


@pytest.mark.slow
def test_a_process_without_rows_takes_part(runs: Path) -> None:
    assert any(row["rows_with_gradient"] == 1 for row in metrics(runs / "one-masked"))
    assert distance(runs / "two-masked", runs / "one-masked") < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-two", "two-one"])
def test_a_checkpoint_is_read_by_another_number_of_processes(name: str, runs: Path) -> None:
    assert distance(runs / name, runs / "one") < 1e-8
    assert [row["step"] for row in metrics(runs / name)] == [*range(1, STEPS + 1)]


@pytest.mark.slow
def test_a_checkpoint_has_each_processs_part(runs: Path) -> None:
    folder = runs / "two/out/checkpoints/step-00000005/shards"
    assert sorted(path.name for path in folder.iterdir()) == [f"rank-0000{rank}-of-00002.safetensors" for rank in range(2)]
    whole = weights(runs / "two")
    parts = [load_file(path) for path in sorted(folder.iterdir())]
    for name, tensor in whole.items():
        assert torch.equal(torch.cat([part[f"weight/{name}"] for part in parts]), tensor)
        assert all(len(part[f"exp_avg/{name}"]) < len(tensor) for part in parts)


@pytest.mark.slow
def test_the_reference_is_replaced_in_all_processes(runs: Path) -> None:
    for name in ("one", "two"):
        assert [row["reference_step"] for row in metrics(runs / name)] == [0, 0, 2, 2, 4]
    for step, origin in ((4, "two/out/checkpoints/step-00000002/shards"), (3, "two/out/checkpoints/step-00000002/shards")):
        for rank in range(2):
            file = f"rank-0000{rank}-of-00002.safetensors"
            kept = load_file(runs / f"two/out/checkpoints/step-{step:08d}/reference" / file)
            policy = load_file(runs / origin / file)
            assert kept and all(torch.equal(tensor, policy[name]) for name, tensor in kept.items())


@pytest.mark.slow
def test_stopped_and_killed_it_ends_with_the_same_bytes(runs: Path, model_folder: Path, tmp_path: Path) -> None:
    config = settings(tmp_path, model_folder)
    stopped = launch(config, warm=False, SIGNAL="SIGINT:1:1")
    assert stopped.returncode != 0
    assert stopped.stderr.count(f"stopped after step 2 of {STEPS}; go on with the same command") == 1
    assert max(path.name for path in (tmp_path / "out/checkpoints").iterdir()) == "step-00000002"
    done = launch(config, options=["--max-restarts=1"], warm=False, SIGNAL="SIGKILL:1:3")
    assert done.returncode == 0, done.stderr[-3000:]
    assert lives(tmp_path) == 3, done.stderr[-3000:]
    assert distance(tmp_path, runs / "two") == 0
    assert metrics(tmp_path) == metrics(runs / "two")
    assert samples(tmp_path) == samples(runs / "two")


@pytest.mark.slow
def test_a_process_that_stands_still_is_waited_for(runs: Path, model_folder: Path, tmp_path: Path) -> None:
    done = launch(settings(tmp_path, model_folder), SIGNAL="SIGSTOP:1:3")
    assert done.returncode == 0, done.stderr[-3000:]
    assert distance(tmp_path, runs / "two") == 0
    rows = map(json.loads, (tmp_path / "out/metrics.jsonl").read_text().splitlines())
    assert max(row.get("step_s", 0) for row in rows) > 4.5, "it did stand still"


@pytest.mark.parametrize("change", [{"optimizer": "adamw_8bit"}, {"overlap": "one_step"}])
def test_what_one_process_alone_can_do_is_refused(
    change: dict[str, Any], model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads(settings(tmp_path, model_folder, dynamic_sampling=False, replay_share=0).read_text()) | change
    for name in LAUNCHED:
        monkeypatch.setenv(name, "2")
    with pytest.raises(UsageError, match=f"^{next(iter(change))}.* works in one process only; leave it out, or start"):
        train(build_config(config, "test"), {"letters": LettersEnvironment()})


def test_rows_are_shared_out_once_and_evenly() -> None:
    prompts = [[1, 2]] * 3 + [[3]] * 2 + [[4, 4, 4]]
    completions = [[0] * length for length in (5, 5, 5, 4, 4, 6)]
    shares = [share_rows(prompts, completions, [0, 1, 2, 3, 5], World(rank, 2)) for rank in range(2)]
    assert shares == [[0, 1, 2], [3, 5]], "rows of a prompt stay together"
    assert [share_rows(prompts, completions, [0, 1, 2], World(rank, 2)) for rank in range(2)] == [[0, 2], [1]]
    assert [share_rows(prompts, completions, [4], World(rank, 2)) for rank in range(2)] == [[4], []]
    assert share_rows(prompts, completions, [5, 4], SOLO) == [5, 4]


def test_grading_processes_share_the_cores() -> None:
    assert World(0, 4, 4).workers(3) == 3
    assert World(0, 4, local_size=1000).workers(None) == 1
    assert SOLO.workers(None) is None


def test_shards_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    save_shards(tmp_path, model, optimizer, World(0, 2))
    with pytest.raises(UsageError, match="should have one file a process"):
        load_shards(tmp_path, model, optimizer)
    save_shards(tmp_path, model, optimizer, World(1, 2))
    with pytest.raises(UsageError, match="has no weights '0.weight': it was made with another model"):
        load_shards(tmp_path, torch.nn.Sequential(model), optimizer)


@pytest.mark.parametrize(("rank", "told"), [("0", 1), ("1", 0)])
@pytest.mark.parametrize("command", [["train", "--config", "absent.yaml"], ["train"], ["quickstart"]])
def test_a_mistake_is_told_by_one_process_of_a_machine(
    command: list[str], rank: str, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in LAUNCHED:
        monkeypatch.setenv(name, rank if "RANK" in name else "2")
    assert main(command) == 2
    assert capsys.readouterr().err.count("error: ") == told


def test_the_quickstart_is_for_one_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in LAUNCHED:
        monkeypatch.setenv(name, "0" if "RANK" in name else "2")
    assert main(["quickstart"]) == 2
    assert capsys.readouterr().err == (
        "error: quickstart trains in one process; start it without torchrun; several processes are for `verigym train`\n"
    )


def test_the_command_line_is_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "verigym", "train", "--help"], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0
    assert "--config" in done.stdout
