"""What is tried again, and when."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import httpx

from verigym.envs.contract.errors import UsageError

PASSING = frozenset((408, 429, 502, 503, 504))
"""Statuses that a later try may not get."""


class ServiceError(Exception):
    """Raised when the service refuses a request and would refuse it again.

    Args:
        status: HTTP status code.
        code: the reason in one word, as in `ProblemBody.error`.
        message: the service's explanation.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{code} ({status}): {message}")
        self.status, self.code, self.message = status, code, message


class ServiceUnreachable(Exception):
    """Raised when the service could not be reached, or had no room, for as long as the retry policy allows."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long a failing request is tried again.

    Attributes:
        patience_s: seconds from the first of several failures in a row until the client gives up; 0 means a single try. The
            default is enough for a restart of the service.
        first_s: pause in seconds before the second try; it doubles before each further try.
        longest_s: maximum pause in seconds. It also limits a pause that the service asks for by `Retry-After`.
    """

    patience_s: float = 120.0
    first_s: float = 0.1
    longest_s: float = 10.0

    def __post_init__(self) -> None:
        if self.patience_s < 0 or self.first_s <= 0 or self.longest_s < self.first_s:
            raise UsageError(f"{self}: expected patience_s of at least 0 and 0 < first_s <= longest_s")


class Tries:
    """Counts the failures in a row of one request, and decides how long to wait before the next try.

    Args:
        policy: decides when to give up.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._since = 0.0

    def progress(self) -> None:
        """Reset the count of failures, because part of the answer has arrived."""
        self._failures = 0

    def pause_s(self, failure: httpx.TransportError | httpx.Response) -> float:
        """Count `failure` and return the pause in seconds before the next try.

        Args:
            failure: a connection error, or an answer with a status in `PASSING`, the HTTP errors that may pass.

        Raises:
            UsageError: the request can never be sent.
            ServiceUnreachable: the policy allows no further try.
        """
        if isinstance(failure, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            raise UsageError(f"the request cannot be sent: {_named(failure)}") from failure
        now = time.monotonic()
        if not self._failures:
            self._since = now
        pause = min(self._policy.first_s * 2.0 ** min(self._failures, 16), self._policy.longest_s)
        pause *= 0.5 + random.random() / 2  # clients that failed together should not come back together
        self._failures += 1
        if isinstance(failure, httpx.Response):
            after = failure.headers.get("retry-after", "")
            if after.isascii() and after.isdigit() and len(after) < 6:
                pause = max(pause, min(float(after), self._policy.longest_s))
        if now + pause - self._since > self._policy.patience_s:
            said = f"status {failure.status_code}" if isinstance(failure, httpx.Response) else _named(failure)
            raise ServiceUnreachable(
                f"no answer in {now - self._since:.0f} s and {self._failures} tries; the last failed by {said}"
            )
        return pause


def _named(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")


def refusal(response: httpx.Response) -> ServiceError:
    """Return the ServiceError that describes `response`, an unsuccessful answer whose body has been read."""
    try:
        fields = response.json()
        return ServiceError(response.status_code, str(fields["error"]), str(fields["message"]))
    except (ValueError, LookupError, TypeError):  # something between us and the service has answered
        text = " ".join(response.text.split())[:200]
        return ServiceError(response.status_code, "unknown", text or response.reason_phrase)
