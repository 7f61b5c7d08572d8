"""Parses and validates the bodies of requests. Any invalid body leads to a `Problem`, never to another exception."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from verigym.envs import strict_json
from verigym.envs.contract.errors import explain
from verigym.serve.problems import Problem
from verigym.serve.schemas import BatchItem

M = TypeVar("M", bound=BaseModel)
JSON = "application/json"
NDJSON = "application/x-ndjson"


def media_type(content_type: str | None, *known: str) -> str:
    """Return the media type in `content_type`, without parameters.

    Raises:
        Problem: the media type is not one of `known`.
    """
    given = (content_type or "").partition(";")[0].strip().lower()
    if given not in known:
        raise Problem("media_type", f"the body is of the type {given or 'unknown'!r}; send Content-Type: {' or '.join(known)}")
    return given


def read(body: bytes, model: type[M]) -> M:
    """Return the request in a JSON body, parsed as `model`.

    Raises:
        Problem: `body` is not JSON, or does not fit `model`.
    """
    return _checked(_value(body, "the body"), model, "")


def read_batch(body: bytes, kind: str, most: int) -> list[BatchItem]:
    """Return the items of a batch: a JSON list, or one JSON object per line.

    Args:
        body: the body of the request.
        kind: its media type.
        most: maximum number of items.

    Raises:
        Problem: the batch is empty or too large, or an item is invalid; the message says which.
    """
    if kind == NDJSON:
        lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        _count(len(lines), most)
        items = []
        for number, line in lines:
            place = f"line {number}"
            items.append(_checked(_value(line, place), BatchItem, f"{place}: "))
        return items
    values = _value(body, "the body")
    if not isinstance(values, list):
        raise Problem("invalid", f"the body is {_kind(values)}; expected a list of items, or one item a line as {NDJSON}")
    _count(len(values), most)
    return [_checked(value, BatchItem, f"item {place}: ") for place, value in enumerate(values)]


def _count(count: int, most: int) -> None:
    if not count:
        raise Problem("invalid", "the batch holds no item; expected at least one")
    if count > most:
        raise Problem("too_large", f"the batch holds {count:,} items; at most {most:,} are taken, so send it in parts")


def _value(body: bytes, place: str) -> Any:
    try:
        return strict_json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Problem("invalid", f"{place} is not UTF-8: {error.reason} at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise Problem("invalid", f"{place} is not JSON that is taken: {' '.join(str(error).split())[:200]}") from None


def _checked(value: Any, model: type[M], place: str) -> M:
    if not isinstance(value, dict):
        fields = ", ".join(model.model_fields)
        raise Problem("invalid", f"{place or 'the body: '}{_kind(value)}; expected an object with the fields {fields}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise Problem("invalid", f"{place}{explain(error, model.model_fields)}") from None


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
