import json
import sys

import pytest

from verigym import Score
from verigym.cli import main
from verigym.grade.out_file import sidecar
from verigym.grade.summary import summarise


def line(score, *, group="g", column="completion", row=1, sample=0):
    made = score.model_copy(update={"grader": "math@1+00000000", "seconds": 0.5})
    return {
        "row": row, "line": row, "sample_index": sample, "column": column, "group": group,
        "prompt": "p", "completion": "c", "score": made.model_dump(mode="json"), "columns": {},
    }  # fmt: skip


RIGHT = Score.correct(answer="4")
WRONG = Score.incorrect(answer="5")
FAILED = Score.failed("backend", "no network", retryable=True)


def test_failures_of_ours_are_in_no_denominator():
    summary = summarise([line(RIGHT), line(WRONG), line(FAILED), line(FAILED), line(RIGHT)])
    assert (summary.n, summary.scored, summary.unscored) == (5, 3, 2)
    assert summary.accuracy == summary.mean_reward == pytest.approx(2 / 3)
    assert summary.statuses == {"correct": 2, "incorrect": 1, "error": 2}
    assert summary.errors == {"backend": 2}
    assert summary.grading_seconds == 2.5


def test_nothing_scored_gives_no_accuracy_rather_than_zero():
    summary = summarise([line(FAILED)])
    assert summary.accuracy is None and summary.mean_reward is None and summary.accuracy_interval is None


def test_components_are_averaged_where_they_exist():
    one = RIGHT.model_copy(update={"components": {"math": 1.0, "language": None}})
    two = WRONG.model_copy(update={"components": {"math": 0.0, "language": 0.25}})
    assert summarise([line(one), line(two)]).components == {"language": 0.25, "math": 0.5}


def test_pass_and_majority_by_group():
    lines = [line(RIGHT, group="a"), line(WRONG, group="a"), line(WRONG, group="b"), line(WRONG, group="b")]
    lines.insert(1, line(RIGHT, group="c"))  # groups need not be contiguous
    summary = summarise(lines)
    assert summary.groups == 3
    assert [(at.k, at.value, at.groups) for at in summary.pass_at] == [(1, 0.5, 3), (2, 0.5, 2)]
    assert [(at.k, at.value, at.groups) for at in summary.majority_at] == [(1, 0.5, 3), (2, 0.25, 2)]


def test_verdicts_without_answers_have_no_majority():
    silent = Score.correct()
    summary = summarise([line(silent, group="a"), line(silent, group="a")])
    assert [at.value for at in summary.pass_at] == [1.0, 1.0] and [at.value for at in summary.majority_at] == [None, None]


def test_unscored_samples_leave_their_group():
    lines = [line(RIGHT, group="a"), line(FAILED, group="a"), line(RIGHT, group="b"), line(RIGHT, group="b")]
    summary = summarise(lines, ks=[2])
    assert [(at.value, at.groups) for at in summary.pass_at] == [(1.0, 1)]


def test_k_beyond_every_group_has_no_value():
    summary = summarise([line(RIGHT, group="a"), line(RIGHT, group="b")], ks=[8])
    assert [(at.k, at.value, at.groups) for at in summary.pass_at + summary.majority_at] == [(8, None, 0)] * 2


def test_single_samples_have_no_pass_at_k_unless_asked():
    assert summarise([line(RIGHT, group="a"), line(WRONG, group="b")]).pass_at == []


def test_surrogates_and_long_texts_are_grouped_too():
    odd = RIGHT.model_copy(update={"answer": "\ud800" * 9000})
    summary = summarise([line(odd, group="\udc00"), line(odd, group="\udc00")])
    assert summary.groups == 1 and summary.majority_at[-1].value == 1.0


