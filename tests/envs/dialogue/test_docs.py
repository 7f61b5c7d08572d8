"""docs/dialogue.md: its example runs as it stands, and its tables are the code's."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from chat_server import say, serving, user
from doc_pages import DOCS, option_table, python_blocks

from verigym import Message
from verigym.envs.dialogue.options import DialogueOptions, UserReference


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = list(texts)
    return lambda messages: left.pop(0)


def plays(request: dict[str, Any]) -> str:
    """Tell one fact after the other, then end."""
    text = user(request)
    said = text.count("=== assistant ") // 2
    code = text[text.rindex("END-") :].partition(".")[0]
    return json.dumps({"message": f"That is fact {said}.", "end": "no" if said < 3 else code})


def test_the_example_runs() -> None:
    (example,) = python_blocks("dialogue.md")
    with serving(say(plays)) as server:
        names: dict[str, Any] = {"URL": server.url, "policy": scripted("How many people?", "Which prices?", r"\boxed{96}")}
        exec(example, names)  # noqa: S102
    assert [turn.text for turn in names["episode"].turns if turn.role == "user"] == ["That is fact 1.", "That is fact 2."]
    assert names["score"].reward == 1.0


def test_the_tables_are_the_code_s_own() -> None:
    page = (DOCS / "dialogue.md").read_text(encoding="utf-8")
    assert option_table(DialogueOptions) in page
    for name, field in UserReference.model_fields.items():
        assert f"| `{name}` | {' '.join((field.description or '').split())} |" in page
