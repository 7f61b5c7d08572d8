"""Progress of a run on the console, and the signals that stop it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from verigym.envs.console import open_console
from verigym.envs.progress import duration, open_bar, rate

RECENT = 25
"""Steps whose means a progress bar shows."""
PLAIN_EVERY_S = 60.0
"""Seconds between plain lines."""


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Signals that ask a run to stop: Ctrl-C, a scheduler's end of the job, and a scheduler's earlier warning (Slurm --signal)."""


class Interrupted(Exception):
    """Raised when a run ends because a stop was requested; the run's files hold everything up to this point."""

    def __init__(self, message: str, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """Exit code of the process by the convention of shells: 130 after Ctrl-C, 143 after SIGTERM or SIGUSR1."""


BEFORE = "before the first step"


class _AtOnce(BaseException):
    """Raised by the signal handler to stop at once. It is not an Exception, because libraries wrap those in their own."""


class StopRequest:
    """Context in which Ctrl-C, SIGTERM and SIGUSR1 only request a stop, so that the present work can be finished.

    A second Ctrl-C stops at once.

    Args:
        quiet: if True, print nothing; for processes other than the main one.
        ends: text of the message about a stop, if the work has neither steps nor checkpoints.
        at_once: if given, the context begins with a preparation phase, in which there is no work to finish. In this phase,
            which lasts until `begin` is called, a signal ends the context at once with `Interrupted`. The text `at_once`, such
            as "before the first step", tells in the error message when the run was stopped. None for no such phase.
    """

    def __init__(self, quiet: bool = False, at_once: str | None = None, ends: str | None = None) -> None:
        self.requested, self.at_once, self._quiet, self._ends = False, at_once, quiet, ends
        self.urgent = False
        """Whether SIGTERM has come: the process will soon be killed, so work that can be repeated is dropped."""
        self.exit_code = 130
        self._why = ""
        self._previous: dict[signal.Signals, Any] = {}
        self._report = sys.unraisablehook

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in SIGNALS}
            self._report = sys.unraisablehook
            sys.unraisablehook = self._report_others
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        if self._previous:
            sys.unraisablehook = self._report
        # A library may have turned `_AtOnce` into an exception of its own.
        if error is not None and not isinstance(error, KeyboardInterrupt | Interrupted):
            self.refuse_to_go_on()

    def _report_others(self, lost: sys.UnraisableHookArgs) -> None:
        """Report exceptions that Python drops, but not an `_AtOnce` that came in a destructor: `begin` stops the run then."""
        if lost.exc_type is not _AtOnce:
            self._report(lost)

    def refuse_to_go_on(self) -> None:
        """Check that no signal has come in the preparation phase (see `at_once`); after `begin`, do nothing.

        Raises:
            Interrupted: a signal has come in the preparation phase.
        """
        if self.requested and self.at_once is not None:
            raise self.interrupted(f"{self._why}stopped {self.at_once}") from None

    def begin(self) -> None:
        """End the preparation phase (see `at_once`): from now on, a signal only requests a stop.

        Raises:
            Interrupted: a signal has come before this call.
        """
        self.refuse_to_go_on()
        self.at_once = None

    def interrupted(self, message: str) -> Interrupted:
        """Return the exception that ends the run with `message`."""
        return Interrupted(message, self.exit_code)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        by_hand = number == signal.SIGINT
        self.urgent |= number == signal.SIGTERM
        if self.requested:
            if by_hand:
                raise KeyboardInterrupt
            return  # a scheduler may send it more than once
        self.requested = True
        self.exit_code = 130 if by_hand else 128 + signal.SIGTERM
        self._why = "" if by_hand else f"{signal.Signals(number).name}: "
        if self.at_once is not None:
            raise _AtOnce
        if not self._quiet:
            usual = "stopping as soon as a checkpoint is written" if self.urgent else "stopping after this step"
            what = self._ends or usual
            print(f"\n{self._why}{what}; Ctrl-C {'again ' if by_hand else ''}stops at once", file=sys.stderr)


