"""deploy/: scripts for Slurm pass shellcheck and train under a stand-in for srun; files for Kubernetes fit its schemas."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from patience import HANG_S, wait_for

from verigym.exit_codes import ExitCode

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
SCRIPTS = sorted((DEPLOY / "slurm").iterdir())
OBJECTS = [
    (path.name, found) for path in sorted((DEPLOY / "kubernetes").iterdir()) for found in yaml.safe_load_all(path.read_text())
]
BIN = Path(sys.executable).parent

SRUN = f"""#!{sys.executable}
import os, signal, subprocess, sys
# Starts the tasks as Slurm does, forwards SIGUSR1 to them, and ends with the largest of their codes.
command = sys.argv[1:]
while command[0].startswith("--"):
    command.pop(0)
count = int(os.environ["SLURM_NTASKS"])
tasks = [
    subprocess.Popen(command, env={{**os.environ, "SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)}})
    for number in range(count)
]
signal.signal(signal.SIGUSR1, lambda *_: [task.send_signal(signal.SIGUSR1) for task in tasks])
sys.exit(max(task.wait() % 256 for task in tasks))
"""
SCONTROL = """#!/bin/sh
case $1 in
  show) echo 127.0.0.1 ;;
  requeue) echo "$2" >> requeued ;;
esac
"""


def test_there_are_scripts() -> None:
    assert [path.name for path in SCRIPTS] == ["train.sbatch", "train_with_servers.sbatch"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_passes_shellcheck(path: Path) -> None:
    done = subprocess.run([BIN / "shellcheck", "--severity=style", path], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_called_wrongly_says_how(path: Path) -> None:
    done = subprocess.run(["bash", path], capture_output=True, text=True, timeout=HANG_S, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 2 and "usage:" in done.stderr


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_queues_itself_again_for_the_code_of_a_stop(path: Path) -> None:
    text = path.read_text()
    [code] = set(re.findall(r'"\$status" -eq (\d+)', text))
    assert int(code) == ExitCode.TERMINATED
    assert "#SBATCH --signal=B:USR1@" in text and "#SBATCH --requeue" in text


@pytest.mark.parametrize(("file", "found"), OBJECTS, ids=[f"{file}-{found['kind']}" for file, found in OBJECTS])
def test_an_object_fits_the_schema(file: str, found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, "1.31", strict=True)
    kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)


def one(kind: str, file: str = "serve.yaml") -> dict[str, Any]:
    [found] = [found for name, found in OBJECTS if name == file and found["kind"] == kind]
    return found


def test_the_service_that_is_deployed_starts_with_its_settings(tmp_path: Path) -> None:
    from verigym.serve.settings import ServiceSettings

    settings = yaml.safe_load(one("ConfigMap")["data"]["serve.yaml"])
    checked = ServiceSettings.model_validate(settings)
    pod = one("Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > checked.limits.drain_s + 10
    [container] = pod["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [checked.port]
    assert [port["port"] for port in one("Service")["spec"]["ports"]] == [checked.port]
    assert container["args"] == ["--config", f"{container['volumeMounts'][0]['mountPath']}/serve.yaml"]
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in dockerfile
    probes = {container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert probes == {"/readyz", "/healthz"}


def test_the_pods_of_a_run_have_what_torchrun_would_give_them() -> None:
    from verigym.trainer.distributed.torchrun import LAUNCHED

    job = one("Job", "train.yaml")
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert set(given) == set(LAUNCHED)
    assert int(given["WORLD_SIZE"] or 0) == job["spec"]["completions"] == job["spec"]["parallelism"]
    name = job["metadata"]["name"]
    assert given["MASTER_ADDR"] == f"{name}-0.{one('Service', 'train.yaml')['metadata']['name']}"
    assert pod["subdomain"] == one("Service", "train.yaml")["metadata"]["name"]
    [rule] = [rule for rule in job["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
    assert rule["onExitCodes"]["values"] == [ExitCode.USAGE]
    assert container["command"][:2] == ["verigym", "train"]


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a job's batch shell, with stand-ins for Slurm's programs."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    yield {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "here",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "VERIGYM": str(BIN / "verigym"),
        "OMP_NUM_THREADS": "1",
    }


def steps(output: Path) -> list[int]:
    """Return the training steps in metrics.jsonl."""
    path = output / "metrics.jsonl"
    rows = (
        [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"] if path.exists() else []
    )
    return [row["step"] for row in rows if row["kind"] == "train"]


@pytest.mark.slow
def test_a_job_that_runs_out_of_time_is_queued_again_and_goes_on(
    tmp_path: Path, slurm: dict[str, str], tiny_tokenizer: Any, tiny_model: Any
) -> None:
    tiny_model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    fields = {
        "model": str(tmp_path / "model"),
        "output": str(tmp_path / "out"),
        "sources": [{"environment": "arithmetic"}],
        "steps": 100_000,
        "prompts_per_step": 4,
        "group_size": 2,
        "max_new_tokens": 8,
        "eval_every": 0,
        "checkpoint_every": 100_000,
        "device": "cpu",
        "threads": 1,
        "workers": 1,
        "loggers": [],
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(fields))
    command = ["bash", str(DEPLOY / "slurm/train.sbatch"), "--config", "run.yaml"]
    with (tmp_path / "log").open("w") as log:
        job = subprocess.Popen(command, cwd=tmp_path, env=slurm, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(lambda: len(steps(tmp_path / "out")) >= 2, job)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(HANG_S) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    assert (tmp_path / "requeued").read_text().split() == [slurm["SLURM_JOB_ID"]]
    done = steps(tmp_path / "out")[-1]
    assert done < 100_000
    again = [*command, f"steps={done + 2}"]
    finished = subprocess.run(again, cwd=tmp_path, env=slurm, capture_output=True, text=True, timeout=HANG_S)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert steps(tmp_path / "out") == list(range(1, done + 3))
    assert (tmp_path / "requeued").read_text().split() == [slurm["SLURM_JOB_ID"]]
