"""Each exit code by a real command in a process of its own. That docs/cli.md has the table is in test_generated_pages.py."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import HANG_S, wait_for
from terminals import environment, verigym

from verigym.exit_codes import ExitCode

RIGHT = {"prompt": "2+2?", "answer": "4", "completion": r"\boxed{4}"}
BROKEN = '''
from verigym import BaseEnvironment, EnvironmentFailure, Options, Reference


class Broken(BaseEnvironment[Reference, Options]):
    """Its judge is never there."""

    name, version, reference_type = "broken", "1", Reference

    def judge(self, prompt, reference, completion):
        raise EnvironmentFailure("backend", "the judge is down")
'''
TRAINING = """model: {model}
output: run
sources: [{{environment: arithmetic, options: {{digits: 1}}}}]
steps: 100000
prompts_per_step: 2
group_size: 2
max_new_tokens: 4
workers: 0
eval_prompts: 2
eval_every: 0
device: cpu
loggers: []
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(verigym(*arguments), cwd=folder, env=environment(), capture_output=True, text=True, timeout=HANG_S)


def write(path: Path, *rows: dict[str, str]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def done(folder: Path) -> int:
    return run(folder, "envs", "math").returncode


def failed(folder: Path) -> int:
    write(folder / "rows.jsonl", RIGHT, {**RIGHT, "answer": r"\frac{"})
    found = run(folder, "grade", "rows.jsonl", "--env", "math", "--workers", "1")
    assert "1 bad row" in found.stderr
    return found.returncode


def misused(folder: Path) -> int:
    found = run(folder, "check", "mth")
    assert found.stderr.count("\n") == 1
    return found.returncode


def none_scored(folder: Path) -> int:
    (folder / "mine.py").write_text(BROKEN)
    write(folder / "rows.jsonl", {"prompt": "q", "completion": "c"})
    found = run(folder, "grade", "rows.jsonl", "--env", "mine:Broken", "--workers", "0")
    assert "no completion has a verdict" in found.stderr
    return found.returncode


def stopped(folder: Path, command: list[str], begun: Callable[[], bool], number: signal.Signals) -> int:
    process = subprocess.Popen(verigym(*command), cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        wait_for(begun, process)
        process.send_signal(number)
        _, error = process.communicate(timeout=HANG_S)
    finally:
        process.kill()
        process.wait()
    assert "the same command" in error and "Traceback" not in error, error
    return process.returncode


def interrupted(folder: Path) -> int:
    write(folder / "rows.jsonl", *({**RIGHT, "prompt": str(number)} for number in range(50_000)))
    out = folder / "out.jsonl"
    command = ["grade", "rows.jsonl", "--env", "math", "--out", "out.jsonl", "--workers", "1"]
    return stopped(folder, command, lambda: out.exists() and out.stat().st_size > 0, signal.SIGINT)


def terminated(folder: Path) -> int:
    from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer

    tokenizer = scratch_tokenizer(["12+34=?\n<think>2+4=6</think>\\boxed{46}"])
    model = scratch_qwen3(tokenizer, hidden_size=16, layers=1, heads=2, intermediate_size=16, seed=1)
    for part in (tokenizer, model):
        part.save_pretrained(folder / "model")
    (folder / "run.yaml").write_text(TRAINING.format(model=folder / "model"))
    log = folder / "run/metrics.jsonl"
    return stopped(folder, ["train", "--config", "run.yaml"], lambda: log.exists() and log.stat().st_size > 0, signal.SIGTERM)


COMMANDS: dict[ExitCode, Callable[[Path], int]] = {
    ExitCode.OK: done,
    ExitCode.FAILED: failed,
    ExitCode.USAGE: misused,
    ExitCode.NONE_SCORED: none_scored,
    ExitCode.INTERRUPTED: interrupted,
    ExitCode.TERMINATED: terminated,
}


def test_every_code_has_a_command() -> None:
    assert set(COMMANDS) == set(ExitCode)


@pytest.mark.slow
@pytest.mark.parametrize("code", ExitCode, ids=lambda code: code.name)
def test_a_command_ends_with_it(code: ExitCode, tmp_path: Path) -> None:
    assert COMMANDS[code](tmp_path) == code
