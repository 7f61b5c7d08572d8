"""What a person sees of a run, and how a person stops it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

PLAIN_EVERY = 25


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""What asks a run to stop: a person, a scheduler that takes the machine away, and one that warns of it (Slurm's --signal)."""


class Interrupted(Exception):
    """A run was asked to stop; what it has written holds everything up to here."""

    def __init__(self, message: str, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """Of the process, as shells say it: 130 after Ctrl-C, 143 after SIGTERM or SIGUSR1."""


BEFORE = "before the first step"


class StopRequest:
    """Within this context Ctrl-C, SIGTERM and SIGUSR1 ask to stop; a second Ctrl-C stops at once.

    Args:
        quiet: says nothing, as a process beside the main one.
        at_once: set while there is nothing to finish: a signal raises `Interrupted`, which says that it stopped then.
    """

    def __init__(self, quiet: bool = False, at_once: str | None = None) -> None:
        self.requested, self.at_once, self._quiet = False, at_once, quiet
        self.urgent = False
        """After SIGTERM: whoever sent it will soon kill, so what can be made again is dropped."""
        self.exit_code = 130
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def interrupted(self, message: str) -> Interrupted:
        """Return the exception that ends the run."""
        return Interrupted(message, self.exit_code)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        by_hand = number == signal.SIGINT
        self.urgent |= number == signal.SIGTERM
        if self.requested:
            if by_hand:
                raise KeyboardInterrupt
            return  # a scheduler may say it more than once
        self.requested = True
        self.exit_code = 130 if by_hand else 128 + signal.SIGTERM
        why = "" if by_hand else f"{signal.Signals(number).name}: "
        if self.at_once is not None:
            raise self.interrupted(f"{why}stopped {self.at_once}")
        if not self._quiet:
            what = "stopping as soon as a checkpoint is written" if self.urgent else "stopping after this step"
            print(f"\n{why}{what}; Ctrl-C {'again ' if by_hand else ''}stops at once", file=sys.stderr)


class Progress:
    """A rich bar on a terminal; elsewhere a plain line now and then."""

    def __init__(
        self,
        steps: int,
        done: int,
        quiet: bool = False,
        *,
        title: str = "GRPO",
        shown: Sequence[str] = ("reward", "accuracy"),
    ) -> None:
        self._shown = shown
        self._console = Console(stderr=True, quiet=quiet)
        self._steps, self._quiet = steps, quiet
        self._bar: RichProgress | None = None
        if self._console.is_terminal and not quiet:
            columns = (
                TextColumn(title),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = RichProgress(*columns, TextColumn("{task.description}"), console=self._console)
            self._task = self._bar.add_task("", total=steps, completed=done)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show a finished step."""
        text = " ".join(f"{name} {metrics[name]:.3f}" for name in self._shown if name in metrics)
        if metrics.get("unscored"):
            text += f" unscored {metrics['unscored']:.0f}"
        if self._bar:
            self._bar.update(self._task, completed=step, description=text)
        elif not self._quiet and (step % PLAIN_EVERY == 0 or step == self._steps):
            print(f"step {step}/{self._steps}  {text}  {metrics['step_s']:.2f} s", file=sys.stderr, flush=True)

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show an evaluation."""
        parts = [f"{name.removesuffix('/accuracy')} {value:.3f}" for name, value in metrics.items() if "/accuracy" in name]
        overall = f"{metrics['accuracy']:.3f}" if "accuracy" in metrics else "none scored"
        line = f"step {step}: held-out accuracy {overall}  ({', '.join(parts)})"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
