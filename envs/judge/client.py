"""Asks the judge model's endpoint until it gives a readable reply. If all tries fail, there is no score."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any, Protocol, TypeVar

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Score, canonical_json, sha256_hex
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.judge.endpoint import Spent, Trouble, named, post
from verigym.envs.judge.options import Endpoint, EndpointOptions
from verigym.envs.judge.prompts import AGAIN
from verigym.envs.judge.replies import Garbage

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class ReplyForm(Protocol[T_co]):
    """The JSON object that a model is asked for."""

    @property
    def title(self) -> str:
        """What the object is, for servers with structured output."""

    def schema(self) -> dict[str, Any]:
        """Return its JSON schema."""

    def read(self, reply: str) -> T_co:
        """Return the parsed content of `reply`.

        Raises:
            Garbage: `reply` is not the object that was asked for.
        """


def ask(options: EndpointOptions, system: str, user: str, form: ReplyForm[T], deadline: float) -> tuple[T, Spent]:
    """Return the judge model's parsed reply, and the cost of all tries together.

    Raises:
        EnvironmentFailure: no readable reply came before `deadline` (a `time.monotonic()` value), or a setting is wrong.
        RefusedRequest: the endpoint will not answer this request.
    """
    named(options)
    body = _body(options, system, user, form)
    cache = _cache(options)
    key = sha256_hex(canonical_json([options.asks, options.base_url, body]))
    kept = cache.get(key) if cache is not None else None
    if kept is not None and kept.answer is not None:
        return form.read(kept.answer), _spent_of(kept)
    spent = Spent()
    trouble = Trouble("timeout", "no time was left for a request", requests=0)
    for attempt in range(options.tries):
        if attempt:
            wait_s = max(trouble.wait_s, backoff_s(options, key, attempt))
            if time.monotonic() + wait_s >= deadline:
                break
            time.sleep(wait_s)
        unread = trouble.kind == "protocol"
        sent = _body(options, system, user + AGAIN if unread else user, form)
        reply = post(options, sent, deadline)
        if isinstance(reply, Trouble):
            trouble, spent = reply, spent + Spent(reply.requests)
            continue
        spent = spent + reply[1]
        try:
            verdict = form.read(reply[0])
        except Garbage as error:
            trouble = Trouble("protocol", f"the reply cannot be read: {error}{reply[2]}")
            continue
        if cache is not None:
            cache.put(key, Score.partial(0.0, answer=reply[0]).model_copy(update={"components": components(spent, options)}))
        return verdict, spent
    raise EnvironmentFailure(
        trouble.kind,
        f"{options.asks} {options.model!r} at {options.base_url}: {trouble.why} (after {spent.requests} requests)",
        retryable=trouble.kind != "protocol",
    )


def components(spent: Spent, options: EndpointOptions) -> dict[str, float | None]:
    """Return what replies cost, for `Score.components`."""
    costs: dict[str, float | None] = {
        "requests": float(spent.requests),
        "tokens_in": None if spent.tokens_in is None else float(spent.tokens_in),
        "tokens_out": None if spent.tokens_out is None else float(spent.tokens_out),
    }
    if options.price_in is not None and options.price_out is not None:
        known = spent.tokens_in is not None and spent.tokens_out is not None
        dollars = (spent.tokens_in or 0) * options.price_in + (spent.tokens_out or 0) * options.price_out
        costs["cost_usd"] = dollars / 1e6 if known else None
    return costs


def _body(options: EndpointOptions, system: str, user: str, form: ReplyForm[Any]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": options.model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
    }
    if options.structured != "off":
        schema = {"name": form.title, "strict": True, "schema": form.schema()}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {name: value for name, value in {**body, **options.extra_body}.items() if value is not None}


def backoff_s(options: Endpoint, key: str, attempt: int) -> float:
    """Return backoff_s * 2^(attempt - 1), times half to one and a half: workers that failed together do not return together."""
    share = int(sha256_hex(f"{key}/{attempt}")[:8], 16) / 2**32
    return options.backoff_s * float(2 ** (attempt - 1)) * (0.5 + share)


def _spent_of(kept: Score) -> Spent:
    counts = {name: None if value is None else int(value) for name, value in kept.components.items() if name != "cost_usd"}
    return Spent(counts.get("requests") or 0, counts.get("tokens_in"), counts.get("tokens_out"))


def _cache(options: EndpointOptions) -> ScoreCache | None:
    if not options.cache:
        return None
    try:
        return _opened(options.cache)
    except UsageError as error:
        raise EnvironmentFailure("unavailable", f"{options.asks}: {error}") from None


@functools.cache
def _opened(path: str) -> ScoreCache:
    return ScoreCache(Path(path))
