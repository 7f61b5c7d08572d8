"""Engine over vLLM servers in other processes or on other machines: pushes weights, requests completions over HTTP.

A restarted server has the weights it was started with, and refuses to sample from those. The engine pushes the current weights
again and repeats the lost requests. A completion counts once, when its answer has arrived.
"""

from __future__ import annotations

import os
import queue
import secrets
import tempfile
import threading
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Arrivals, Generated, OnFinished, Request, generate_by_play
from verigym.trainer.engines.sampling import sampling_parameters
from verigym.trainer.engines.vllm.client import Client
from verigym.trainer.engines.vllm.request_queue import Homes, OpenRequest, RequestQueue, ServerAnswer
from verigym.trainer.engines.vllm.server import Server, Weights
from verigym.trainer.engines.weights import DTYPES, write_weights
from verigym.trainer.models.codec import Codec

ARRIVALS_S = 0.02
"""Longest wait for an answer before replies of sessions are looked for."""


class VllmServerEngine:
    """Samples on one or more servers."""

    def __init__(
        self,
        model: Any,
        codec: Codec,
        *,
        urls: Sequence[str],
        api_key: str | None,
        dtype: str,
        weights_dir: Path | None,
        requests: int,
        timeout_s: float,
        wait_s: float,
        retries: int,
    ) -> None:
        """Prepare the clients; the servers are contacted at the first `sync`.

        Args:
            model: the policy.
            codec: its tokenizer.
            urls: addresses of the servers.
            api_key: their API key.
            dtype: dtype of the weights that are sent, a key of DTYPES.
            weights_dir: folder that all servers see; None to send weights over HTTP.
            requests: concurrent requests per server.
            timeout_s: most seconds for one answer.
            wait_s: most seconds that a server may be unreachable.
            retries: tries per completion.
        """
        self.model, self.codec = model, codec
        self.dtype = dtype
        self.weights_dir = weights_dir
        self.requests, self.retries = requests, retries
        self.run = secrets.token_hex(4)
        self.pushes = 0
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        config = model.config
        limits: dict[str, Any] = {"timeout_s": timeout_s, "vocab_size": config.vocab_size}
        self.servers = [Server(Client(url, api_key=api_key, **limits), wait_s) for url in urls]
        self.homes = Homes(len(self.servers))
        self.shape = (config.model_type, config.vocab_size, config.hidden_size, config.num_hidden_layers)

    @classmethod
    def from_config(cls, config: TrainConfig, model: Any, codec: Codec) -> Self:
        """Make the engine of a run; see `build_engine`."""
        return cls(
            model,
            codec,
            urls=config.vllm_urls,
            api_key=os.environ.get(config.vllm_api_key_env),
            dtype=config.vllm_dtype or config.dtype,
            weights_dir=config.vllm_weights_dir,
            requests=config.vllm_requests,
            timeout_s=config.vllm_timeout_s,
            wait_s=config.vllm_wait_s,
            retries=config.vllm_retries,
        )

    @property
    def positions(self) -> int:
        """See `Engine.positions`."""
        return min(server.max_model_len for server in self.servers)

    def sync(self) -> None:
        """Push the policy's weights to every server and wait until each has loaded them.

        Raises:
            UsageError: a server stays unreachable, or does not fit this policy.
        """
        self.pushes += 1
        old, self.folder = self.folder, self._new_folder()
        try:
            files = write_weights(self.model, Path(self.folder.name, "weights"), DTYPES[self.dtype])
            for server in self.servers:
                server.push(Weights(f"{self.run}-{self.pushes}", files, self.weights_dir is not None, self.shape))
        finally:
            if old:
                old.cleanup()

    def _new_folder(self) -> tempfile.TemporaryDirectory[str]:
        try:
            folder = tempfile.TemporaryDirectory(prefix="verigym-", dir=self.weights_dir)
            if self.weights_dir is not None:
                os.chmod(folder.name, 0o755)  # the servers may run under other accounts
            return folder
        except OSError as error:
            raise UsageError(f"vllm_weights_dir: no folder can be made in {self.weights_dir}: {error.strerror}") from None

    def rest(self) -> None:
        """Do nothing: the servers' memory is their own."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions, one request each; see `Engine.generate`.

        Raises:
            UsageError: a server stays unreachable, keeps failing, or refuses a request.
        """
        return generate_by_play(self, prompts, row_keys, max_new_tokens, temperature, on_finished)

    def play(
        self,
        requests: Sequence[Request],
        *,
        temperature: float,
        on_finished: OnFinished,
        arrivals: Arrivals | None = None,
    ) -> None:
        """Sample completions; all turns of an episode are asked of one server. See `EpisodeEngine.play`.

        Raises:
            UsageError: a server stays unreachable, keeps failing, or refuses a request.
        """
        open_requests = RequestQueue(self.servers, self.retries)
        open_requests.put([self._opened(request, temperature) for request in requests])
        left = len(requests)
        try:
            for number in range(len(self.servers)):
                for _ in range(min(self.requests, left)):  # no more can be open later: an episode has one turn at a time
                    threading.Thread(target=open_requests.ask, args=(number,), daemon=True).start()
            while left:
                answer = self._answer(open_requests, wait=arrivals is None)
                if answer is not None:
                    left -= 1
                    self._take(answer, on_finished)
                new = arrivals(not left) if arrivals is not None else ()
                open_requests.put([self._opened(request, temperature) for request in new])
                left += len(new)
        finally:
            open_requests.close()

    def _take(self, answer: ServerAnswer, on_finished: OnFinished) -> None:
        if isinstance(answer.result, BaseException):
            raise answer.result
        if answer.request.episode is not None:
            self.homes.move(answer.request.episode, answer.server)
        on_finished(*answer.request.place, answer.result)

    def _answer(self, open_requests: RequestQueue, *, wait: bool) -> ServerAnswer | None:
        """Return the next answer; None if none comes in a moment and `wait` is false."""
        try:
            return open_requests.answers.get(timeout=None if wait else ARRIVALS_S)
        except queue.Empty:
            return None

    def _opened(self, request: Request, temperature: float) -> OpenRequest:
        parameters = sampling_parameters(
            request.prompt,
            request.key,
            max_new_tokens=request.max_new_tokens,
            max_model_len=self.positions,
            temperature=temperature,
            eos_ids=self.codec.eos_ids,
        )
        return OpenRequest(request, parameters, None if request.episode is None else self.homes.of(request.episode))

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop which server episodes belong to that are over."""
        self.homes.forget(episodes)

    def close(self) -> None:
        """Close the connections and delete the files of weights."""
        for server in self.servers:
            server.client.close()
        if self.folder:
            self.folder.cleanup()
