"""Completions in every form that files have: text, messages, lists of these, OpenAI responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic import ValidationError

from verigym.datasets_cfg.fields import MISSING, FieldProblem, describe, find
from verigym.envs import Completion
from verigym.envs.contract.errors import explain

TEXTS = ("completion", "completions", "samples")
"""Usual names of a column of completions."""
RESPONSES = ("choices", "response.body.choices")
"""Paths to the choices of an OpenAI response (chat or completions): in the response itself, and in a line of batch output."""
SHOWN_NAMES = 8
_FINISHED = {"tool_calls": "stop", "function_call": "stop", "content_filter": "abort"}
"""OpenAI's reasons to end -> ours."""


def samples(row: Mapping[str, Any], column: str) -> Iterator[tuple[str, Completion | FieldProblem]]:
    """Yield, for each completion in `column` of `row`, its path and the completion, or a FieldProblem if it cannot be used.

    Raises:
        FieldProblem: the column holds no completion at all.
    """
    value = find(row, column)
    if value is MISSING and (failure := _failed_request(row)):
        raise FieldProblem(column, f"is missing: the request failed ({failure})")
    parts = list(_parts(value, column))
    if not parts:
        raise FieldProblem(column, "is an empty list; expected at least one completion")
    for place, one in parts:
        try:
            yield place, completion(one, place)
        except FieldProblem as problem:
            yield place, problem


def is_response(row: Mapping[str, Any], column: str) -> bool:
    """Return True if `column` holds the choices of an OpenAI response, and not, for example, the answers to choose from."""
    value = find(row, column)
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and (isinstance(one.get("message"), dict) or "finish_reason" in one) for one in value)
    )


def completion(value: Any, place: str) -> Completion:
    """Return `value` as a completion; `place` is its path in the row, for messages.

    Raises:
        FieldProblem: `value` is no completion; the message names `place` and what was expected.
    """
    if isinstance(value, str):
        return Completion(text=value)
    if isinstance(value, list) and _is_conversation(value):
        if any(one["role"] == "tool" or one.get("tool_calls") for one in value):
            try:
                return Completion.of(value)
            except ValueError as error:
                raise FieldProblem(place, str(error)) from None
        last = value[-1]
        if last["role"] != "assistant":
            raise FieldProblem(place, f"ends with a message of {last['role']!r}; expected the assistant's")
        value = last
    if not isinstance(value, dict):
        raise FieldProblem(place, f"{describe(value)}; expected text, an object with text, messages, or a list of these")
    # One that failed before its first turn has no turns.
    if isinstance(value.get("turns"), list) or isinstance(value.get("failure"), dict):
        return _episode(value, place)
    field, holder = "text", value
    if isinstance(value.get("message"), dict):
        field, holder = "message.content", value["message"]
    text = holder.get("text", holder.get("content", MISSING))
    if text is None and isinstance(holder.get("refusal"), str):
        text = holder["refusal"]
    if not isinstance(text, str):
        has = _instead(holder, place) if text is MISSING and holder is value else ""
        raise FieldProblem(f"{place}.{field}", f"{describe(text)}; expected text{has}")
    finished = value.get("finish_reason")
    try:
        return Completion(text=text, finish_reason=_FINISHED.get(finished, finished) if isinstance(finished, str) else finished)
    except ValidationError as error:
        raise FieldProblem(place, explain(error)) from None


def _episode(value: Mapping[str, Any], place: str) -> Completion:
    """Return a saved episode, as `verigym play` and `Completion.model_dump` write it.

    Raises:
        FieldProblem: naming the field that does not fit.
    """
    try:
        return Completion(**{name: given for name, given in value.items() if name in Completion.model_fields})
    except ValidationError as error:
        raise FieldProblem(place, explain(error, Completion.model_fields)) from None


def _instead(holder: Mapping[str, Any], place: str) -> str:
    """Return what an object without text has, and how to name its text where it has one under another name."""
    names = [str(name) for name in holder]
    if not names:
        return "; the object is empty"
    listed = ", ".join(names[:SHOWN_NAMES]) + (f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else "")
    texts = [name for name in names if isinstance(holder[name], str)]
    path = "[" not in place  # a column's path leads to one element of a list, never to all of them
    return f"; the object has {listed}" + (f"; name one: --completion-column {place}.{texts[0]}" if texts and path else "")


def _parts(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        yield from _parts(value["choices"], f"{place}.choices")
    elif isinstance(value, list) and not _is_conversation(value):
        for position, one in enumerate(value):
            whole = isinstance(one, dict) and isinstance(one.get("choices"), list)
            yield from _parts(one, f"{place}[{position}]") if whole else [(f"{place}[{position}]", one)]
    else:
        yield place, value


def _is_conversation(value: Iterable[Any]) -> bool:
    """Return whether a list is the messages of one completion, not several completions."""
    listed = list(value)
    return bool(listed) and all(isinstance(one, dict) and "role" in one for one in listed)


def _failed_request(row: Mapping[str, Any]) -> str:
    """Return the error that a batch's output line gives for a request without a response."""
    status = find(row, "response.status_code")
    for path in ("error", "response.body.error", "response.error"):
        error = find(row, path)
        if isinstance(error, dict):
            said = cast(dict[str, Any], error).get("message") or error.get("code") or error
            return " ".join(f"{'' if status is MISSING else f'status {status}: '}{said}".split())[:200]
    return "" if status is MISSING or status == 200 else f"status {status}"
