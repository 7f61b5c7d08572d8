"""Keeps a server at the current weights: waits while it is unreachable, and pushes them again after a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.vllm.client import Client, RequestFailed, ServerStatus

logger = logging.getLogger("verigym.trainer")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


@dataclass(frozen=True)
class Weights:
    """The weights that a server should have."""

    version: str
    files: Sequence[Path]
    shared: bool
    shape: tuple[str | int, ...]


class Server:
    """One server. Threads whose request fails call `recover`."""

    def __init__(self, client: Client, wait_s: float) -> None:
        self.client = client
        self.wait_s = wait_s
        self.lock = threading.Lock()
        self.weights: Weights | None = None
        self.boot = ""
        self.max_model_len = 0

    @property
    def version(self) -> str:
        """Version of the weights that it should have."""
        assert self.weights is not None, "sync comes before sampling"
        return self.weights.version

    def push(self, weights: Weights) -> None:
        """Push these weights; wait while the server is unreachable."""
        with self.lock:
            self.weights = weights
            self._ensure_weights(weights, threading.Event())

    def recover(self, stop: threading.Event) -> None:
        """Return when the server answers and has the current weights, or when `stop` is set.

        Raises:
            UsageError: it stays unreachable for `wait_s`, or another run pushes weights to it.
        """
        with self.lock:
            assert self.weights is not None
            self._ensure_weights(self.weights, stop)

    def _ensure_weights(self, weights: Weights, stop: threading.Event) -> None:
        deadline: float | None = None
        pause_s = FIRST_PAUSE_S
        warned = False
        while not stop.is_set():
            try:
                status = self.client.status()
                if status.version != weights.version:
                    self._check(status, weights)
                    self.client.push(weights.version, weights.files, shared=weights.shared)
                self.boot = status.boot
                self.max_model_len = status.max_model_len
                if warned:
                    logger.warning("%s is back and has the current weights", self.client.url)
                return
            except RequestFailed as error:
                # Measured from the first failure: a single answer may take longer than `wait_s`.
                deadline = deadline or time.monotonic() + self.wait_s
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"{error}; waited {self.wait_s:g} s (vllm_wait_s). Start the server again; the run goes on from its "
                        "newest checkpoint"
                    ) from None
                if not warned:
                    logger.warning("%s; waiting for it for up to %g s", error, self.wait_s)
                    warned = True
                stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _check(self, status: ServerStatus, weights: Weights) -> None:
        url = self.client.url
        own = weights.version.rpartition("-")[0]
        foreign = status.version is not None and status.version.rpartition("-")[0] != own
        if foreign and status.boot == self.boot:
            raise UsageError(f"{url} got weights from another run meanwhile; give each run its own servers")
        if status.logprobs_mode != "processed_logprobs":
            raise UsageError(f"{url} gives {status.logprobs_mode}, not processed_logprobs; start it with verigym's serve")
        if status.shape != weights.shape:
            raise UsageError(
                f"{url} has a model of another shape: {list(status.shape)}, the policy is {list(weights.shape)} (type, "
                "vocabulary, hidden size, layers); start it with the run's model"
            )
