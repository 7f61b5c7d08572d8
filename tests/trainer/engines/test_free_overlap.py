"""`overlap: free`: servers sample without a pause and take new weights in between; stale groups are dropped. Over real HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from named_policies import check_named_policies
from patience import HANG_S
from runs import LETTERS, rows, settings
from small_server import SmallServer, small_server

from verigym.envs.contract.errors import UsageError
from verigym.trainer.batches.builder import Batch
from verigym.trainer.batches.stream import Position, Stream
from verigym.trainer.checkpoints import store
from verigym.trainer.config.run import build_config
from verigym.trainer.engines.base import Generated
from verigym.trainer.loop import Run, train
from verigym.trainer.rollout.collect import Dropped, Group
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.tasks.mixture import build_source

STEPS = 4


def free(model: Path, output: Path, *servers: SmallServer, **more: Any) -> dict[str, Any]:
    chosen = {
        "engine": "vllm-server",
        "vllm_urls": [server.url for server in servers],
        "vllm_requests": 4,
        "vllm_wait_s": HANG_S,
        "overlap": "free",
        "steps": STEPS,
        "threads": 1,
        "samples_per_step": 16,
        "max_prompt_tokens": 32,
    }
    return settings(model, output, **{**chosen, **more})


def trained(output: Path) -> dict[int, set[str]]:
    """Return the prompts that each step was trained on."""
    lines = [json.loads(line) for line in (output / "samples.jsonl").read_text().splitlines()]
    steps = sorted({line["step"] for line in lines})
    return {step: {line["prompt"] for line in lines if line["step"] == step} for step in steps}


@pytest.mark.slow
def test_completions_come_from_the_weights_that_they_name(
    letters_model: Path, policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trained completion has the log-probabilities of the policy after the number of updates that it says."""
    ages = check_named_policies(monkeypatch, max_staleness=2)
    model = loaded(letters_model)
    with small_server(model) as one, small_server(model) as other:
        train(build_config(free(letters_model, tmp_path / "out", one, other, eval_every=2), "test"), LETTERS)
        assert one.receiver.version == other.receiver.version, "evaluations wait until both have the newest weights"
    found = [row for row in rows(tmp_path / "out") if row["kind"] == "train"]
    assert [row["step"] for row in found] == list(range(1, STEPS + 1))
    assert len(ages) >= 16 * STEPS - 4 * sum(row["stale_groups"] for row in found) and max(ages) > 0
    assert max(row["staleness_max"] for row in found) <= 2
    assert [row["step"] for row in rows(tmp_path / "out") if row["kind"] == "eval"] == [0, 2, 4]
    assert not any(thread.name.startswith(("verigym-stream", "verigym-server")) for thread in threading.enumerate())


def loaded(folder: Path) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.mark.slow
def test_stale_groups_are_dropped_and_replaced(letters_model: Path, tmp_path: Path) -> None:
    """One server hangs in loading, and the other must wait for it: what it samples becomes stale."""
    model = loaded(letters_model)
    with small_server(model) as one, small_server(model) as other:
        servers = (one, other)

        async def hang() -> None:
            if all(server.receiver.version is not None for server in servers) or len(started) > 1:
                end = time.monotonic() + HANG_S
                while one.asked + other.asked < 6 * 16:
                    assert time.monotonic() < end, "nothing was sampled meanwhile"
                    await asyncio.sleep(0.01)
                return
            started.append(1)

        started: list[int] = []
        for server in servers:
            server.engine.before_load = hang
        train(build_config(free(letters_model, tmp_path / "out", *servers, max_staleness=1, steps=4), "test"), LETTERS)
    found = rows(tmp_path / "out")
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert sum(row["stale_groups"] for row in found) >= 4, "a whole batch at least"
    assert all(row["staleness_max"] <= 1 and row["completions"] == 16 for row in found)


@pytest.mark.slow
def test_a_server_dies_and_comes_back(letters_model: Path, tmp_path: Path) -> None:
    model = loaded(letters_model)
    with small_server(model) as other:
        one = SmallServer(model)
        one.open()
        one.tricks.extend([None] * 20 + ["die"])
        config = build_config(free(letters_model, tmp_path / "out", one, other, vllm_wait_s=0.5), "test")

        def revive() -> None:
            one.restart()
            one.open()

        timer = threading.Thread(target=lambda: (died.wait(HANG_S), revive()))
        died = threading.Event()
        close = one.close

        def closed() -> None:
            close()
            died.set()

        one.close = closed  # type: ignore[method-assign]
        timer.start()
        try:
            train(config, LETTERS)
        finally:
            timer.join()
            close()
    found = rows(tmp_path / "out")
    assert [row["step"] for row in found] == list(range(1, STEPS + 1))
    assert all(row["completions"] == 16 for row in found)


