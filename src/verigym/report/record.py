"""`Record`: one sample for the page, with values for the index and with texts; and functions that build it from any rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verigym.envs.contract.schema import Status, sha256_hex

STATUSES = tuple(status.value for status in Status)
DIFFICULTY = ("difficulty", "level")
"""Names under which tasks say how difficult they are."""
NO_SOURCE = "all"
Fields = dict[str, Any]


class NotASample(ValueError):
    """A row that holds no verdict."""


@dataclass(slots=True)
class Record:
    """One completion with its verdict, as the report reads it from any kind of input."""

    input: int
    """Number of the report's input."""
    kind: str
    """Where the sample comes from: training steps or held-out evaluation of a run, an evaluation, or a graded file."""
    source: str
    status: str
    reward: float | None
    prompt_id: str
    """Equal for samples of one prompt, also in different inputs."""
    twin_id: str = ""
    """Identifies the completion across inputs, such as two gradings of one file; empty if no other input can have it."""
    step: int = -1
    advantage: float | None = None
    tokens: int = -1
    characters: int = 0
    difficulty: str = ""
    expected: float | None = None
    """The mean reward of the sample's source and step, if the log gives it; else None."""
    raised: str = ""
    """What `judge` raised on it, and where; empty if nothing."""
    texts: Fields = field(default_factory=dict)
    """What the page shows of it, by short names."""


@dataclass(frozen=True, slots=True)
class TextLimit:
    """The maximum length of a text; a longer one is cut in the middle."""

    characters: int

    def cut(self, text: str) -> str:
        """Return `text`; if it is too long, replace its middle by a note of how many characters were left out."""
        left_out = len(text) - self.characters
        if left_out <= 0:
            return text
        head = self.characters * 3 // 4
        tail = self.characters - head
        return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[len(text) - tail :]}"


LARGEST = 1e100


def number(value: Any) -> float | None:
    """Return `value` as a float; None if it is no number, NaN, or larger in magnitude than `LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if abs(found) <= LARGEST else None  # which nan is not


def whole(value: Any, otherwise: int = -1) -> int:
    """Return `value` as an integer if it is a number of at most 31 bits, else `otherwise`."""
    found = number(value)
    return int(found) if found is not None and abs(found) < 2**31 else otherwise


def text(value: Any) -> str:
    """Return `value` itself if it is a string, an empty string for None, and JSON for any other value."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def verdict(score: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return the status and the reward of `score`.

    Raises:
        NotASample: the status is not one of verigym's, or says that there is a reward, and there is none.
    """
    status = score.get("status")
    if status not in STATUSES:
        raise NotASample(f"status {status!r:.60}; expected one of {', '.join(STATUSES)}")
    reward = None if status == Status.ERROR else number(score.get("reward"))
    if reward is None and status != Status.ERROR:
        raise NotASample(f"status {status!r} with the reward {score.get('reward')!r:.60}")
    return str(status), reward


def raised_by_judge(score: Mapping[str, Any]) -> str:
    """Return what `judge` raised on the sample of `score`, and where; an empty string if nothing."""
    raised = score.get("raised")
    return f"{text(raised.get('error'))} at {text(raised.get('place'))}" if isinstance(raised, Mapping) else ""


def score_texts(score: Mapping[str, Any], limit: TextLimit) -> Fields:
    """Return the fields of `score` for display: reason, answer, components and error."""
    found: Fields = {"reason": limit.cut(text(score.get("reason")))}
    if score.get("answer") is not None:
        found["answer"] = limit.cut(text(score["answer"]))
    components = score.get("components")
    if isinstance(components, Mapping) and components:
        found["components"] = [[str(name), number(value)] for name, value in components.items()]
    error = score.get("error")
    if isinstance(error, Mapping):
        found["error"] = f"{text(error.get('kind'))}: {limit.cut(text(error.get('message')))}"
    raised = score.get("raised")
    if isinstance(raised, Mapping):
        found["raised"] = limit.cut(text(raised.get("traceback")) or raised_by_judge(score))
    return found


def completion_texts(completion: str, steps: Any, limit: TextLimit) -> Fields:
    """Return the completion and its scored steps for display. Offsets of steps count UTF-16 units, as in JavaScript strings."""
    found: Fields = {"completion": limit.cut(completion)}
    scored = []
    wide = bool(completion) and max(completion) > "\uffff"
    for step in steps if isinstance(steps, Sequence) and not isinstance(steps, str) else ():
        if not isinstance(step, Mapping):
            continue
        start, end = (min(max(0, whole(step.get(name), 0)), len(completion)) for name in ("start", "end"))
        if wide:
            start, end = (_utf16_units(completion[:offset]) for offset in (start, end))
        scored.append([start, end, number(step.get("reward")), text(step.get("reason")), text(step.get("part"))])
    if scored:
        found["steps"] = scored
        found["marked"] = len(completion) <= limit.characters  # offsets of a text that has been cut would mark other words
    return found


def turn_texts(turns: Any, limit: TextLimit) -> list[Fields]:
    """Return the turns of an episode for display."""
    found = []
    for turn in turns if isinstance(turns, Sequence) and not isinstance(turns, str) else ():
        if not isinstance(turn, Mapping):
            continue
        one: Fields = {"role": text(turn.get("role")), "text": limit.cut(text(turn.get("text")))}
        if turn.get("name") is not None:
            one["name"] = text(turn["name"])
        if (reward := number(turn.get("reward"))) is not None:
            one["reward"] = reward
        listed = turn.get("calls")
        calls = [call for call in listed if isinstance(call, Mapping)] if isinstance(listed, Sequence) else []
        if calls:
            one["calls"] = [_call(call, limit) for call in calls]
        found.append(one)
    return found


def _call(call: Mapping[str, Any], limit: TextLimit) -> list[str]:
    """Return a call's name, its arguments, and what is wrong with it."""
    fault = text(call.get("fault"))
    arguments = text(call.get("raw")) if fault else text(call.get("arguments"))
    return [text(call.get("name")), limit.cut(arguments), fault]


def message_texts(messages: Any, limit: TextLimit) -> list[Fields]:
    """Return a prompt's messages for display; a plain string becomes one user message."""
    if isinstance(messages, str):
        return [{"role": "user", "text": limit.cut(messages)}]
    found = []
    for message in messages if isinstance(messages, Sequence) else ():
        if isinstance(message, Mapping):
            name = {"name": text(message["name"])} if message.get("name") is not None else {}
            found.append({"role": text(message.get("role")), "text": limit.cut(text(message.get("content"))), **name})
    return found


def difficulty(*places: Any, column: str | None = None) -> str:
    """Return a task's difficulty as text, or an empty string if none is given.

    Args:
        places: dictionaries to search, in order.
        column: the key to look for; None for `difficulty` or `level`.
    """
    for place in places:
        for name in (column,) if column else DIFFICULTY:
            if isinstance(place, Mapping) and place.get(name) is not None:
                return text(place[name])[:80]
    return ""


def identity(*parts: Any) -> str:
    """Return a short hash of some values."""
    return sha256_hex(json.dumps(parts, ensure_ascii=True, default=str))[:16]


def _utf16_units(part: str) -> int:
    return len(part.encode("utf-16-le", "surrogatepass")) // 2