def test_the_whole_command(tmp_path, capsys):
    rows = [
        {"question": "1+1?", "answer": "2", "a": [r"\boxed{2}", r"\boxed{3}"], "b": "no idea"},
        {"question": "2+2?", "answer": "4", "a": [r"\boxed{4}", r"\boxed{4}"], "b": r"\boxed{4}"},
        {"question": "bad gold", "answer": "", "a": [r"\boxed{1}", "x"], "b": "y"},
    ]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["--completion-column", "a", "--completion-column", "b", "--prompt-column", "question", "--k", "1,3"]
    assert main(["grade", str(source), "--env", "math", "--out", str(out), *arguments, "--workers", "0"]) == 1
    captured = capsys.readouterr()
    summary = json.loads(sidecar(out, "summary.json").read_text())
    assert summary["accuracy"] == pytest.approx(4 / 6)
    assert summary["accuracy_by_column"] == {"a": 0.75, "b": 0.5}
    assert [at["value"] for at in summary["pass_at"]] == [pytest.approx(4 / 6), 1.0]
    assert "accuracy" in captured.out and "0.6667" in captured.out and "\x1b" not in captured.out
    bad = [json.loads(text) for text in sidecar(out, "bad.jsonl").read_text().splitlines()]
    assert [(entry["file"], entry["line"], entry["field"]) for entry in bad] == [(str(source), 3, "answer")]
    assert "1 bad row (the first, line 3, field 'answer'" in captured.err


RAISING = """
from verigym.envs import BaseEnvironment, Options, Reference, Score

class Word(Reference):
    word: str

class FirstWord(BaseEnvironment[Word, Options]):
    name, version, reference_type = "first-word", "1", Word
    hardened = HARDENED

    def judge(self, prompt, reference, completion):
        return Score.correct() if completion.text.split()[0] == reference.word else Score.incorrect()

    def gold(self, prompt):
        return self.reference(prompt).word
"""


@pytest.mark.parametrize("hardened", [False, True])
def test_completions_on_which_judge_raised_are_counted_and_fail(tmp_path, monkeypatch, capsys, hardened):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = f"raising_{hardened}".lower()
    (tmp_path / f"{module}.py").write_text(RAISING.replace("HARDENED", str(hardened)))
    texts = ["a", "b", "", "  ", "a x", " ", "b"]
    rows = [json.dumps({"prompt": f"q{i}", "completion": text, "word": "a"}) for i, text in enumerate(texts)]
    (tmp_path / "o.jsonl").write_text("\n".join(rows))
    code = main(["grade", "o.jsonl", "--env", f"{module}:FirstWord", "--out", "s.jsonl", "--workers", "0", "--cache", "c.db"])
    printed = capsys.readouterr()
    summary = json.loads(sidecar(tmp_path / "s.jsonl", "summary.json").read_text())
    assert summary["statuses"] == {"correct": 2, "incorrect": 2, "limit": 3}
    if hardened:
        assert (code, summary["judge_exceptions"], summary["first_exception"]) == (0, 0, None)
        assert "judge raised" not in printed.out + printed.err
        return
    assert (code, summary["judge_exceptions"]) == (1, 3)
    cause = f"IndexError: list index out of range at {tmp_path}/{module}.py:12 in judge"
    assert summary["first_exception"] == cause
    assert f"judge raised  3 of 7: {cause}" in printed.out
    assert f"judge raised on 3 of 7 completions, whose scores are not to be trusted: the first cause, {cause}" in printed.err
    # Kept verdicts tell of it too.
    again = main(["grade", "o.jsonl", "--env", f"{module}:FirstWord", "--out", "t.jsonl", "--workers", "0", "--cache", "c.db"])
    assert again == 1 and "judge raised  3 of 7" in capsys.readouterr().out


HANGING = RAISING.replace("HARDENED", "False").replace(
    "        return Score.correct()",
    "        time.sleep(600 * completion.text.startswith('slow'))\n        return Score.correct()",
)


def test_texts_that_hang_a_judge_are_counted_and_fail_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "hanging_judge.py").write_text(f"import time\n{HANGING}")
    rows = [json.dumps({"prompt": f"q{i}", "completion": text, "word": "a"}) for i, text in enumerate(["a", "slow", "b"])]
    (tmp_path / "o.jsonl").write_text("\n".join(rows))
    command = ["grade", "o.jsonl", "--env", "hanging_judge:FirstWord", "--out", "s.jsonl", "--workers", "1", "--timeout-s", "4"]
    code, printed = main(command), capsys.readouterr()
    summary = json.loads(sidecar(tmp_path / "s.jsonl", "summary.json").read_text())
    assert summary["statuses"] == {"correct": 1, "incorrect": 1, "limit": 1}
    cause = f"WorkerTimeout: no verdict after 4 s (timeout_s) at judge of {summary['graders'][0].partition('@')[0]}"
    assert (code, summary["judge_exceptions"], summary["first_exception"]) == (1, 1, cause)
    assert f"judge raised on 1 of 3 completions, whose scores are not to be trusted: the first cause, {cause}" in printed.err
