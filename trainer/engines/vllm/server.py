"""One vLLM server: the weights that it has, and how it gets new ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.vllm.client import Client, RequestFailed, ServerStatus


@dataclass(frozen=True)
class Weights:
    """One version of the policy's weights, as files."""

    version: str
    """Unique name: the run's, and a number."""
    files: Sequence[Path]
    shared: bool
    """Whether the servers read the files themselves, in a folder that they share with the trainer."""
    shape: tuple[str | int, ...]
    """Model type, vocabulary, hidden size, layers."""
    step: int | None = None
    """Number of updates after which the policy had these weights; None if that is not known."""


@dataclass(frozen=True)
class Push:
    """Size and duration of one push of weights to a server."""

    bytes: int
    seconds: float


class Server:
    """One vLLM server and the weights that it has. Only one thread may call `update`; others may read the attributes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.weights: Weights | None = None
        """The weights that it is known to have."""
        self.boot = ""
        self.max_model_len = 0
        self.last_push: Push | None = None

    def update(self, weights: Weights, loading: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Load `weights` into the server if it does not have them already.

        Args:
            weights: the weights that it should have.
            loading: returns a context. It is entered after the files were sent and left after the server has loaded the
                weights.

        Raises:
            RequestFailed: the server does not answer, or refuses for the moment; another try may succeed.
            UsageError: the server does not fit this policy, or another run uses it.
        """
        status = self.client.status()
        if status.version != weights.version:
            self._check(status, weights)
            begun = time.perf_counter()
            try:
                size = sum(file.stat().st_size for file in weights.files)
                if not weights.shared:
                    self.client.send(weights.version, weights.files)
            except FileNotFoundError:  # newer weights have replaced them
                raise RequestFailed(
                    f"{self.client.url}: weights {weights.version} were replaced before they were sent"
                ) from None
            with loading():
                self.client.load(weights.version, weights.files, shared=weights.shared)
            self.last_push = Push(size, time.perf_counter() - begun)
        self.boot, self.max_model_len, self.weights = status.boot, status.max_model_len, weights

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
        if self.max_model_len and status.max_model_len < self.max_model_len:
            raise UsageError(
                f"{url} was started again with a --max-model-len of {status.max_model_len}; start it with "
                f"{self.max_model_len}, as before"
            )
