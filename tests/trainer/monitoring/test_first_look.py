"""The first samples of a run: what is said of them, and that the advice helps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import run

from verigym.envs import Completion
from verigym.envs.grading import Grader
from verigym.trainer.config.run import SourceConfig, build_config
from verigym.trainer.engines.base import Generated
from verigym.trainer.monitoring.first_look import first_look
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.answer_forms import marks_turns, missing_form, with_templates
from verigym.trainer.tasks.mixture import build_source

CHAT = "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"


def look(texts: Sequence[str], cut: bool = False, **fields: Any) -> list[str]:
    """Return what is said of these answers to the first tasks of a source, four to a task."""
    source = build_source(SourceConfig(environment="arithmetic", **fields), 0, 1)
    groups = []
    for number in range(0, len(texts), 4):
        prompt, some = source.train(number // 4), texts[number : number + 4]
        finish: Any = "length" if cut else "stop"
        scores = [source.environment.score(prompt, Completion(text=text, finish_reason=finish)) for text in some]
        generated = tuple(Generated((7,) * 9, (-1.0,) * 9, finish) for _ in some)
        groups.append(Group(source.label, prompt, (5,), generated, tuple(some), tuple(scores)))
    with Grader(source.environment, workers=0) as grader:
        return first_look(groups, [source], {source.label: grader})


def answers(form: str, count: int = 12) -> list[str]:
    """Return right answers in the given form, four to a task."""
    source = build_source(SourceConfig(environment="arithmetic"), 0, 1)
    golds = [str(source.environment.gold(source.train(number // 4)))[7:-1] for number in range(count)]
    return [form % gold for gold in golds]


def test_all_is_well_in_one_line() -> None:
    assert look(answers(r"It is \boxed{%s}.")) == [
        "first look:",
        "  arithmetic: an answer was read in 12 of 12 texts, 12 right; 9 tokens on average, 0 of 12 texts were cut off",
    ]


def test_answers_that_are_not_read_come_with_what_helps() -> None:
    lines = look(answers("The answer is %s."))
    assert lines[1].startswith("  arithmetic: an answer was read in 0 of 12 texts, 0 right; ")
    assert lines[2].startswith("    one of them ends: 'The answer is ")
    assert lines[3:] == [
        r"    the environment reads \boxed{}, and the prompt does not ask for it: set `template: maths`",
        '    with `options: {"extract": "last"}`, an answer is read in 12 of 12 such texts, 12 right',
    ]


def test_the_advice_of_options_helps() -> None:
    (advice,) = [line for line in look(answers("The answer is %s.")) if "options" in line]
    options = json.loads(advice.partition("options: ")[2].partition("`")[0])
    assert len(look(answers("The answer is %s."), options=options)) == 2, "nothing is wrong any more"


def test_texts_that_were_cut_off_want_more_tokens() -> None:
    lines = look(["Let us think"] * 8, cut=True, template="maths")
    assert lines[1].endswith("8 of 8 texts were cut off") and lines[3:] == ["    most texts were cut off: raise max_new_tokens"]


def test_wrong_answers_that_are_read_are_said_to_be_wrong() -> None:
    lines = look([r"\boxed{x}"] * 8, template="maths")
    assert lines[3:] == ["    nothing was right: is the task too hard for this model, or the reference of another task?"]


def test_few_texts_are_no_reason_for_advice() -> None:
    assert len(look(["?"] * 4)) == 2


@pytest.mark.parametrize(
    ("environment", "fields", "template"),
    [
        ("arithmetic", {}, "maths"),
        ("arithmetic", {"template": "boxed"}, None),
        ("arithmetic", {"options": {"extract": "last"}}, None),
        ("arithmetic", {"format": {}}, "think"),
        ("story", {"format": {"preset": "r1"}}, "think"),
        ("number_guessing", {}, None),
        ("functions", {}, None),
    ],
)
def test_a_form_is_missing_where_the_prompt_does_not_ask_for_it(
    environment: str, fields: dict[str, Any], template: str | None
) -> None:
    source = build_source(SourceConfig(environment=environment, **fields), 0, 1)
    form = missing_form(source.environment, source.train(0))
    assert (form and form.template) == template


@pytest.fixture
def chat_model(tmp_path: Path, letters_model: Path, tiny_tokenizer: Any) -> Path:
    folder = tmp_path / "chat"
    folder.mkdir()
    for path in letters_model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "chat_template.jinja").write_text(CHAT)
    return folder


def configured(model: Path, *sources: dict[str, Any]) -> Any:
    return build_config({"model": str(model), "output": "out", "sources": list(sources)}, "test")


def test_a_chat_model_is_asked_for_the_form_that_is_read(
    chat_model: Path, letters_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert (marks_turns(str(chat_model)), marks_turns(str(letters_model))) == (True, False)
    sources = [
        {"environment": "arithmetic"},
        {"environment": "story", "name": "as it is", "template": "chat"},
        {"environment": "number_guessing"},
    ]
    config = with_templates(configured(chat_model, *sources), [str(chat_model)])
    assert [source.template for source in config.sources] == ["maths", "chat", None]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(r"source arithmetic: template maths, which asks for \boxed{}, ")
    asked = build_source(config.sources[0], 0, 1).train(0).text
    assert asked.startswith("12+33=?\n") and r"\boxed{}" in asked
    for models in ([str(letters_model)], [str(chat_model), str(letters_model)]):
        plain = configured(letters_model, *sources)
        assert with_templates(plain, models) == plain


def test_a_run_begins_with_a_look(chat_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"sources": [{"environment": "arithmetic"}], "steps": 2, "threads": 1, "loggers": []}
    run(chat_model, tmp_path / "run", **fields, eval_every=2, eval_prompts=2)
    said = capsys.readouterr().err.splitlines()
    looks = [number for number, line in enumerate(said) if line == "first look:"]
    # Of the evaluation before the first step, and of the first step, which has no reward.
    assert ["of 2 texts" in said[looks[0] + 1], "of 16 texts" in said[looks[1] + 1], len(looks)] == [True, True, 2]
    assert json.loads((tmp_path / "run/config.json").read_text())["sources"][0]["template"] == "maths"
