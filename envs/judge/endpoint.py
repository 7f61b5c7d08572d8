"""Sends one request to a model's endpoint, reads the response, and says whether another try may help."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import ErrorKind
from verigym.envs.judge import http_request, limits
from verigym.envs.judge.options import Endpoint, EndpointOptions

_TRY_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
_ABOUT_THE_REQUEST = (400, 413, 422)
_SHOWN_CHARS = 200
_refuses_schema: set[str] = set()
"""Endpoints of this process that answered only without a schema."""


class RefusedRequest(Exception):
    """The endpoint refuses this request (400, 413, 422), because of the settings or because of the text to be judged.

    To find the cause, the caller sends a control: a request with the same settings and a harmless text.
    """


@dataclass(frozen=True)
class Spent:
    """What replies cost. None where the server did not say."""

    requests: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.requests + other.requests, _sum(self.tokens_in, other.tokens_in), _sum(self.tokens_out, other.tokens_out)
        )


@dataclass(frozen=True)
class Trouble:
    """Reason why a request gave no reply, and the time that the server asked us to wait before the next request."""

    kind: ErrorKind
    why: str
    wait_s: float = 0.0
    requests: int = 1


def named(options: Endpoint) -> None:
    """Raise EnvironmentFailure where no model is named."""
    if not options.model:
        raise EnvironmentFailure("unavailable", f"{options.asks}: set the option model to the name of a model at the endpoint")


def post(options: EndpointOptions, body: dict[str, Any], deadline: float) -> tuple[str, Spent, str] | Trouble:
    """Send one request and return (reply, cost, remark), or a `Trouble` if no reply came.

    The remark says that `max_tokens` has cut the reply off; it is empty if the reply is whole. If the server refuses JSON
    schemas, the request is sent a second time without one.
    """
    plain = {name: value for name, value in body.items() if name != "response_format"}
    if options.structured == "auto" and options.endpoint in _refuses_schema:
        body = plain
    response = _send(options, body, deadline)
    if isinstance(response, Trouble):
        return response
    if response.status in (400, 422) and options.structured == "auto" and "response_format" in body:
        response = _send(options, plain, deadline)
        if isinstance(response, Trouble):
            return response
        if response.status == 200:
            _refuses_schema.add(options.endpoint)
    found = _choice(options, response)
    if isinstance(found, Trouble):
        return found
    choice, spent = found
    content = choice["message"].get("content")
    remark = "; it was cut off: raise max_tokens" if choice.get("finish_reason") == "length" else ""
    return (content if isinstance(content, str) else ""), spent, remark


def chat(options: Endpoint, body: Mapping[str, Any], deadline: float) -> tuple[dict[str, Any], Spent] | Trouble:
    """Send one request and return (the reply's first choice, cost), or a `Trouble` if no reply came.

    The choice has a `message`, which is a mapping.

    Raises:
        RefusedRequest: the endpoint will not answer this request.
        EnvironmentFailure: a setting is wrong, such as the key or the model's name.
    """
    response = _send(options, body, deadline)
    return response if isinstance(response, Trouble) else _choice(options, response)


def _choice(options: Endpoint, response: http_request.Response) -> tuple[dict[str, Any], Spent] | Trouble:
    if response.status == 200:
        return _reply(response)
    if response.status in _TRY_AGAIN:
        why = f"HTTP {response.status}: {_shown(options, response)}"
        return Trouble("unavailable", why, _retry_after_s(response.headers.get("retry-after", "")))
    if response.status in _ABOUT_THE_REQUEST:
        raise RefusedRequest(f"HTTP {response.status}: {_shown(options, response)}")
    raise _settings_failure(options, response)


def _send(options: Endpoint, body: Mapping[str, Any], deadline: float) -> http_request.Response | Trouble:
    data = json.dumps(body, allow_nan=False).encode("ascii")
    url = options.base_url.rstrip("/") + "/chat/completions"
    headers = {**_headers(options), "Content-Type": "application/json"}
    try:
        with limits.turn(options.endpoint, options.concurrency, options.requests_per_minute, deadline):
            left_s = min(options.timeout_s, deadline - time.monotonic())
            if left_s <= 0:
                return Trouble("timeout", "no time was left for a request", requests=0)
            return http_request.request("POST", url, headers, data, left_s)
    except limits.NoPlace as error:
        return Trouble("timeout", str(error), wait_s=float("inf"), requests=0)
    except TimeoutError as error:
        return Trouble("timeout", str(error))
    except OSError as error:
        return Trouble("unavailable", _words(error))


def _reply(response: http_request.Response) -> tuple[dict[str, Any], Spent] | Trouble:
    try:
        answer = json.loads(response.body)
        choice = answer["choices"][0]
        whole = isinstance(choice["message"], dict)
    except (ValueError, LookupError, TypeError, RecursionError):
        whole = False
    if not whole:
        return Trouble("protocol", "the answer is no chat completion")
    usage = answer.get("usage")
    return choice, Spent(1, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


def _headers(options: Endpoint) -> dict[str, str]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "verigym"}
    if options.api_key_env:
        headers["Authorization"] = f"Bearer {_key(options)}"
    return headers


def _key(options: Endpoint) -> str:
    key = os.environ.get(options.api_key_env, "").strip()
    if not key:
        raise EnvironmentFailure(
            "unavailable", f"{options.asks}: the environment variable {options.api_key_env} (api_key_env) is not set"
        )
    if not key.isascii() or not key.isprintable():
        raise EnvironmentFailure(
            "unavailable", f"{options.asks}: the environment variable {options.api_key_env} holds no usable key"
        )
    return key


def _settings_failure(options: Endpoint, response: http_request.Response) -> EnvironmentFailure:
    hints = {401: "; check api_key_env", 403: "; check api_key_env", 404: "; check base_url and model"}
    what = f"{options.asks} {options.model!r} at {options.base_url}: HTTP {response.status}: {_shown(options, response)}"
    return EnvironmentFailure("unavailable", what + hints.get(response.status, ""))


def _shown(options: Endpoint, response: http_request.Response) -> str:
    """Return the beginning of an error's text, without the key, which some servers repeat."""
    text = response.body[: 10 * _SHOWN_CHARS].decode("utf-8", "replace")
    if options.api_key_env:
        text = text.replace(_key(options), "***")
    text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return text[:_SHOWN_CHARS] or "no text"


def _names(response: http_request.Response) -> list[str]:
    try:
        return [str(model["id"]) for model in json.loads(response.body)["data"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []


def look(options: Endpoint) -> None:
    """Check, by asking for the list of models, that the endpoint answers, accepts the key and has the model.

    Raises:
        EnvironmentFailure: one of these fails; the message says what to do.
    """
    named(options)
    url = options.base_url.rstrip("/") + "/models"
    try:
        response = http_request.request("GET", url, _headers(options), None, min(options.timeout_s, 10.0))
    except OSError as error:
        raise EnvironmentFailure(
            "unavailable",
            f"no server answers at {options.base_url} ({_words(error)}); start one (`vllm serve MODEL`) or set base_url",
            retryable=True,
        ) from None
    if response.status in (401, 403):
        raise _settings_failure(options, response)
    names = _names(response) if response.status == 200 else []
    if names and options.model not in names:
        raise EnvironmentFailure(
            "unavailable", f"the endpoint {options.base_url} has no model {options.model!r}; it has {', '.join(names[:10])}"
        )


def _retry_after_s(value: str) -> float:
    """Return the seconds of a Retry-After header, which is a number or a date; 0 where it is neither."""
    value = value.strip()[:64]
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0


def _count(usage: object, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value < 10**9 else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _words(error: OSError) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_SHOWN_CHARS]
