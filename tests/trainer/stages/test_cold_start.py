"""The supervised start: it learns the demonstrations, ends them, and does the same thing every time."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from verigym.envs import load
from verigym.trainer.engines.native.generate import generate
from verigym.trainer.logprobs.forward import completion_logprobs
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import scratch_qwen3
from verigym.trainer.monitoring.progress import Interrupted, StopRequest
from verigym.trainer.stages.examples import Example, to_pairs
from verigym.trainer.stages.quickstart import WARMUP_STEPS, cold_start

ENVIRONMENT: Any = load("arithmetic", digits=1)
STEPS = 45
WRITTEN = [ENVIRONMENT.demonstration("train", 0, index) for index in range(6)]
EXAMPLES = [Example(prompt.messages, text) for prompt, text in WRITTEN]


def start(tokenizer: Any, steps: int) -> tuple[Any, list[float]]:
    model = scratch_qwen3(tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=4)
    losses: list[float] = []

    def keep(step: int, loss: float) -> None:
        assert step == len(losses) + 1
        losses.append(loss)

    sizes: dict[str, Any] = {"steps": steps, "batch_size": 6, "peak_learning_rate": 1e-2}
    codec = Codec(tokenizer)
    cold_start(model, codec, to_pairs(EXAMPLES, codec), on_step=keep, **sizes)
    return model, losses


@pytest.fixture(scope="module")
def started(tiny_tokenizer: Any) -> tuple[Any, list[float]]:
    return start(tiny_tokenizer, STEPS)


def test_the_loss_falls(started: tuple[Any, list[float]], tiny_tokenizer: Any) -> None:
    model, losses = started
    assert len(losses) == STEPS > WARMUP_STEPS
    assert losses[0] == pytest.approx(torch.tensor(float(len(tiny_tokenizer))).log().item(), abs=0.3), "chance at first"
    assert losses[-1] < 0.5 * losses[0]
    assert not model.training


def test_the_loss_is_that_of_the_completion_tokens_alone(started: tuple[Any, list[float]], tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    fresh = scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=4)
    prompts = [codec.encode(prompt) for prompt, _ in WRITTEN]
    completions = [[*codec.encode_text(text), 1] for _, text in WRITTEN]
    logp, mask = completion_logprobs(fresh, prompts, completions, temperature=1.0, pad_id=0)
    assert started[1][0] == pytest.approx(-logp[mask].mean().item(), rel=1e-5)


def test_it_learns_to_end(started: tuple[Any, list[float]], tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer)
    prompts = [codec.encode(prompt) for prompt, _ in WRITTEN]
    arguments: dict[str, Any] = {"max_new_tokens": 60, "temperature": 0.0, "eos_ids": codec.eos_ids, "pad_id": 0}
    found = generate(started[0], prompts, [[(number,)] for number in range(len(prompts))], **arguments)
    assert all(done.finish_reason == "stop" for (done,) in found)


def test_it_does_the_same_every_time_and_leaves_the_random_state_alone(
    started: tuple[Any, list[float]], tiny_tokenizer: Any
) -> None:
    torch.manual_seed(77)
    before = torch.random.get_rng_state()
    _, losses = start(tiny_tokenizer, 5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert losses == started[1][:5]


@pytest.mark.slow
def test_stopped_it_goes_on_to_the_same_weights(
    started: tuple[Any, list[float]], tiny_tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, state, steps = Codec(tiny_tokenizer), tmp_path / "state.pt", []
    stops = {7: signal.SIGINT, 20: signal.SIGTERM}

    def on_step(step: int, loss: float) -> None:
        steps.append(step)
        if step in stops:
            signal.raise_signal(stops.pop(step))

    for code in (130, 143, 0):
        model = scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=4)
        with contextlib.ExitStack() as stack:
            if code:
                told = stack.enter_context(pytest.raises(Interrupted, match=f"stopped after step {min(stops)} of {STEPS}"))
            sizes: dict[str, Any] = {"steps": STEPS, "batch_size": 6, "peak_learning_rate": 1e-2}
            stop = stack.enter_context(StopRequest())
            cold_start(model, codec, to_pairs(EXAMPLES, codec), on_step=on_step, state=state, stop=stop, **sizes)
        assert not code or told.value.exit_code == code
    assert steps == [*range(1, STEPS + 1)]
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, started[0].state_dict()[name]), name
