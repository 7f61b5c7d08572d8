"""A Kimina Lean server, which compiles proofs over HTTP, as a screen: its replies may reject a proof but never accept one."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from pydantic import Field

from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.judge import http_request
from verigym.envs.lean.backends.replies import rejection
from verigym.envs.lean.task import LeanReference, solution_file
from verigym.envs.lean.toolchain import Toolchain

logger = logging.getLogger("verigym.lean")
_GRACE_S = 10.0


class KiminaOptions(Options):
    """Where the server is, and how long it is waited for."""

    url: str = Field("http://localhost:8000/api/check", pattern=r"^https?://")
    """Its address for checks."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds after which the server stops checking a proof. The client waits ten seconds longer for the response."""
    api_key_env: str = ""
    """Name of the environment variable that holds the key; empty for none."""
    reuse: bool = True
    """Whether the server may use a process again that has the header loaded."""


class KiminaScreen:
    """Rejects submissions by asking a Kimina server about each of them.

    Args:
        toolchain: not used; the server has its own, which should be the same version.
        options: options of the server.

    Raises:
        EnvironmentFailure: the environment variable for the key is not set.
    """

    options_type = KiminaOptions

    def __init__(self, toolchain: Toolchain, options: KiminaOptions) -> None:
        self.options = options
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "verigym"}
        if options.api_key_env:
            key = os.environ.get(options.api_key_env, "").strip()
            if not key:
                raise EnvironmentFailure("unavailable", f"lean: the variable {options.api_key_env} (api_key_env) is not set")
            self._headers["Authorization"] = f"Bearer {key}"

    def reject(self, reference: LeanReference, submission: str) -> str | None:
        """Return the error or `sorry` that the server finds, or None if it finds neither or gives no valid answer.

        Raises:
            EnvironmentFailure: no server answers, or it refuses the request itself.
        """
        snippet = {"id": reference.name, "code": solution_file(reference, submission)}
        body = {"snippets": [snippet], "timeout": int(self.options.timeout_s), "reuse": self.options.reuse, "debug": False}
        data = json.dumps(body).encode()
        try:
            answer = http_request.request("POST", self.options.url, self._headers, data, self.options.timeout_s + _GRACE_S)
        except (TimeoutError, http_request.Dropped) as error:
            logger.info("lean: the Kimina server gave no answer: %s", error)
            return None
        except OSError as error:
            raise EnvironmentFailure(
                "unavailable",
                f"lean: no Kimina server answers at {self.options.url} ({error}); start one, or take backend=process",
                retryable=True,
            ) from None
        if 500 <= answer.status or answer.status == 429:
            logger.info("lean: the Kimina server failed with HTTP %d", answer.status)
            return None
        if answer.status != 200:
            raise EnvironmentFailure("unavailable", f"lean: {self.options.url} answers HTTP {answer.status}; check url and key")
        return _read(answer.body, reference.name)

    def close(self) -> None:
        """Nothing is held."""


def _read(body: bytes, name: str) -> str | None:
    """Return the rejection in the server's answer to one snippet; None where it is no such answer."""
    try:
        answer: Any = json.loads(body)
        (result,) = answer["results"]
        reply = result["response"]
        own = result["id"] == name
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return rejection(reply) if own and isinstance(reply, dict) else None