class Progress:
    """A progress bar on a terminal; elsewhere, a plain line a minute and one at the end. Metrics are means since the last line.

    Args:
        steps: number of all steps.
        done: number of steps done already.
        quiet: if True, print nothing.
        title: title of the run or the stage.
        shown: names of the metrics to show; the first of them is also shown for each source.
        unit: what is counted, such as steps or prompts.
    """

    def __init__(
        self,
        steps: int,
        done: int,
        quiet: bool = False,
        *,
        title: str = "GRPO",
        shown: Sequence[str] = ("reward", "accuracy"),
        unit: str = "step",
    ) -> None:
        self._shown, self._title, self._unit = shown, title, unit
        self._console = open_console(stderr=True, quiet=quiet)
        self._steps, self._quiet = steps, quiet
        self._first = self._printed = done
        self._done = done
        self._begun = self._printed_at = self._presented_at = time.monotonic()
        self._bar = None if quiet else open_bar(title, self._console, transient=False)
        if self._bar is not None:
            self._task = self._bar.add_task(f"{done}/{steps}", total=steps, completed=done)
        self._recent: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=RECENT if self._bar else None)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, line: str) -> None:
        """Print `line` unchanged."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def present(self, describe: Callable[[], str]) -> None:
        """Show what `describe` returns about the present step: on a terminal once a second, elsewhere in a line a minute.

        It may be called as often as one likes.
        """
        now = time.monotonic()
        if self._quiet or now - self._presented_at < (1.0 if self._bar is not None else PLAIN_EVERY_S):
            return
        self._presented_at = now
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._done}/{self._steps}, {describe()}")
        else:
            print(f"{self._title} {self._unit} {self._done + 1} of {self._steps}: {describe()}", file=sys.stderr, flush=True)

    def step(self, step: int, metrics: Mapping[str, float], weight: float = 1.0) -> None:
        """Show a finished step.

        Args:
            step: number of steps done.
            metrics: metrics of the steps since the last call.
            weight: weight of `metrics` in the means that are shown.
        """
        self._recent.append((weight, metrics))
        now = time.monotonic()
        self._done, self._presented_at = step, now
        finished, seconds = step - self._first, now - self._begun
        left = f", {duration(seconds / max(1, finished) * (self._steps - step))} left" if step < self._steps else ""
        if self._bar is not None:
            shown = f"{step}/{self._steps}, {rate(finished, seconds)}{left}  {self._means()}"
            self._bar.update(self._task, completed=step, description=shown)
            return
        if self._quiet or (now - self._printed_at < PLAIN_EVERY_S and step < self._steps):
            return
        since = self._printed + 1
        span = f"{self._unit}s {since} to {step}" if step > since else f"{self._unit} {step}"
        pace = f"{seconds / max(1, finished):.2f} s a {self._unit}"
        print(f"{self._title} {span} of {self._steps}: {self._means()}  {pace}{left}", file=sys.stderr, flush=True)
        self._printed, self._printed_at = step, now
        self._recent.clear()

    def _means(self) -> str:
        parts = []
        for name in self._shown:
            mean = self._mean(name)
            if mean is None:
                continue
            sources = sorted({key for _, metrics in self._recent for key in metrics if key.endswith(f"/{name}")})
            by_source = [f"{key.removesuffix(f'/{name}')} {self._mean(key):.3f}" for key in sources if name == self._shown[0]]
            parts.append(f"{name} {mean:.3f}" + (f" ({', '.join(by_source)})" if by_source else ""))
        unscored = sum(metrics.get("unscored", 0.0) for _, metrics in self._recent)
        return " ".join([*parts, *([f"unscored {unscored:.0f}"] if unscored else [])])

    def _mean(self, name: str) -> float | None:
        known = [(weight, metrics[name]) for weight, metrics in self._recent if name in metrics]
        total = sum(weight for weight, _ in known)
        return sum(weight * value for weight, value in known) / total if total else None

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics of an evaluation after `step` steps."""
        parts = [f"{name.removesuffix('/accuracy')} {value:.3f}" for name, value in metrics.items() if "/accuracy" in name]
        overall = f"{metrics['accuracy']:.3f}" if "accuracy" in metrics else "none scored"
        self.say(f"step {step}: held-out accuracy {overall}  ({', '.join(parts)})")
