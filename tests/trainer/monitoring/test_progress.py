"""What a person sees of a run, and how a person stops it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import pytest

from verigym.envs.progress import duration
from verigym.trainer.monitoring.progress import PLAIN_EVERY_S, Interrupted, Progress, StopRequest


@pytest.fixture(params=["plain", "terminal"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
    return bool(request.param == "terminal")


def test_the_first_ctrl_c_asks_and_the_second_stops(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        assert "stopping after this step" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_scheduler_may_ask_more_than_once(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert stop.requested and stop.interrupted("stopped after step 3").exit_code == 143
        what = "stopping as soon as a checkpoint is written" if number == signal.SIGTERM else "stopping after this step"
        assert capsys.readouterr().err == f"\n{number.name}: {what}; Ctrl-C stops at once\n"
        assert stop.urgent is (number == signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_before_there_is_anything_to_finish_a_signal_stops_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    told = ("" if number == signal.SIGINT else f"{number.name}: ") + "stopped before the first step"
    with pytest.raises(Interrupted, match=f"^{told}$") as found, StopRequest(at_once="before the first step"):
        os.kill(os.getpid(), number)
        raise AssertionError("not reached")
    assert found.value.exit_code == (130 if number == signal.SIGINT else 143)
    assert signal.getsignal(number) is before


def test_a_library_that_makes_something_else_of_the_signal_hides_nothing() -> None:
    with pytest.raises(Interrupted, match="SIGTERM: stopped before"), StopRequest(at_once="before the first step"):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException as error:
            raise ImportError("numpy is broken") from error
    with pytest.raises(Interrupted, match="SIGTERM: stopped before"), StopRequest(at_once="before the first step") as stop:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            pass
        stop.begin()
    with pytest.raises(ImportError, match="of its own"), StopRequest(at_once="before the first step"):
        raise ImportError("of its own")


def test_a_signal_in_a_destructor_is_kept_until_the_run_begins(capsys: pytest.CaptureFixture[str]) -> None:
    class Held:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)  # Python drops what is raised here, and reports it with a traceback

    before, told = sys.unraisablehook, []
    with pytest.raises(Interrupted, match="SIGTERM: stopped before"), StopRequest(at_once="before the first step") as stop:
        Held()
        told.append("went on")
        stop.begin()
    assert told == ["went on"] and sys.unraisablehook is before
    assert "Traceback" not in capsys.readouterr().err


def test_the_handler_is_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="in between"), StopRequest():
        raise ValueError("in between")
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with StopRequest() as stop:
            seen.append(signal.getsignal(signal.SIGINT))
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, False]


def run(steps: int, metrics: dict[str, float], **settings: Any) -> None:
    with Progress(steps, 0, **settings) as progress:
        for step in range(1, steps + 1):
            progress.step(step, metrics)
        progress.evaluated(steps, {"accuracy": 0.625, "a/accuracy": 0.5, "b [/x] [red]/accuracy": 0.75, "a/unscored": 0})


def test_steps_and_evaluations_are_shown(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    run(27, {"reward": 0.5, "accuracy": 0.25, "unscored": 3.0})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "reward 0.500 accuracy 0.250 unscored" in captured.err
    assert "held-out accuracy 0.625  (a 0.500, b [/x] [red] 0.750)" in captured.err
    if not terminal:
        (line,) = [line for line in captured.err.splitlines() if "reward" in line]
        assert line.startswith("GRPO steps 1 to 27 of 27: reward 0.500 accuracy 0.250 unscored 81  ")
        assert "\x1b" not in captured.err
    else:
        assert "27/27" in captured.err


@pytest.mark.parametrize("terminal", ["plain"], indirect=True)
def test_a_line_has_the_means_since_the_last_one(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("verigym.trainer.monitoring.progress.time.monotonic", lambda: now[0])
    with Progress(60, 10) as progress:
        for step in range(11, 61):
            late = step > 35
            now[0] = PLAIN_EVERY_S * (step - 10) / 25
            # One step of 24 completions counts three times as much as one of 8.
            progress.step(
                step, {"reward": 1.0 if late and step % 2 else 0.0, "a/reward": 0.25, "unscored": 1.0}, 8 + 16 * (step % 2)
            )
    first, last = capsys.readouterr().err.splitlines()
    assert first == "GRPO steps 11 to 35 of 60: reward 0.000 (a 0.250) unscored 25  2.40 s a step, 60 s left"
    assert last == "GRPO steps 36 to 60 of 60: reward 0.735 (a 0.250) unscored 25  2.40 s a step"


@pytest.mark.parametrize("terminal", ["plain"], indirect=True)
def test_long_steps_get_a_line_each_minute(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 40))
    monkeypatch.setattr("verigym.trainer.monitoring.progress.time.monotonic", lambda: float(next(now)))
    run(6, {"accuracy": 0.5}, title="eval mine", shown=("accuracy",), unit="prompt")
    lines = [line for line in capsys.readouterr().err.splitlines() if "prompt" in line]
    assert lines[0] == "eval mine prompts 1 to 2 of 6: accuracy 0.500  40.00 s a prompt, 3 min left"
    assert [line.partition(" of ")[0] for line in lines[1:]] == ["eval mine prompts 3 to 4", "eval mine prompts 5 to 6"]


@pytest.mark.parametrize(
    ("seconds", "told"), [(4.4, "4 s"), (99, "99 s"), (750, "12 min"), (5999, "1 h 40 min"), (11100, "3 h 05 min")]
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_a_step_and_an_evaluation_without_any_verdict(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, 0) as progress:
        progress.step(1, {"unscored": 8.0})
        progress.evaluated(1, {"a/unscored": 8.0})
    text = capsys.readouterr().err
    assert "unscored 8" in text
    assert "none scored" in text
