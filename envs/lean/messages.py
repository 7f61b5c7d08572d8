"""Messages that Lean printed: for people, never for a verdict. Whatever runs during elaboration can print anything.

Output is read line by line, in two forms that may be mixed:

* text: `file:line:col: severity: text`, with `error(name): text` in newer versions, and an end position with the option
  `-DprintMessageEndPos=true`. Lines after such a head belong to its message. In this form, messages of severity info have no
  head, so text before the first head becomes an info message without a position.
* `lean --json`: one object per line, with the keys severity, fileName, pos, endPos, kind, caption and data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

Severity = Literal["error", "warning", "info"]

_SEVERITIES: Mapping[str, Severity] = {**{name: name for name in get_args(Severity)}, "information": "info"}
_HEAD = re.compile(
    r"(?P<file>[^\n]*?):(?P<line>\d{1,9}):(?P<column>\d{1,9})(?:-(?P<end_line>\d{1,9}):(?P<end_column>\d{1,9}))?: "
    r"(?P<severity>error|warning|info|information)(?:\((?P<tag>[^()\n]*)\))?: ?(?P<text>[^\n]*)"
)


class Message(NamedTuple):
    """One message of Lean. `line` counts from 1 and `column` from 0, as in Lean; both are 0 if the message has no position."""

    severity: Severity
    text: str
    line: int = 0
    column: int = 0
    tag: str = ""
    """The message's kind, such as `hasSorry` or `lean.unknownIdentifier`; empty if Lean gives none."""


def parse_messages(output: str) -> tuple[Message, ...]:
    """Return the messages in the output of a `lean` process.

    Any text is accepted; text outside messages becomes one more message.
    """
    messages: list[Message] = []
    head: Message | None = None
    lines: list[str] = []

    def close() -> None:
        text = "\n".join(lines).rstrip()
        if head is not None:
            messages.append(head._replace(text=text))
        elif text.strip():
            messages.append(Message("info", text))
        lines.clear()

    for line in output.replace("\r\n", "\n").split("\n"):
        data = _from_json(line)
        match = None if data else _HEAD.fullmatch(line)
        if data:
            close()
            messages.append(data)
            head = None
        elif match:
            close()
            severity = _SEVERITIES[match["severity"]]
            head = Message(severity, "", int(match["line"]), int(match["column"]), match["tag"] or "")
            lines.append(match["text"])
        else:
            lines.append(line)
    close()
    return tuple(messages)


def _from_json(line: str) -> Message | None:
    """Return the message that a line of `--json` output holds, None where it is something else."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    severity = _SEVERITIES.get(value["severity"]) if isinstance(value.get("severity"), str) else None
    if severity is None or not isinstance(value.get("data"), str):
        return None
    place = value.get("pos")
    kind = value.get("kind")
    text = (
        f"{value['caption']}:\n{value['data']}" if isinstance(value.get("caption"), str) and value["caption"] else value["data"]
    )
    tag = kind.removesuffix("._namedError") if isinstance(kind, str) and kind != "[anonymous]" else ""
    return Message(severity, text.rstrip(), _number(place, "line"), _number(place, "column"), tag)


def _number(place: Any, name: str) -> int:
    """Return a coordinate, 0 where there is none."""
    value = place.get(name) if isinstance(place, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
