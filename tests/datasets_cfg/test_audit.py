"""The audit of golds: what `verigym validate` says about a gold that cannot be read; golds with several forms."""

import json

import pytest

import verigym
from verigym.cli import main
from verigym.datasets_cfg import load, validate
from verigym.envs.grading import Grader
from verigym.envs.math.environment import MathEnvironment

ROWS = [{"question": f"{n}+1?", "answer": f"#### {n + 1}", "level": 1} for n in range(3)]


class Audited(MathEnvironment):
    """Finds fault with every 2, and falls over a 3."""

    name = "math"

    def audit(self, prompt):
        answer = self.reference(prompt).answer
        if answer == "3":
            raise RuntimeError("over")
        return "reading stops before '2'; write two" if answer == "2" else None


def report_of(environment, prompts):
    prompts.environment = environment
    with Grader(environment, workers=0) as grader:
        return validate(prompts, grader)


def test_the_default_finds_no_fault():
    env = verigym.load("format")
    assert env.audit(env.prompt("q")) is None


def test_a_fault_in_a_gold_that_scores_the_maximum_is_a_remark(make, tmp_path):
    report = report_of(Audited(), load(make(ROWS), "train", data_dir=tmp_path))
    assert report.failures == [] and report.passed == 3
    assert [remark.row for remark in report.remarks] == [1, 2]
    assert report.remarks[0].advice == "reading stops before '2'; write two"
    assert report.remarks[1].advice == "the audit failed: RuntimeError: over"


def test_a_gold_that_fails_carries_the_advice(make, tmp_path):
    class Deaf(Audited):
        def judge(self, prompt, reference, completion):
            return verigym.Score.incorrect(reason="deaf")

    report = report_of(Deaf(), load(make(ROWS), "train", data_dir=tmp_path))
    assert [failure.row for failure in report.failures] == [0, 1, 2] and report.remarks == []
    line = report.failures[1].describe(report.source)
    assert line == (
        f"{tmp_path / 'rows.jsonl'}, row 2, field answer: gold "
        r'"\\boxed{2}": incorrect: deaf; '
        "reading stops before '2'; write two"
    )


def test_an_environment_of_others_needs_no_audit(make, tmp_path):
    class Foreign:
        def __init__(self):
            self.inner = MathEnvironment()

        def __getattr__(self, name):
            if name == "audit":
                raise AttributeError(name)
            return getattr(self.inner, name)

    prompts = load(make(ROWS), "train", data_dir=tmp_path)
    prompts.environment = Foreign()
    with Grader(MathEnvironment(), workers=0) as grader:
        report = validate(prompts, grader)
    assert (report.passed, report.remarks) == (3, [])


LIST = ("columns: {question: string, answer: string", "columns: {question: string, answer: list")
PLAIN = ("{column: answer, extract: hash}", "{column: answer}")


def test_a_column_may_hold_several_admissible_golds(make, tmp_path):
    rows = [{"question": "half?", "answer": ["1/2", "one half"], "level": 1}]
    prompts = load(make(rows, LIST, PLAIN), "train", data_dir=tmp_path)
    env = prompts.environment
    for text in (r"\boxed{\frac{1}{2}}", r"\boxed{one half}", r"\boxed{0.5}"):
        assert env.score(prompts[0], text).reward == 1.0, text
    assert env.score(prompts[0], r"\boxed{0.6}").reward == 0.0
    with Grader(env, workers=0) as grader:
        assert validate(prompts, grader).passed == 1


def test_several_golds_are_each_taken_out_of_their_text(make, tmp_path):
    rows = [{"question": "half?", "answer": ["work #### 1/2", "#### 50%"], "level": 1}]
    prompts = load(make(rows, LIST), "train", data_dir=tmp_path)
    assert prompts.environment.reference(prompts[0]).golds == ("1/2", "50%")


@pytest.mark.parametrize("golds", [[], ["1/2", ""]])
def test_no_gold_among_several_may_be_empty(make, tmp_path, golds, capsys):
    rows = [{"question": "half?", "answer": golds, "level": 1}, {"question": "1?", "answer": ["1"], "level": 1}]
    path = make(rows, LIST, PLAIN)
    assert main(["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]) == 1
    assert f"{tmp_path / 'rows.jsonl'}, row 1, field answer: reference of 'math'" in capsys.readouterr().out


def test_golds_that_cannot_be_read_are_explained(make, tmp_path, capsys):
    rows = [
        {"question": "1?", "answer": r"#### \frac{1}{2}", "level": 1},
        {"question": "2?", "answer": r"#### \frac{1}{2", "level": 1},
    ]
    path = make(rows)
    env = load(path, "train", data_dir=tmp_path).environment
    assert env.audit(env.prompt("q", answer=r"\frac{1}{2"))
    main(["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "row 2" in line]
    assert len(lines) == 1 and "rows.jsonl" in lines[0] and json.dumps(r"\frac{1}{2")[1:-1] in lines[0]
