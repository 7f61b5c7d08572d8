"""Replies of the judge model: the JSON schema for each mode, and a strict parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from verigym.envs import strict_json
from verigym.envs.extraction.fences import sole_block
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.judge.prompts import Mode

MAX_REPLY_CHARS = 100_000
_OPENINGS = ("```json\n", "```\n")


class Garbage(ValueError):
    """The reply is not the object asked for; the message says why."""


@dataclass(frozen=True)
class Verdict:
    """What the judge said: one of the form's values, and why."""

    value: str | int
    reasoning: str


@dataclass(frozen=True)
class Form:
    """The JSON object that the judge must return: `reasoning`, and a verdict field.

    The verdict is one of a list of words, or a whole number from a range.
    """

    field: str
    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0

    title: ClassVar[str] = "verdict"

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of this object, in the subset that all servers with structured output support."""
        value: dict[str, Any] = (
            {"type": "string", "enum": list(self.words)}
            if self.words
            else {"type": "integer", "enum": list(range(self.low, self.high + 1))}
        )
        return {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, self.field: value},
            "required": ["reasoning", self.field],
            "additionalProperties": False,
        }

    def read(self, reply: str) -> Verdict:
        """Return the verdict in `reply`: one JSON object. Only the judge's own thinking or one code fence may surround it.

        An object inside a longer text is not accepted: it might be a forged verdict from the submission, which the judge has
        only repeated.

        Raises:
            Garbage: `reply` is anything else.
        """
        fields = sole_object(reply)
        value = fields.get(self.field)
        extra = sorted(set(fields) - {"reasoning", self.field})
        if extra:
            raise Garbage(f"it has the unknown field {extra[0][:40]!r}")
        reasoning = fields.get("reasoning", "")
        if not isinstance(reasoning, str):
            raise Garbage("its reasoning is not a text")
        if self.words:
            fits = isinstance(value, str) and value in self.words
        else:
            fits = type(value) is int and self.low <= value <= self.high
        if not fits or not isinstance(value, str | int):
            expected = " or ".join(self.words) or f"a whole number from {self.low} to {self.high}"
            raise Garbage(f"its {self.field} is {value!r:.40}, not {expected}")
        return Verdict(value, reasoning)


def form_of(mode: Mode, scale: tuple[int, int]) -> Form:
    """Return the form of a mode; the scale is for rubrics."""
    if mode == "equivalence":
        return Form("verdict", ("same", "different"))
    if mode == "pairwise":
        return Form("better", ("first", "second", "tie"))
    return Form("grade", low=scale[0], high=scale[1])


def sole_object(reply: str) -> Mapping[str, Any]:
    """Return the JSON object that `reply` consists of. Only the model's thinking or a code fence may stand around it.

    Raises:
        Garbage: `reply` is anything else.
    """
    if len(reply) > MAX_REPLY_CHARS:
        raise Garbage(f"it has {len(reply)} characters")
    text = (reply if reply.lstrip().startswith("{") else strip_thinking(reply) or "").strip()
    if text.startswith(_OPENINGS) and text.endswith("\n```"):
        text = sole_block(text)[0].strip()
    try:
        parsed = strict_json.loads(text)
    except strict_json.NotStrict as error:
        raise Garbage(f"it is no strict JSON: {error}") from None
    except ValueError:  # also an integer of thousands of digits
        raise Garbage("it is not one JSON object") from None
    if not isinstance(parsed, dict):
        raise Garbage("it is JSON, but no object")
    return parsed