class Stop:
    """Asks to stop after a step."""

    requested, urgent = False, False

    def begin(self) -> None: ...

    def interrupted(self, what: str) -> KeyboardInterrupt:
        return KeyboardInterrupt(what)


@pytest.fixture(scope="module")
def whole(letters_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, set[str]]:
    """The prompts of each step of a run that was left alone."""
    folder, model = tmp_path_factory.mktemp("whole"), loaded(letters_model)
    with small_server(model) as one, small_server(model) as other:
        train(build_config(free(letters_model, folder, one, other, max_staleness=9), "test"), LETTERS)
    return trained(folder)


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.slow
def test_a_stopped_run_goes_on_with_the_prompts_that_come_next(
    urgent: bool, whole: dict[int, set[str]], letters_model: Path, tmp_path: Path
) -> None:
    model = loaded(letters_model)
    with small_server(model) as one, small_server(model) as other:
        config = build_config(free(letters_model, tmp_path / "parts", one, other, max_staleness=9), "test")
        sources = [build_source(source, config.seed, 0, LETTERS) for source in config.sources]
        stop = Stop()
        store.prepare(config.output)
        with open_graders(sources, config) as graders, pytest.raises(KeyboardInterrupt, match="after step 2"):
            work = Run(config, sources, graders)
            update = work.learner.update

            def updated(step: int, groups: Sequence[Any]) -> Any:
                stop.requested = step == 1
                stop.urgent = stop.requested and urgent
                return update(step, groups)

            work.learner.update = updated  # type: ignore[method-assign]
            try:
                work.run(stop)  # type: ignore[arg-type]
            finally:
                work.engine.close()
        train(config, LETTERS)
    assert trained(tmp_path / "parts") == whole, "none is left out, none comes twice"


def group(*steps: int) -> Group:
    return Group("a", None, (), tuple(Generated((1,), (0.0,), "stop", policy_step=step) for step in steps), (), ())  # type: ignore[arg-type]


def test_the_stream_keeps_its_bounds() -> None:
    sampled: list[int] = []
    ready = threading.Event()

    def sample(number: int, give_up: Any) -> Batch:
        sampled.append(number)
        if len(sampled) == 3:
            ready.set()
        return Batch([group(number, number + 1), group(number)], [], {"number": number})

    stream = Stream(2, Position(5, {}, {}), wanted=4)
    stream.start(sample, lambda: ({"a": sampled[-1]}, {"state": sampled[-1]}))
    first = stream.take(6, 1, lambda: False)
    assert first.metrics == {"number": 5, "stale_groups": 0, "staleness": 1, "staleness_max": 1}
    assert stream.position == Position(6, {"a": 5}, {"state": 5}), "not where the sampling is, but what was taken"
    ready.wait(HANG_S)
    assert stream.take(8, 1, lambda: False).metrics["stale_groups"] == 2, "batch 6 is too old, batch 7 is not"
    assert stream.take(8, 1, lambda: False).metrics["staleness_max"] == 0
    assert stream.take(8, 1, lambda: False).metrics == {"number": 9, "stale_groups": 0, "staleness": -1, "staleness_max": -1}
    assert sampled == [5, 6, 7, 8, 9], "one more for the one that was dropped, and no other"
    with pytest.raises(Dropped):
        stream.take(8, 1, lambda: True)
    stream.abandon()


def test_what_sampling_raises_ends_the_run() -> None:
    def sample(number: int, give_up: Any) -> Batch:
        raise UsageError("the servers are gone")

    stream = Stream(1, Position(0, {}, {}), wanted=2)
    stream.start(sample, lambda: ({}, {}))
    with pytest.raises(UsageError, match="the servers are gone"):
        stream.take(0, 1, lambda: False)
    stream.abandon()


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"engine": "native"}, "needs an engine that takes new weights while it samples; set engine to vllm-server"),
        ({"overlap": "one_step", "max_staleness": 3}, "max_staleness bounds what is sampled ahead; set overlap to free"),
        ({"replay_share": 0.5}, "replay_share trains on groups of many steps ago"),
        ({"loss": "reinforce"}, "overlap trains on groups that an earlier policy sampled"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], match: str, tmp_path: Path) -> None:
    chosen = {"engine": "vllm-server", "vllm_urls": ["http://127.0.0.1:1"], "overlap": "free", **fields}
    if chosen["engine"] == "native":
        del chosen["vllm_urls"]
    with pytest.raises(UsageError, match=match):
        build_config(settings(tmp_path, tmp_path / "out", **chosen), "test")
