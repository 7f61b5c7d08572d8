"""Samples that name tasks of a data set by an id; completions in the shapes of other tools."""

import gzip
import json

import pytest

from verigym.cli import main
from verigym.grade.out_file import sidecar

DOUBLE = 'def twice(n):\n    """Twice n."""\n'
HUMANEVAL = [
    {
        "task_id": f"HumanEval/{i}",
        "prompt": DOUBLE,
        "entry_point": "twice",
        "canonical_solution": "    return 2 * n\n",
        "test": f"def check(candidate):\n    assert candidate({i}) == {2 * i}\n",
    }
    for i in range(1, 5)
]
SUMS = """
name: sums
description: Sums.
licence: MIT
url: https://example.org
files: {train: sums.jsonl, test: sums.jsonl}
evaluation_only: [test]
environment: math
columns: {uid: integer, question: string, answer: string}
prompt: "{question}"
reference: {answer: {column: answer}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "humaneval").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in HUMANEVAL)
    (tmp_path / "humaneval/HumanEval.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    rows = [{"uid": 10 + i, "question": f"{i}+{i}?", "answer": str(2 * i)} for i in range(4)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sums.yaml").write_text(SUMS)
    return tmp_path


def grade(rows, *arguments, data="humaneval", code=0):
    with open("samples.jsonl", "w") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    common = ["grade", "--data", data, "--data-dir", ".", "--workers", "0", "samples.jsonl"]
    assert main([*common, *(arguments or ["--id-column", "task_id"])]) == code
    return json.loads(sidecar(scores(), "summary.json").read_text())


def scores():
    from pathlib import Path

    return Path("samples.scores.jsonl")


def lines():
    return [json.loads(line) for line in scores().read_text().splitlines()]


def test_humanevals_own_samples_go_on_after_the_prompt(folder, capsys):
    right, wrong = "    return n + n\n", "    return n\n"
    rows = [{"task_id": "HumanEval/1", "completion": text} for text in (right, wrong, wrong, wrong)]
    rows += [{"task_id": "HumanEval/3", "completion": right}]
    summary = grade(rows)
    assert summary["accuracy"] == pytest.approx(2 / 5) and summary["groups"] == 2
    assert summary["options"]["continue_prefix"] is True and summary["options"]["extract"] == "all"
    assert summary["joined"]["without_sample"] == 2
    assert summary["joined"]["ids_without_sample"] == ["HumanEval/2", "HumanEval/4"]
    assert [line["task"] for line in lines()][3:] == ["HumanEval/1", "HumanEval/3"]
    shown = " ".join(capsys.readouterr().out.split())
    assert "tasks 4 in humaneval/test, 2 with a sample" in shown
    assert "no sample 2 (in no figure below): HumanEval/2, HumanEval/4" in shown
    assert "read with --option extract=all --option continue_prefix=true" in shown


def test_ragged_groups_say_what_each_figure_weighs(folder, capsys):
    right, wrong = "    return n + n\n", "    return n\n"
    rows = [{"task_id": "HumanEval/1", "completion": text} for text in (right, wrong, wrong, wrong)]
    summary = grade([*rows, {"task_id": "HumanEval/3", "completion": right}])
    assert summary["group_sizes"] == {"1": 1, "4": 1}
    assert (summary["accuracy"], summary["pass_at"][0]["value"]) == (pytest.approx(0.4), pytest.approx(0.625))
    shown = " ".join(capsys.readouterr().out.split())
    assert "groups 2, ragged: 1 with 1, 1 with 4 scored samples" in shown
    assert "accuracy and mean reward weigh every sample alike, pass@k and maj@k every group" in shown
    assert "(over the one group with 2 samples or more)" in shown
    grade([*rows, *({**row, "task_id": "HumanEval/3"} for row in rows)], "--id-column", "task_id", "--overwrite")
    assert "ragged" not in capsys.readouterr().out


def test_evalplus_solutions_are_whole_programs(folder):
    rows = [{"task_id": row["task_id"], "solution": "def twice(n):\n    return n * 2\n"} for row in HUMANEVAL]
    summary = grade(rows)
    assert summary["accuracy"] == 1 and summary["options"]["continue_prefix"] is False
    assert {line["column"] for line in lines()} == {"solution"}


def test_fenced_programs_are_read_as_the_data_set_says(folder, capsys):
    text = "Here:\n```python\ndef twice(n):\n    return n * 2\n```"
    summary = grade([{"task_id": "HumanEval/1", "completion": text}])
    assert summary["accuracy"] == 1 and summary["options"]["extract"] == "fenced"
    assert "read with" not in capsys.readouterr().out


def test_a_chat_response_without_a_fence_is_no_program(folder):
    choice = {"index": 0, "message": {"role": "assistant", "content": "I cannot write that."}, "finish_reason": "stop"}
    summary = grade([{"task_id": "HumanEval/1", "choices": [choice]}])
    assert summary["statuses"] == {"no_answer": 1} and summary["options"]["extract"] == "fenced"


def test_given_options_win(folder):
    rows = [{"task_id": "HumanEval/1", "completion": "def twice(n):\n    return n * 2\n"}]
    summary = grade(rows, "--id-column", "task_id", "--option", "extract=fenced")
    assert summary["statuses"] == {"no_answer": 1}


def test_unknown_ids_are_counted_and_named(folder, capsys):
    good = {"task_id": "HumanEval/1", "completion": "    return 2 * n\n"}
    rows = [good, {**good, "task_id": "HumanEval/77"}, {**good, "task_id": "HumanEval/77"}, {**good, "task_id": None}]
    summary = grade(rows, code=1)
    assert summary["n"] == 1 and summary["bad_rows"] == 3 and summary["joined"]["unknown_ids"] == {"HumanEval/77": 2}
    captured = capsys.readouterr()
    assert "2 samples of HumanEval/77 (2)" in captured.out
    assert "names the task 'HumanEval/77', which humaneval/test does not have" in captured.err
    bad = [json.loads(line) for line in sidecar(scores(), "bad.jsonl").read_text().splitlines()]
    assert bad[2]["field"] == "task_id" and "is null; expected the id of a task" in bad[2]["reason"]


def test_ids_of_a_data_set_without_a_shape(folder):
    rows = [{"uid": 10 + i, "completion": f"\\boxed{{{2 * i}}}"} for i in range(3)]
    assert grade(rows, "--id-column", "uid", data="sums.yaml")["accuracy"] == 1
    assert lines()[2]["gold"] == {"answer": "4"}
    by_number = [{"n": i, "completion": f"\\boxed{{{2 * i}}}"} for i in range(3)]
    arguments = ["--id-column", "n=row_index", "--split", "train", "--overwrite"]
    assert grade(by_number, *arguments, data="sums.yaml")["joined"]["data"] == "sums/train"
    named = [{"custom_id": f"sums/{10 + i}", "completion": f"\\boxed{{{2 * i}}}"} for i in range(3)]
    assert grade(named, "--id-column", "custom_id=uid", "--overwrite", data="sums.yaml")["accuracy"] == 1


@pytest.mark.parametrize("also", [[], ["--split", "train"]])
def test_a_split_stands_behind_the_name_as_in_eval(folder, also):
    rows = [{"uid": 10, "completion": r"\boxed{0}"}]
    assert grade(rows, "--id-column", "uid", *also, data="sums.yaml:train")["joined"]["data"] == "sums/train"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "sums.yaml"], "--data sums.yaml needs --id-column COLUMN"),
        (["--env", "math", "--id-column", "uid"], "--id-column needs --data NAME"),
        (["--env", "math", "--split", "test"], "--split needs --data NAME"),
        (["--data", "sums.yaml", "--id-column", "uid", "--prompt-column", "q"], "--prompt-column does nothing with --data"),
        (["--data", "sums.yaml", "--id-column", "uid", "--reference", "answer=a"], "--reference does nothing with --data"),
        (["--data", "sums.yaml", "--id-column", "uid", "--split", "dev"], "no split 'dev'; known: test, train"),
        (
            ["--data", "sums.yaml", "--id-column", "uidd"],
            "samples.jsonl has no column 'uidd' (--id-column); did you mean 'uid'",
        ),
        (["--data", "sums.yaml", "--id-column", "completion"], "row 1 of sums/test has no id 'completion'; --id-column"),
        (["--data", "sum", "--id-column", "uid"], "no data set is called 'sum'"),
        (["--data", "sums.yaml:dev", "--id-column", "uid"], "no split 'dev'; known: test, train"),
        (["--data", "sums.yaml:", "--id-column", "uid"], "'sums.yaml:': expected the name of a data set or NAME:SPLIT"),
        (
            ["--data", "sums.yaml:test", "--split", "train", "--id-column", "uid"],
            "sums.yaml:test and --split train name two splits; give one",
        ),
        ([], "missing option --env, or --data"),
    ],
)
def test_mistakes_in_the_call(folder, capsys, arguments, message):
    (folder / "samples.jsonl").write_text('{"uid": 10, "completion": "x"}\n')
    where = ["--data-dir", "."] if "--data" in arguments else []
    assert main(["grade", "samples.jsonl", *where, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not scores().exists()


def test_two_rows_with_one_id_are_refused(folder, capsys):
    (folder / "sums.jsonl").write_text('{"uid": 1, "question": "q", "answer": "2"}\n' * 2)
    (folder / "samples.jsonl").write_text('{"uid": 1, "completion": "x"}\n')
    assert main(["grade", "samples.jsonl", "--data", "sums.yaml", "--data-dir", ".", "--id-column", "uid"]) == 2
    assert "rows 1 and 2 of sums/test have the same uid, 1" in capsys.readouterr().err


def test_another_data_set_is_named_when_a_run_goes_on(folder, capsys):
    grade([{"uid": 10, "completion": r"\boxed{0}"}], "--id-column", "uid", data="sums.yaml")
    (folder / "sums.jsonl").write_text('{"uid": 10, "question": "q", "answer": "2"}\n')
    assert main(["grade", "samples.jsonl", "--data", "sums.yaml", "--data-dir", ".", "--id-column", "uid"]) == 2
    assert "data.rows was 4 and is now 1; data.file.size was" in capsys.readouterr().err


CHAT = {"index": 0, "message": {"role": "assistant", "content": r"\boxed{4}"}, "finish_reason": "stop"}
TEXT = {"index": 0, "text": r"\boxed{5}", "finish_reason": "length"}
BASE = {"prompt": "2+2?", "answer": "4"}


@pytest.mark.parametrize(
    ("row", "rewards"),
    [
        ({**BASE, "choices": [CHAT, TEXT]}, [1, 0]),
        ({**BASE, "response": {"status_code": 200, "body": {"choices": [TEXT, CHAT]}}}, [0, 1]),
        ({**BASE, "completion": {"id": "c", "choices": [CHAT, CHAT]}}, [1, 1]),
        ({**BASE, "completion": [{"choices": [CHAT]}, {"choices": [TEXT]}]}, [1, 0]),
        (
            {
                **BASE,
                "choices": [{"message": {"role": "assistant", "content": None, "refusal": "No."}, "finish_reason": "stop"}],
            },
            [0],
        ),
        ({**BASE, "choices": [{**CHAT, "finish_reason": "content_filter"}]}, [1]),
    ],
)
def test_openai_responses(folder, capsys, row, rewards):
    (folder / "in.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["grade", "in.jsonl", "--env", "math", "--out", "samples.scores.jsonl", "--workers", "0"]) == 0
    assert [line["score"]["reward"] for line in lines()] == rewards
    assert [line["sample_index"] for line in lines()] == list(range(len(rewards)))


def test_a_batchs_output_joined_by_custom_id(folder, capsys):
    done = {"custom_id": "10", "response": {"status_code": 200, "body": {"choices": [{"message": {"content": r"\boxed{0}"}}]}}}
    failed = {"custom_id": "11", "response": {"status_code": 429, "body": {"error": {"message": "Rate limit"}}}, "error": None}
    dead = {"custom_id": "12", "response": None, "error": {"code": "batch_expired", "message": "This request expired."}}
    summary = grade([failed, done, dead], "--id-column", "custom_id=uid", data="sums.yaml", code=1)
    assert summary["accuracy"] == 1 and summary["n"] == 1
    bad = [json.loads(line)["reason"] for line in sidecar(scores(), "bad.jsonl").read_text().splitlines()]
    assert "the request failed (status 429: Rate limit)" in bad[0] and "the request failed (This request expired.)" in bad[1]


def test_a_questions_choices_are_no_completions(folder, capsys):
    (folder / "in.jsonl").write_text(json.dumps({**BASE, "choices": ["3", "4"]}) + "\n")
    assert main(["grade", "in.jsonl", "--env", "math", "--out", "out.jsonl"]) == 2
    assert (
        "in.jsonl has no column 'completion' (--completion-column); known: answer, choices, prompt" in capsys.readouterr().err
    )
