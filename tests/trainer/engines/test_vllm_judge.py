"""The `judge` environment against the real vLLM server: its chat endpoint, its structured output, its counts of tokens."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import vllm_venv
from vllm_fixtures import require_vllm

from verigym.envs.grading import Grader
from verigym.envs.judge.environment import JudgeEnvironment
from verigym.envs.judge.prompts import INSTRUCTIONS, TEMPLATES
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer

QUESTION = "Which city is the capital of Australia?"
ANSWERS = [f"It is city number {number}." for number in range(12)]


def saved(folder: Path) -> tuple[Path, dict[str, float]]:
    """Write a model with random weights that reads a judge's requests whole; return it and what makes it come to an end.

    It has learnt nothing: it would write a reasoning without end, or nothing but spaces between two fields. So the mark that
    ends the one is made likely, the others unlikely. The grammar decides what may stand where, and the model on the verdict.
    """
    tokenizer = scratch_tokenizer([*INSTRUCTIONS.values(), *TEMPLATES.values(), QUESTION, *ANSWERS], 1024)
    scratch_qwen3(
        tokenizer, hidden_size=64, layers=2, heads=2, intermediate_size=96, max_positions=2048, seed=3
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    blank = [number for number in range(len(tokenizer)) if not tokenizer.decode([number]).strip()]
    bias = {str(number): -100.0 for number in blank} | {str(tokenizer.convert_tokens_to_ids('"')): 100.0}
    return folder, bias


@pytest.mark.slow
def test_vllm_judges_with_its_structured_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = require_vllm()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # counts of requests under way live there
    monkeypatch.setenv("JUDGE_KEY", "secret")
    model, bias = saved(tmp_path / "model")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = tmp_path / "server.log"
    options = ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048"]
    options += ["--served-model-name", "tiny", "--generation-config", "vllm"]
    began = time.monotonic()
    with log.open("ab") as file:
        server = subprocess.Popen(
            [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), *options],
            env={**vllm_venv.environment(), "VLLM_API_KEY": "secret"},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        while True:
            assert server.poll() is None and time.monotonic() < began + 400, log.read_text()[-4000:]
            try:
                if requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok:
                    break
            except requests.RequestException:
                time.sleep(0.5)
        print(f"vllm: up after {time.monotonic() - began:.0f} s")
        judged(f"http://127.0.0.1:{port}/v1", bias, monkeypatch)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)  # its engine is a process of its own
        server.wait()


def judged(url: str, bias: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge in each mode, and see that it is the schema that makes the replies readable."""
    settings: dict[str, Any] = {
        "base_url": url,
        "model": "tiny",
        "api_key_env": "JUDGE_KEY",
        "timeout_s": 60.0,
        "total_s": 120.0,
        "max_tokens": 64,
        "extra_body": {"logit_bias": bias},
    }
    env = JudgeEnvironment(structured="schema", **settings)
    env.check()
    prompt = env.prompt(QUESTION, answer="Canberra")
    start = time.monotonic()
    with Grader(env, workers=1, timeout_s=180.0, start_timeout_s=300.0) as grader:
        scores = grader.grade([(prompt, answer) for answer in ANSWERS])
        seconds = time.monotonic() - start
        assert {score.status for score in scores} <= {"correct", "incorrect"}, [score.reason for score in scores]
        assert all(score.components["requests"] == 1.0 for score in scores)
        assert all(100 < (score.components["tokens_in"] or 0) < 2048 for score in scores)
        assert all(4 < (score.components["tokens_out"] or 0) <= 64 for score in scores)
        again = grader.grade([(prompt, answer) for answer in ANSWERS])
        assert [score.reward for score in again] == [score.reward for score in scores]
    tokens = sum(score.components["tokens_in"] or 0 for score in scores) / len(scores)
    print(f"vllm: {len(scores)} verdicts in {seconds:.1f} s, {tokens:.0f} tokens read each")

    rubric = JudgeEnvironment(structured="schema", mode="rubric", rubric="Is it right?", **settings)
    grade = rubric.score(rubric.prompt(QUESTION), ANSWERS[0])
    assert grade.components["grade"] in range(1, 11), grade.reason

    pairs = JudgeEnvironment(structured="schema", mode="pairwise", **settings)
    with Grader(pairs, workers=0) as grader:
        group = [one.result() for one in grader.submit_group(pairs.prompt(QUESTION), [*ANSWERS[:3], ""])]
    assert [score.scored for score in group] == [True] * 4 and group[3].reward == 0.0
    assert sum(score.reward for score in group) == pytest.approx(2.0), "3 pairs and 3 walk-overs share 6 points of 3 opponents"
    assert sum(score.components["requests"] or 0 for score in group[:3]) == 6.0

    loose = JudgeEnvironment(structured="off", tries=2, **settings)
    unread = loose.score(loose.prompt(QUESTION, answer="Canberra"), ANSWERS[0])
    assert unread.reward is None and unread.error is not None and unread.error.kind == "protocol"

    monkeypatch.setenv("JUDGE_KEY", "wrong")
    refused = env.score(prompt, "another answer")
    assert refused.reward is None and "401" in refused.reason
