import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from verigym import Message, UsageError, load
from verigym.grade.job import GradeJob, run
from verigym.grade.reading.columns import Columns, Item, items
from verigym.grade.reading.records import BadRow, InputRow

ENV = load("math")
COLUMNS = Columns(references={"answer": "answer"})


def parts(data, columns=COLUMNS):
    return list(items(InputRow(7, 9, data), columns, ENV))


def test_a_plain_row():
    [item] = parts({"prompt": "1+1?", "completion": r"\boxed{2}", "answer": "2"})
    assert isinstance(item, Item)
    assert (item.row, item.line, item.sample_index, item.column) == (7, 9, 0, "completion")
    assert item.prompt == ENV.prompt("1+1?", answer="2")
    assert item.group == item.prompt.key
    assert ENV.score(item.prompt, item.completion).reward == 1.0


def test_every_shape_of_completion():
    talk = [{"role": "user", "content": "again"}, {"role": "assistant", "content": "d"}]
    value = ["a", {"text": "b", "finish_reason": "length"}, {"role": "assistant", "content": "c"}, talk]
    found = parts({"prompt": "q", "completion": value, "answer": "2"})
    assert [item.completion.text for item in found] == ["a", "b", "c", "d"]
    assert [item.completion.finish_reason for item in found] == [None, "length", None, None]
    assert [item.sample_index for item in found] == [0, 1, 2, 3]
    [one] = parts({"prompt": "q", "completion": talk, "answer": "2"})
    assert one.completion.text == "d"


def test_prompts_may_be_messages():
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?", "name": "ann"}]
    [item] = parts({"prompt": talk, "completion": "x", "answer": "2"})
    assert item.prompt.messages == (Message(role="system", content="Be brief."), Message(role="user", content="1+1?"))


def test_columns_are_numbered_together_and_a_bad_sample_keeps_its_number():
    columns = Columns(completions=("a", "b.c"), references={"answer": "answer"})
    one, bad, three = parts({"prompt": "q", "a": ["x", 3], "b": {"c": "y"}, "answer": "2"}, columns)
    assert (one.sample_index, three.sample_index, three.column) == (0, 2, "b.c")
    assert bad == BadRow(7, 9, "a[1]", "is int; expected text, an object with text, messages, or a list of these")


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"prompt": None}, "prompt", "is null; expected text"),
        ({"prompt": 5}, "prompt", "is int; expected text or a list of messages"),
        ({"prompt": []}, "prompt", "is list; expected text"),
        ({"prompt": ["x"]}, "prompt[0]", "is str; expected a message"),
        ({"prompt": [{"role": "robot", "content": "x"}]}, "prompt[0]", "field 'role'"),
        ({"prompt": [{"role": "user"}]}, "prompt[0]", "field 'content' is missing"),
        ({"completion": None}, "completion", "is null"),
        ({"completion": []}, "completion", "is an empty list"),
        ({"completion": {"texts": "x"}}, "completion.text", "is missing"),
        (
            {"completion": {"is_correct": True, "solution": "x"}},
            "completion.text",
            "the object has is_correct, solution; name one: --completion-column completion.solution",
        ),
        ({"completion": {"is_correct": True}}, "completion.text", "expected text; the object has is_correct"),
        ({"completion": [{"solution": "x"}]}, "completion[0].text", "expected text; the object has solution"),
        ({"completion": {"text": "x", "finish_reason": "eos"}}, "completion", "field 'finish_reason'"),
        ({"completion": [{"role": "user", "content": "x"}]}, "completion", "ends with a message of 'user'"),
        ({"answer": None}, "answer", "is null; expected a reference"),
        ({"answer": {"value": 2}}, "answer", "reference of 'math'"),
    ],
)
def test_what_does_not_fit_names_its_field(change, field, reason):
    row = {"prompt": "q", "completion": "x", "answer": "2", **change}
    [bad] = parts(row)
    assert isinstance(bad, BadRow)
    assert (bad.number, bad.line, bad.field) == (7, 9, field)
    assert reason in bad.reason and "\n" not in bad.reason


@pytest.mark.parametrize("missing", ["prompt", "completion", "answer"])
def test_a_missing_field(missing):
    row = {"prompt": "q", "completion": "x", "answer": "2"}
    del row[missing]
    [bad] = parts(row)
    assert bad.field == missing and bad.reason.startswith("is missing")


def test_the_gold_is_taken_out_of_its_column():
    columns = Columns(references={"answer": "solution"}, gold_extract="hash")
    [item] = parts({"prompt": "q", "completion": "x", "solution": "So 3*4\n#### 12"}, columns)
    assert item.prompt.references["math"].answer == "12"
    [bad] = parts({"prompt": "q", "completion": "x", "solution": "no mark"}, columns)
    assert bad.field == "solution" and "no gold is found by 'hash'" in bad.reason


def test_groups_and_kept_columns():
    columns = Columns(references={"answer": "answer"}, group_by="id", keep=("level", "gone"))
    [item] = parts({"prompt": "q", "completion": "x", "answer": "2", "id": [1, "a"], "level": float("nan")}, columns)
    assert item.group == '[1,"a"]'
    assert item.kept == {"level": "nan", "gone": None}


