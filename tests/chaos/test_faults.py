"""Faults that no other test has: a full disk, a clock that jumps, files that are cut, processes that stand still."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from needs import lack
from patience import HANG_S
from processes import below, send
from warm_python import warm_python

from verigym.cli import main

RUNNER = Path(__file__).parent / "support/run_with_fault.py"
STEPS = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def configured(folder: Path, model: Path, **changed: Any) -> Path:
    """Write a run's settings and return their file."""
    folder.mkdir(exist_ok=True)
    fields = {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [{"environment": "arithmetic", "options": {"digits": 1}}],
        "steps": STEPS,
        "prompts_per_step": 2,
        "group_size": 4,
        "max_new_tokens": 8,
        "learning_rate": 1e-3,
        "kl_coef": 0.01,
        "checkpoint_every": 2,
        "eval_every": 0,
        "device": "cpu",
        "threads": 1,
        "workers": 1,
        "loggers": [],
    }
    path = folder / "run.json"
    path.write_text(json.dumps(fields | changed), encoding="utf-8")
    return path


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*warm_python(), *command], capture_output=True, text=True, timeout=HANG_S)


def end(output: Path) -> tuple[str, list[int]]:
    """Return the hash of the final weights, and the steps that are logged."""
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    weights = hashlib.sha256((output / "final/model.safetensors").read_bytes()).hexdigest()
    return weights, [row["step"] for row in rows if row["kind"] == "train"]


@pytest.fixture(scope="module")
def left_alone(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run without a fault."""
    folder = tmp_path_factory.mktemp("alone")
    done = run("-m", "verigym", "train", "--config", configured(folder, model))
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def undisturbed(left_alone: Path) -> tuple[str, list[int]]:
    return end(left_alone)


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 6])
def test_a_full_disk_ends_a_run_in_one_sentence_and_costs_no_step(
    model: Path, undisturbed: tuple[str, list[int]], tmp_path: Path, step: int
) -> None:
    config = configured(tmp_path, model)
    full = run(RUNNER, "full", str(step), config)
    assert full.returncode == 1
    *_, said = full.stderr.strip().splitlines()
    assert said.startswith("error: ") and "a file cannot be written: " in said and "make room" in said, full.stderr
    assert not (tmp_path / "out/final/model.safetensors").exists()
    again = run("-m", "verigym", "train", "--config", config)
    assert again.returncode == 0, again.stderr
    assert end(tmp_path / "out") == undisturbed


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$SIZE tmpfs "$DISK" || exit 99
"$PYTHON" -m verigym train --config "$CONFIG" 2>"$KEPT/said"
echo $? >"$KEPT/code"
df --output=avail -B1 "$DISK" | tail -1 >"$KEPT/room"
mount -o remount,size=1g "$DISK" || exit 99
"$PYTHON" -m verigym train --config "$CONFIG" && cp -r "$DISK/out" "$KEPT/out"
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full_costs_no_step(
    model: Path, left_alone: Path, undisturbed: tuple[str, list[int]], tmp_path: Path
) -> None:
    """A file system of its own, too small for the run; the same command goes on when there is room."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        lack("kernel", "no mount namespace can be made here")
    (tmp_path / "disk").mkdir()
    config = configured(tmp_path, model, output=str(tmp_path / "disk/out"))
    places = {"DISK": tmp_path / "disk", "KEPT": tmp_path, "CONFIG": config, "PYTHON": sys.executable}
    disk_use = sum(path.stat().st_size for path in left_alone.rglob("*") if path.is_file())
    variables = {**os.environ, **{name: str(place) for name, place in places.items()}, "SIZE": str(int(0.6 * disk_use))}
    done = subprocess.run(
        [*alone, "bash", "-c", ON_A_SMALL_DISK], env=variables, capture_output=True, text=True, timeout=HANG_S
    )
    if done.returncode == 99:
        lack("kernel", f"no file system can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "said").read_text()
    assert (tmp_path / "code").read_text() == "1\n", said
    assert said.strip().splitlines()[-1].startswith("error: ") and "No space left on device" in said, said
    assert end(tmp_path / "out") == undisturbed


@pytest.mark.slow
def test_a_clock_that_jumps_changes_nothing(model: Path, undisturbed: tuple[str, list[int]], tmp_path: Path) -> None:
    done = run(RUNNER, "clock", "2", configured(tmp_path, model))
    assert done.returncode == 0, done.stderr
    assert end(tmp_path / "out") == undisturbed


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_computed(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    config = configured(tmp_path / "run", model, output=str(tmp_path / "file/out"))
    assert main(["train", "--config", str(config)]) == 2
    assert "file/out" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.0, 0.99])
def test_weights_that_were_not_fetched_whole_are_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float
) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    for path in model.iterdir():
        (cut / path.name).write_bytes(path.read_bytes())
    weights = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(weights[: int(share * len(weights))])
    assert main(["train", "--config", str(configured(tmp_path / "run", cut, workers=0))]) == 2
    said = capsys.readouterr().err
    assert str(cut) in said and "error: " in said and "Traceback" not in said, said


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.parquet"])
def test_a_data_file_that_was_not_fetched_whole_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    import gzip

    import pyarrow
    import pyarrow.parquet

    rows = [{"prompt": f"{n}+1?", "answer": str(n + 1), "completion": f"\\boxed{{{n}}} {'x' * 50}"} for n in range(500)]
    path = tmp_path / name
    if name.endswith("gz"):
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    code = main(["grade", str(path), "--env", "math", "--out", str(tmp_path / "scores.jsonl"), "--workers", "0"])
    said = capsys.readouterr().err
    assert code == 2 and name in said and "error: " in said, said


