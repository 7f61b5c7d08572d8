"""`Problem`: how a request is refused, with a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Code = Literal[
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "timeout",
    "conflict",
    "too_large",
    "media_type",
    "invalid",
    "overloaded",
    "unavailable",
    "internal",
]
STATUS: Mapping[Code, int] = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "timeout": 408,
    "conflict": 409,
    "too_large": 413,
    "media_type": 415,
    "invalid": 422,
    "overloaded": 429,
    "internal": 500,
    "unavailable": 503,
}


class ProblemBody(BaseModel):
    """Why a request, or one item of a batch, was refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    error: Code
    """The reason in a word, for programs."""
    message: str
    """Message for a human reader: what was given, what was expected, and what to do."""


class Problem(Exception):
    """Raised to refuse a request.

    Args:
        code: the reason, which determines the HTTP status.
        message: one sentence for the client.
        retry_after_s: whole seconds after which another try may succeed; None if waiting does not help.
        headers: further headers of the response.
    """

    def __init__(
        self, code: Code, message: str, *, retry_after_s: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.status = STATUS[code]
        self.headers = dict(headers or {})
        if retry_after_s is not None:
            self.headers["Retry-After"] = str(retry_after_s)
        if code == "unauthorized":
            self.headers["WWW-Authenticate"] = "Bearer"

    @property
    def fields(self) -> dict[str, Any]:
        """Return the values of the fields of `ProblemBody`."""
        return {"error": self.code, "message": self.message}

    @property
    def body(self) -> bytes:
        """Return the problem as JSON in ASCII, with escapes for lone surrogates that the message may quote."""
        return json.dumps(self.fields).encode()
