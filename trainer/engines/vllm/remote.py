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
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Generated, OnFinished
from verigym.trainer.engines.sampling import Parameter, sampling_parameters
from verigym.trainer.engines.vllm.client import Client, RequestFailed
from verigym.trainer.engines.vllm.server import FIRST_PAUSE_S, LONGEST_PAUSE_S, Server, Weights
from verigym.trainer.engines.weights import DTYPES, write_weights
from verigym.trainer.models.codec import Codec


@dataclass
class CompletionRequest:
    """Request of one completion."""

    place: tuple[int, int]
    """Prompt index, sample index."""
    prompt: Sequence[int]
    parameters: Mapping[str, Parameter]
    tries: int = 0


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
        limits: dict[str, Any] = {"max_new_tokens": max_new_tokens, "max_model_len": self.positions, "temperature": temperature}
        requests_left = deque(
            CompletionRequest((p, g), prompts[p], sampling_parameters(prompts[p], key, eos_ids=self.codec.eos_ids, **limits))
            for p, keys in enumerate(row_keys)
            for g, key in enumerate(keys)
        )
        count = len(requests_left)
        done: dict[tuple[int, int], Generated] = {}
        requests_queue = _RequestQueue(requests_left, self.retries)
        for server in self.servers:
            for _ in range(min(self.requests, count)):
                threading.Thread(target=requests_queue.ask, args=(server,), daemon=True).start()
        try:
            while len(done) < count:
                place, answer = requests_queue.answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                done[place] = answer
                on_finished(*place, answer)
        finally:
            requests_queue.stop.set()
        return [[done[p, g] for g in range(len(keys))] for p, keys in enumerate(row_keys)]

    def close(self) -> None:
        """Close the connections and delete the files of weights."""
        for server in self.servers:
            server.client.close()
        if self.folder:
            self.folder.cleanup()


class _RequestQueue:
    """Open requests and received answers; shared by threads."""

    def __init__(self, requests_left: deque[CompletionRequest], retries: int) -> None:
        self.requests_left = requests_left
        self.retries = retries
        self.answers: queue.SimpleQueue[tuple[tuple[int, int], Generated | BaseException]] = queue.SimpleQueue()
        self.stop = threading.Event()

    def ask(self, server: Server) -> None:
        """Send a server one request after another until none is left."""
        while not self.stop.is_set():
            try:
                request = self.requests_left.popleft()
            except IndexError:
                return
            try:
                self.answers.put((request.place, server.client.complete(request.prompt, request.parameters, server.version)))
                continue
            except RequestFailed as error:
                request.tries += 1
                if request.tries >= self.retries:
                    self.answers.put((request.place, UsageError(f"{error}; tried {request.tries} times (vllm_retries)")))
                    return
                self.stop.wait(min(FIRST_PAUSE_S * 2**request.tries, LONGEST_PAUSE_S))
            except BaseException as error:  # the calling thread raises it
                self.answers.put((request.place, error))
                return
            self.requests_left.append(request)
            try:
                server.recover(self.stop)
            except BaseException as error:
                self.answers.put((request.place, error))
                return
