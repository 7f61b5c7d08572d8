"""Engine over vLLM servers in other processes or on other machines: pushes weights, requests completions over HTTP.

A restarted server has the weights it was started with, and refuses to sample from them. The engine pushes the current weights
again and repeats the lost requests. A server that fails gets no requests until it works again. Each request gives one
completion, however often it was sent.
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
from verigym.trainer.engines.base import Arrivals, Generated, OnFinished, Request, generate_by_play, report_tokens
from verigym.trainer.engines.sampling import sampling_parameters
from verigym.trainer.engines.vllm.client import Client
from verigym.trainer.engines.vllm.fleet import CHECK_S, Fleet
from verigym.trainer.engines.vllm.request_queue import Homes, OpenRequest, RequestQueue, ServerAnswer
from verigym.trainer.engines.vllm.server import Push, Server, Weights
from verigym.trainer.engines.weights import DTYPES, write_weights
from verigym.trainer.models.codec import Codec

ARRIVALS_S = 0.02
"""Longest wait in seconds for a server's answer before the engine checks whether new requests have arrived."""


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
            codec: the policy's tokenizer.
            urls: addresses of the servers.
            api_key: API key of the servers; None if they need none.
            dtype: dtype of the weights that are sent, a key of DTYPES.
            weights_dir: folder that all servers see; None to send weights over HTTP.
            requests: concurrent requests per server.
            timeout_s: most seconds for one answer.
            wait_s: most seconds for which all servers may be unreachable at once; at the start, most seconds for which any
                server may be.
            retries: most tries per completion, on any servers.
        """
        self.model, self.codec = model, codec
        self.dtype = dtype
        self.weights_dir = weights_dir
        self.requests, self.retries = requests, retries
        self.run = secrets.token_hex(4)
        self.pushes = 0
        self.weights: list[tuple[Weights, tempfile.TemporaryDirectory[str]]] = []
        """Those whose files are there, the newest last."""
        self.pushed: set[Push] = set()
        config = model.config
        limits: dict[str, Any] = {"timeout_s": timeout_s, "vocab_size": config.vocab_size}
        self.servers = [Server(Client(url, api_key=api_key, **limits)) for url in urls]
        self.fleet = Fleet(self.servers, wait_s)
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
        """Push the policy's weights to all servers at the same time, and wait until each has loaded them or fails.

        The first call needs all servers, later ones at least one.

        Raises:
            UsageError: the servers stay unreachable, or one does not fit this policy.
        """
        self.fleet.push(self._written(None))
        self._clean()

    def publish(self, step: int) -> None:
        """Begin to load the policy's weights into the servers, and return while they sample; see `FreeEngine.publish`.

        Args:
            step: number of updates that the policy has had.

        Raises:
            UsageError: the servers stay unreachable, or one does not fit this policy.
        """
        weights = self._written(step)
        (self.fleet.publish if self.pushes > 1 else self.fleet.push)(weights)

    def settle(self) -> None:
        """Wait until every working server has the newest weights, as `FreeEngine.settle` does."""
        self.fleet.settle()

    def metrics(self) -> dict[str, float]:
        """Return metrics of the weight pushes since the last call: size of the largest in MB, and seconds of the slowest.

        With several servers, the number of servers that are failing now is included.
        """
        pushes = {server.last_push for server in self.servers if server.last_push is not None}
        new, self.pushed = pushes - self.pushed, pushes
        figures = {"servers_failing": float(self.fleet.failing)} if len(self.servers) > 1 else {}
        if new:
            figures |= {"push_mb": max(push.bytes for push in new) / 1e6, "push_s": max(push.seconds for push in new)}
        return figures

    def _written(self, step: int | None) -> Weights:
        """Write the policy's weights into a new folder."""
        self.pushes += 1
        folder = self._new_folder()
        files = write_weights(self.model, Path(folder.name, "weights"), DTYPES[self.dtype])
        weights = Weights(f"{self.run}-{self.pushes}", files, self.weights_dir is not None, self.shape, step)
        self._clean()
        self.weights.append((weights, folder))
        return weights

    def _clean(self) -> None:
        """Delete the files that no server needs."""
        for weights, folder in list(self.weights):
            if not self.fleet.in_use(weights):
                folder.cleanup()
                self.weights.remove((weights, folder))

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
        """Sample completions, as `EpisodeEngine.play` does.

        All turns of an episode are sent to the same server, to reuse its cache.

        Raises:
            UsageError: a server stays unreachable, keeps failing, or refuses a request.
        """
        open_requests = RequestQueue(self.fleet, self.retries)
        open_requests.put([self._opened(request, temperature) for request in requests])
        left = len(requests)
        try:
            for number in range(len(self.servers)):
                for _ in range(min(self.requests, left)):  # no more can be open later: an episode has one turn at a time
                    threading.Thread(target=open_requests.ask, args=(number,), daemon=True).start()
            while left:
                answer = self._answer(open_requests, CHECK_S if arrivals is None else ARRIVALS_S)
                self.fleet.check()
                report_tokens(0 if answer is None or isinstance(answer.result, BaseException) else answer.result.length)
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

    def _answer(self, open_requests: RequestQueue, wait_s: float) -> ServerAnswer | None:
        """Return the next answer; None if none comes within `wait_s`."""
        try:
            return open_requests.answers.get(timeout=wait_s)
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
        home = None if request.episode is None else self.homes.of(request.episode, len(request.prompt))
        return OpenRequest(request, parameters, home)

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop which server episodes belong to that are over."""
        self.homes.forget(episodes)

    def close(self) -> None:
        """Close the connections and delete the files of weights."""
        self.fleet.close()
        for server in self.servers:
            server.client.close()
        for _, folder in self.weights:
            folder.cleanup()
