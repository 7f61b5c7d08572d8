"""The numbers of threads: from size and cores, by a rule; kept by a resumed run, on any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from needs import needs
from patience import HANG_S

from verigym.trainer import threads
from verigym.trainer.checkpoints.run_record import record_start, record_threads, recorded_threads
from verigym.trainer.models.scratch import scratch_qwen3
from verigym.trainer.threads import Threads, own_threads, threads_for, use_threads

SCRIPT = Path(__file__).parent / "support/run_letters.py"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "usable_cores", lambda: 8)
    monkeypatch.setattr(threads, "_offered", 8)
    monkeypatch.setattr(threads, "unbounded", lambda: None)  # the tests import torch first
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (400_000, (1, 1)),
        (2_400_000, (1, 2)),
        (15_000_000, (1, 8)),
        (52_000_000, (2, 8)),
        (135_000_000, (5, 8)),
        (10**9, (8, 8)),
    ],
)
def test_they_grow_with_the_model_up_to_the_cores(parameters: int, expected: tuple[int, int]) -> None:
    assert threads_for(parameters, None) == expected


def test_a_quota_a_setting_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads_for(10**9, 3) == (3, 3)
    assert threads_for(52_000_000, None, alike=True) == (8, 8)
    assert threads_for(1000, None, on_cpu=False) == (8, 8)
    monkeypatch.setattr(threads, "usable_cores", lambda: 1)
    assert threads_for(10**9, None) == (1, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")  # which torch has read
    assert threads_for(1000, None) == (8, 8)


def test_the_trainer_bounds_the_waits_before_it_imports_torch() -> None:
    code = "import os, sys, verigym.trainer; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    assert subprocess.check_output([sys.executable, "-c", code], env=variables, text=True) == "3000 False\n"


def test_in_words() -> None:
    assert [str(Threads(*both)) for both in ((1, 1), (2, 2), (1, 2))] == [
        "1 thread",
        "2 threads",
        "2 threads (1 while sampling)",
    ]


def test_sampling_and_updates_have_their_own_numbers() -> None:
    with Threads(1, 2).while_sampling():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_a_run_keeps_its_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Linear(2000, 1000)
    assert use_threads(model, None, tmp_path) == (1, 2)
    assert recorded_threads(tmp_path, "policy") is None and not caplog.messages
    record_threads(tmp_path, "policy", (2, 4))
    record_start(tmp_path, {}, {})  # which leaves them
    assert use_threads(model, None, tmp_path) == (2, 4)
    assert torch.get_num_threads() == 4
    assert caplog.messages == [
        "this run began with 4 threads (2 while sampling) and goes on with them; a new run would take 2 threads "
        "(1 while sampling) here"
    ]
    assert use_threads(model, None, tmp_path, label="another") == (1, 2)


def test_the_number_of_before_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_offered", None)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    torch.set_num_threads(4)
    with own_threads():
        assert torch.get_num_threads() == 2
        with own_threads():
            use_threads(torch.nn.Linear(3, 3), None)
            assert torch.get_num_threads() == 1
            assert threads_for(10**9, None) == (2, 2)
    assert torch.get_num_threads() == 4


def test_what_torch_was_imported_before_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(threads, "unbounded", lambda: "set it")
    use_threads(torch.nn.Linear(3, 3), 1)
    assert not caplog.messages  # nobody to wait for
    use_threads(torch.nn.Linear(3, 3), 2)
    assert caplog.messages == ["set it"]


@pytest.mark.slow
@needs("cores")
def test_a_run_that_goes_on_with_fewer_cores_ends_with_the_same_bytes(tmp_path: Path, tiny_tokenizer: Any) -> None:
    model = tmp_path / "model"
    scratch_qwen3(tiny_tokenizer, hidden_size=256, layers=3, heads=4, intermediate_size=640).save_pretrained(model)
    tiny_tokenizer.save_pretrained(model)

    def train(name: str, steps: int, cores: int) -> str:
        config = {
            "model": str(model),
            "output": str(tmp_path / name),
            "sources": [{"environment": "letters"}],
            "steps": steps,
            "prompts_per_step": 4,
            "group_size": 4,
            "max_new_tokens": 8,
            "checkpoint_every": 1,
            "eval_every": 0,
            "learning_rate": 1e-3,
            "workers": 1,
            "device": "cpu",
            "loggers": [],
        }
        (tmp_path / "run.json").write_text(json.dumps(config))
        some = sorted(os.sched_getaffinity(0))[:cores]
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(tmp_path / "run.json")],
            env={name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            preexec_fn=lambda: os.sched_setaffinity(0, some),
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    train("whole", 3, 2)
    assert json.loads((tmp_path / "whole/run.json").read_text())["threads"] == {"policy": [1, 2]}
    train("resumed", 1, 2)
    assert "this run began with 2 threads (1 while sampling)" in train("resumed", 3, 1)
    folders = (tmp_path / "whole/final", tmp_path / "resumed/final", model)
    whole, resumed, untrained = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert whole == resumed != untrained