STILL = """
import os, sys, threading, time
from verigym.sandbox import Limits, Program, open_sandbox
if __name__ == "__main__":
    box = open_sandbox(workers=1)
    limits = Limits(wall_s=12, cpu_s=12, memory_mb=256)
    box.run(Program(source="print(1)"), b"", limits)
    print("ready", flush=True)
    print(box.run(Program(source="import time; time.sleep(1.5); print(2)"), b"", limits).status.value, flush=True)
    box.close()
"""
GRADING = """
import sys
sys.path.insert(0, {support!r})
from still_env import Still
from verigym.envs.grading import Grader
if __name__ == "__main__":
    env = Still()
    with Grader(env, workers=1, timeout_s=12.0, retries=0) as grader:
        grader.start()
        print("ready", flush=True)
        print(grader.grade([(env.prompt("Wait."), "text")])[0].status.value, flush=True)
"""


def stopped_for(script: Path, seconds: float, whole: bool) -> str:
    """Run a script, stop it once it is ready, alone or with all its processes, and return what it prints when it goes on."""
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            processes = [process.pid, *below(process.pid)] if whole else [process.pid]
            send(signal.SIGSTOP, reversed(processes))
            time.sleep(seconds)
            for pid in processes:  # who waits goes on first, and looks at the clock before there is an answer
                send(signal.SIGCONT, [pid])
                time.sleep(0.2)
            return process.stdout.read().strip()
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("whole", [False, True])
def test_a_run_does_not_pay_for_the_time_that_its_supervisor_stands_still(tmp_path: Path, whole: bool) -> None:
    script = tmp_path / "still.py"
    script.write_text(STILL)
    assert stopped_for(script, 15.0, whole) == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_verdict_does_not_pay_for_the_time_that_the_grader_stands_still(tmp_path: Path, whole: bool) -> None:
    (tmp_path / "still_env.py").write_text(
        textwrap.dedent('''
            import time
            from verigym import BaseEnvironment, Options, Reference, Score

            class Nothing(Reference):
                """No fields."""

            class Still(BaseEnvironment[Nothing, Options]):
                name, version, reference_type = "still", "1", Nothing

                def judge(self, prompt, reference, completion):
                    time.sleep(1.5)
                    return Score.correct()

                def gold(self, prompt):
                    return "text"
            ''')
    )
    script = tmp_path / "grading.py"
    script.write_text(GRADING.format(support=str(tmp_path)))
    assert stopped_for(script, 15.0, whole) == "correct"
