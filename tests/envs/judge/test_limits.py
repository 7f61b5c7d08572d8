"""Requests a minute and at once, over threads and processes; the contract; a real model behind the endpoint."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from chat_server import Step, compare_texts, quote, say, serving

from verigym.envs.conformance import check_env
from verigym.envs.judge import limits
from verigym.envs.judge.environment import JudgeEnvironment


def slow(handler: Any, request: Any) -> None:
    time.sleep(0.05)
    say(compare_texts)(handler, request)


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (3, 3)])
def test_so_many_at_once(concurrency: int, most: int) -> None:
    with serving(slow) as server:
        env = JudgeEnvironment(base_url=server.url, model="tiny", concurrency=concurrency)
        prompt = env.prompt("q", answer="a")
        with ThreadPoolExecutor(8) as pool:
            scores = list(pool.map(lambda n: env.score(prompt, f"{n}"), range(8)))
        assert all(score.reward == 0.0 for score in scores)
        assert 1 <= server.most <= most


def test_requests_are_spaced() -> None:
    with serving(say(compare_texts)) as server:
        env = JudgeEnvironment(base_url=server.url, model="tiny", requests_per_minute=600)
        start = time.monotonic()
        for n in range(4):
            assert env.score(env.prompt("q", answer="a"), f"{n}").reward == 0.0
        assert time.monotonic() - start >= 0.29  # three pauses of 0.1 s


def test_a_place_past_the_deadline_is_not_taken() -> None:
    with serving(say(compare_texts)) as server:
        options = {"requests_per_minute": 0.05, "total_s": 300.0, "timeout_s": 300.0}
        env = JudgeEnvironment(base_url=server.url, model="tiny", **options)
        assert env.score(env.prompt("q", answer="a"), "1").reward == 0.0
        late = env.score(env.prompt("q", answer="a"), "2")
        assert late.reward is None and late.error is not None and late.error.retryable
        assert "rate limit" in late.reason and "after 0 requests" in late.reason


def test_a_killed_process_frees_its_place() -> None:
    code = (
        "import time\n"
        "from verigym.envs.judge.limits import turn\n"
        "with turn('e', 1, None, time.monotonic() + 300): print('in', flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "in\n"
        with pytest.raises(limits.NoPlace), limits.turn("e", 1, None, time.monotonic() + 0.1):
            pass
    finally:
        other.kill()
        other.communicate()
    with limits.turn("e", 1, None, time.monotonic() + 300):
        pass


def test_a_folder_of_someone_else_is_not_used(tmp_path: Any) -> None:
    import os

    (tmp_path / f"verigym-judge-{os.getuid()}").symlink_to(tmp_path)
    with serving(say(compare_texts)) as server:
        env = JudgeEnvironment(base_url=server.url, model="tiny", tries=1)
        found = env.score(env.prompt("q", answer="a"), "a")
    assert found.reward is None and "not a folder of this user" in found.reason


def fair(request: Any) -> str:
    """Grade by whether the submission says anything but the question."""
    return '{"grade": 5}' if quote(request, "submission") != quote(request, "question") else '{"grade": 1}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reader"),
    [({}, compare_texts), ({"mode": "rubric"}, fair), ({"mode": "pairwise"}, lambda _: '{"better": "first"}')],
    ids=["equivalence", "rubric", "pairwise"],
)
def test_the_environment_keeps_the_contract(options: dict[str, Any], reader: Any) -> None:
    with serving(say(reader)) as server:
        check_env(JudgeEnvironment(base_url=server.url, model="tiny", concurrency=None, **options)).raise_if_failed()
        assert len(server.seen) > 20


def written_by(model: Any, tokenizer: Any) -> Step:
    """Reply with what a model writes, drawn until its end or 24 tokens."""
    import torch

    def step(handler: Any, request: Any) -> None:
        text = tokenizer.apply_chat_template(request["messages"], tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([tokenizer(text)["input_ids"][-256:]])
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
        written = out[0, ids.shape[1] :]
        say(tokenizer.decode(written, skip_special_tokens=True), (ids.shape[1], len(written)), "length")(handler, request)

    return step


def test_a_model_that_writes_garbage_gives_no_score(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with serving(written_by(tiny_model, tiny_tokenizer)) as server:
        env = JudgeEnvironment(base_url=server.url, model="tiny", tries=2, backoff_s=0.01)
        env.check()
        found = env.score(env.prompt("12+34=?", answer="46"), "\\boxed{46}")
        assert len(server.seen) == 2
    assert found.reward is None and found.error is not None
    assert found.error.kind == "protocol"
    assert "raise max_tokens" in found.reason
