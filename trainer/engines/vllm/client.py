"""HTTP client of one vLLM server: pushes weights, requests completions, and checks every answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.sampling import Parameter

CONNECT_S = 5.0
TEMPORARY = (408, 425, 429)
"""Temporary statuses below 500: another try may succeed."""


class RequestFailed(Exception):
    """The request failed; another try may succeed."""


class ServerUnreachable(RequestFailed):
    """The server does not answer."""


class WrongWeights(RequestFailed):
    """Raised when the server has another version of the weights than the request names."""


@dataclass(frozen=True)
class ServerStatus:
    """Status of a server."""

    boot: str
    """Random id of the server's start; a different id means that the server was restarted."""
    version: str | None
    """Version of the weights that were pushed last; None before the first push."""
    max_model_len: int
    shape: tuple[str | int, ...]
    """Model type, vocabulary, hidden size, layers."""
    logprobs_mode: str


class Client:
    """Client that sends weights and requests to one vLLM server. Methods may be called from several threads."""

    def __init__(self, url: str, *, api_key: str | None, timeout_s: float, vocab_size: int) -> None:
        """Prepare a session; nothing is sent yet.

        Args:
            url: http://HOST:PORT.
            api_key: sent as a bearer token.
            timeout_s: most seconds for an answer.
            vocab_size: the policy's vocabulary; a completion with a token beyond it counts as damaged.
        """
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self.vocab_size = vocab_size
        self.session = requests.Session()
        # No proxy between a trainer and its servers, and no .netrc, which would replace the key.
        self.session.trust_env = False
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=1024)
        self.session.mount("http://", adapter)
        self.session.mount("https://", adapter)
        if api_key:
            self.session.headers["Authorization"] = f"Bearer {api_key}"

    def status(self) -> ServerStatus:
        """Return the server's status.

        Raises:
            RequestFailed: the server does not answer, or refuses for the moment.
            UsageError: the server does not take weights.
        """
        body = self._call("GET", "/verigym/status", timeout_s=min(30.0, self.timeout_s))
        try:
            version = body["version"]
            return ServerStatus(
                boot=str(body["boot"]),
                version=None if version is None else str(version),
                max_model_len=int(body["max_model_len"]),
                shape=tuple(body["shape"]),
                logprobs_mode=str(body["logprobs_mode"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RequestFailed(f"{self.url} sent no status: {type(error).__name__} {error}") from None

    def send(self, version: str, files: Sequence[Path]) -> None:
        """Send the files of new weights to the server.

        Args:
            version: unique name of these weights.
            files: safetensors files.

        Raises:
            RequestFailed: the server did not take them; another try may succeed.
            UsageError: the server refuses them.
        """
        for file in files:
            with file.open("rb") as data:
                self._call("PUT", f"{_path(version)}/{file.name}", data=data)

    def load(self, version: str, files: Sequence[Path], *, shared: bool) -> None:
        """Have the server load weights, and wait for it; running completions are aborted.

        Args:
            version: unique name of these weights.
            files: safetensors files, all in one folder.
            shared: True if the server reads the files in this folder; False if `send` has sent them.

        Raises:
            RequestFailed: the server did not load them; another try may succeed.
            UsageError: the server refuses them.
        """
        body: dict[str, Any] = {"parts": [file.name for file in files]}
        if shared:
            body["folder"] = str(files[0].parent.resolve())
        loaded = self._call("POST", _path(version), data=json.dumps(body).encode())
        if loaded.get("version") != version:
            raise RequestFailed(f"{self.url} was given weights {version} and says it has {loaded.get('version')!r}")

    def complete(self, prompt: Sequence[int], parameters: Mapping[str, Parameter], version: str) -> Generated:
        """Return one completion, sampled from the weights of the given version.

        Args:
            prompt: tokens of the prompt.
            parameters: see `sampling_parameters`.
            version: name of the weights to sample from.

        Raises:
            WrongWeights: the server has another version.
            RequestFailed: there is no completion, or a damaged one.
            UsageError: the server refuses the request.
        """
        request = {"prompt": list(prompt), **parameters, "return_token_ids": True, "stream": False}
        headers = {"x-verigym-version": version, "Content-Type": "application/json"}
        body = self._call("POST", "/v1/completions", data=json.dumps(request).encode(), headers=headers)
        try:
            (choice,) = body["choices"]
            tokens, logprobs, reason = choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["finish_reason"]
            known = all(type(token) is int and 0 <= token < self.vocab_size for token in tokens)
            whole = known and len(tokens) == len(logprobs) > 0
            logps = tuple(float(logp) for logp in logprobs)
        except (KeyError, TypeError, ValueError) as error:
            raise RequestFailed(f"{self.url} sent no completion: {type(error).__name__} {error}") from None
        if not whole or reason not in ("stop", "length") or not all(map(math.isfinite, logps)):
            raise RequestFailed(
                f"{self.url} sent a damaged completion: {len(tokens)} tokens, {len(logps)} logprobs, {reason!r}"
            )
        return Generated(tuple(tokens), logps, reason)

    def close(self) -> None:
        """Close all connections."""
        self.session.close()

    def _call(self, method: str, path: str, *, timeout_s: float | None = None, **request: Any) -> dict[str, Any]:
        waits = (min(CONNECT_S, self.timeout_s), timeout_s or self.timeout_s)
        try:
            answer = self.session.request(method, self.url + path, timeout=waits, allow_redirects=False, **request)
        except requests.RequestException as error:
            raise ServerUnreachable(f"{self.url} does not answer: {' '.join(str(error).split())[:200]}") from None
        text = " ".join(answer.text.split())[:300]
        if answer.status_code == 409:
            raise WrongWeights(f"{self.url} has other weights; it was started again, or several servers have this address")
        if answer.status_code >= 500 or answer.status_code in TEMPORARY:
            raise RequestFailed(f"{self.url} answered {answer.status_code}: {text}")
        if answer.status_code == 401:
            raise UsageError(f"{self.url} wants another key; put the server's VLLM_API_KEY where vllm_api_key_env says")
        if answer.status_code == 404 and path.startswith("/verigym/"):
            raise UsageError(
                f"{self.url} takes no weights; start it with: python -m verigym.trainer.engines.vllm.serve MODEL [--port PORT]"
            )
        if answer.status_code != 200:
            raise UsageError(f"{self.url} refuses {method} {path} with {answer.status_code}: {text}")
        try:
            body = answer.json()
        except ValueError:
            raise RequestFailed(f"{self.url} sent no JSON: {text[:100]!r}") from None
        if not isinstance(body, dict):
            raise RequestFailed(f"{self.url} sent {type(body).__name__} in place of an object")
        return body


def _path(version: str) -> str:
    return f"/verigym/weights/{quote(version, safe='')}"