def test_long_golds_are_cut_and_those_of_a_composition_go_by_part():
    from verigym import Gate
    from verigym.grade.reading.columns import shown_gold

    tests = [{"type": "stdio", "stdin": "1" * 5000, "stdout": "2"}]
    shown = shown_gold(load("code").prompt("q", tests=tests, solution="print(2)"))
    assert shown["solution"] == "print(2)" and re.search(r"^\[\{.{198}\.\.\. \(5,\d\d\d characters\)$", shown["tests"])
    assert shown_gold(Gate("format", "math").prompt("q", math={"answer": "4"})) == {"format": {}, "math": {"answer": "4"}}


def test_unknown_columns_are_refused_with_a_suggestion():
    rows = [{"question": "q", "model": {"solution": "x"}}]
    with pytest.raises(UsageError, match=r"in has no columns 'questoin' \(--prompt-column\); did you mean 'question'"):
        Columns(prompt="questoin").check(["question", "model"], rows, "in")
    columns = Columns(prompt="question", completions=("model.solutions",))
    with pytest.raises(UsageError, match=r"no column 'model.solutions' \(--completion-column\); did you mean 'model.solution'"):
        columns.check(["question", "model"], rows, "in")
    with pytest.raises(UsageError) as caught:
        Columns(references={"answer": "gold"}).check(["question", "model"], rows, "in")
    every = "'prompt' (--prompt-column), 'completion' (--completion-column), 'gold' (--reference answer=COLUMN)"
    assert str(caught.value) == f"in has no columns {every}; its columns: model, question"
    Columns(prompt="question", completions=("model.solution",)).check(["question", "model"], rows, "in")


def test_settings_that_contradict_themselves():
    with pytest.raises(ValidationError, match="as a field and as a part"):
        Columns(references={"math": "a", "math.answer": "b"})
    with pytest.raises(ValidationError, match="as a field and as a part"):
        Columns(references={"math.answer": "b", "math": "a"})
    with pytest.raises(ValidationError, match="gold_extract"):
        Columns(gold_extract="magic")


def _graded(tmp_path: Path, rows: list[dict[str, Any]], environment: str) -> list[dict[str, Any]]:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(GradeJob(input=str(source), environment=environment, out=out, workers=1))
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_optional_fields_are_filled_from_their_namesakes(tmp_path: Path) -> None:
    rows = [
        {"prompt": "q", "completion": "a b c", "target": 3},
        {"prompt": "q", "completion": "a b c", "target": None},
        {"prompt": "q", "completion": "a b c", "target": 30},
    ]
    rewards = [line["score"]["reward"] for line in _graded(tmp_path, rows, "length")]
    assert rewards[0] == 1.0 and rewards[1] < 0.1 and rewards[2] == pytest.approx(0.1)


def test_a_value_that_does_not_fit_is_that_rows_own_matter(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "q", "completion": "a b c", "target": "the moon"},
        {"prompt": "q", "completion": "a b c", "target": 3},
    ]
    [line] = _graded(tmp_path, rows, "length")
    assert line["row"] == 2 and line["score"]["reward"] == 1.0
    [bad] = [json.loads(text) for text in (tmp_path / "out.jsonl.bad.jsonl").read_text().splitlines()]
    assert bad["field"] == "target" and "the moon" in bad["reason"] and "--reference target= leaves" in bad["reason"]
    out = tmp_path / "alone.jsonl"
    columns = Columns(references={"target": ""})
    run(GradeJob(input=str(tmp_path / "in.jsonl"), environment="length", out=out, workers=1, columns=columns))
    assert len(out.read_text().splitlines()) == 2


def test_an_optional_field_may_come_late_and_under_another_name(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"prompt": "q", "completion": "a b c"} for _ in range(40)]
    rows.append({"prompt": "q", "completion": "a b c", "target": 30})
    assert _graded(tmp_path, rows, "length")[-1]["score"]["reward"] == pytest.approx(0.1)
    rows = [{"prompt": "q", "completion": "a b c", "wanted": 30}, {"prompt": "q", "completion": "a b c"}]
    source, out = tmp_path / "in.jsonl", tmp_path / "named.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = Columns(references={"target": "wanted"})
    run(GradeJob(input=str(source), environment="length", out=out, workers=1, columns=columns))
    rewards = [json.loads(line)["score"]["reward"] for line in out.read_text().splitlines()]
    assert rewards[0] == pytest.approx(0.1) and len(rewards) == 2
    with pytest.raises(UsageError, match=r"no column 'wantd' \(--reference target=COLUMN\); did you mean 'wanted'"):
        typo = Columns(references={"target": "wantd"})
        run(GradeJob(input=str(source), environment="length", out=tmp_path / "x.jsonl", workers=1, columns=typo))


def test_naming_one_column_leaves_the_others_in_use(tmp_path: Path) -> None:
    tests = [{"type": "stdio", "stdin": "1\n", "stdout": "1\n"}]
    rows: list[dict[str, Any]] = [{"prompt": "q", "completion": "```bash\ncat\n```", "my_tests": tests, "language": "bash"}]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(GradeJob(input=str(source), environment="code", out=out, workers=1, columns=Columns(references={"tests": "my_tests"})))
    assert json.loads(out.read_text())["score"]["reward"] == 1.0


def test_a_column_of_completions_is_named_once():
    with pytest.raises(ValidationError, match="column 'a' is named twice, and its samples would count twice"):
        Columns(completions=("a", "b", "a"))
