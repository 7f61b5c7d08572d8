import json
import tracemalloc

import pytest

from verigym.cli import main
from verigym.envs import UsageError
from verigym.grade.diff import compare

ROWS = [
    {"prompt": "2+2?", "answer": "4", "completion": r"\boxed{4}"},
    {"prompt": "1/2?", "answer": "50", "completion": r"\boxed{50\%}"},
    {"prompt": "3+3?", "answer": "6", "completion": "no idea"},
]


def graded(path, row, status="correct", *, sample=0, completion="c", prompt="p", grader="math@1+0", reward=None, **more):
    reward = (1.0 if status == "correct" else 0.0) if reward is None and status != "error" else reward
    score = {"status": status, "reward": reward, "answer": "7", "reason": f"because {status}", "grader": grader, **more}
    line = {"row": row, "line": row, "sample_index": sample, "prompt": prompt, "completion": completion, "score": score}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@pytest.fixture
def files(tmp_path):
    new, old = tmp_path / "new.jsonl", tmp_path / "old.jsonl"
    new.touch()
    old.touch()
    return new, old


def test_counts_and_changes(files, tmp_path):
    new, old = files
    for row, was, now in [
        (1, "correct", "correct"),
        (2, "correct", "incorrect"),
        (3, "limit", "correct"),
        (4, "error", "error"),
    ]:
        graded(old, row, was)
        graded(new, row, now, grader="math@2+0")
    found = compare(new, old, tmp_path / "changes.jsonl")
    assert (found.both, found.changed, found.only_new, found.only_old, found.differs) == (4, 2, 0, 0, True)
    assert found.verdicts["correct", "incorrect"] == found.verdicts["limit", "correct"] == 1
    assert set(found.old_graders) == {"math@1+0"} and set(found.new_graders) == {"math@2+0"}
    listed = [json.loads(line) for line in (tmp_path / "changes.jsonl").read_text().splitlines()]
    assert [(line["row"], line["old"]["status"], line["new"]["status"]) for line in listed] == [
        (2, "correct", "incorrect"),
        (3, "limit", "correct"),
    ]


def test_another_reward_is_a_change_too(files):
    new, old = files
    graded(old, 1, "partial", reward=0.5)
    graded(new, 1, "partial", reward=0.75)
    assert compare(new, old).changed == 1


def test_rows_that_one_file_lacks_are_counted(files):
    new, old = files
    for row in (1, 2, 4):
        graded(new, row)
    for row in (2, 3, 4, 5):
        graded(old, row)
    found = compare(new, old)
    assert (found.both, found.changed, found.only_new, found.only_old) == (2, 0, 1, 2)
    assert found.differs and found.first_alone == f"line 1, sample 1 is in {new} only"


def test_a_corrected_gold_is_no_other_row(files):
    new, old = files
    graded(old, 1, "incorrect", prompt="one")
    graded(new, 1, "correct", prompt="two")
    found = compare(new, old)
    assert (found.other_prompts, found.changed) == (1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda new, old: (graded(new, 1, completion="a"), graded(old, 1, completion="b")), "line 1, sample 1 holds another"),
        (lambda new, old: (graded(new, 1), graded(old, 2)), "no completion in common"),
        (
            lambda new, old: (graded(new, 2), graded(new, 1), graded(old, 1)),
            r"new\.jsonl, line 2: line 1, sample 1 is not after",
        ),
        (lambda new, old: (graded(new, 1), old.write_text("{}\n")), r"old\.jsonl, line 1: not a line of verigym grade; --diff"),
        (lambda new, old: (graded(new, 1), old.write_text('{"row": 1')), r"its last line is cut off"),
        (lambda new, old: (graded(new, 1), graded(old, 1, "corect")), r"old\.jsonl, line 1: not a line"),
        (lambda new, old: (graded(new, 1), old.unlink()), r"old\.jsonl: there is no such file"),
    ],
)
def test_files_that_do_not_match(files, make, message):
    new, old = files
    make(new, old)
    with pytest.raises(UsageError, match=message):
        compare(new, old)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_files(files):
    new, old = files
    peaks = []
    for rows in (range(500), range(500, 10_000)):
        for row in rows:
            graded(new, row, "correct")
            graded(old, row, "incorrect")
        tracemalloc.start()
        assert compare(new, old).changed == rows.stop
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


@pytest.fixture
def two_gradings(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    common = ["grade", str(source), "--env", "math", "--workers", "0"]
    old = tmp_path / "old.jsonl"
    assert main([*common, "--out", str(old), "--option", "percent=value"]) == 0
    return [*common, "--option", "percent=either"], old, tmp_path / "new.jsonl"


def test_the_command_grades_and_compares(two_gradings, capsys):
    common, old, new = two_gradings
    capsys.readouterr()
    assert main([*common, "--out", str(new), "--diff", str(old)]) == 0
    shown = capsys.readouterr().out
    assert "same verdict: 2 of 3 (66.67%)" in shown
    assert "right before only: 0; right now only: 1" in shown
    assert "line 2, sample 1: incorrect -> correct" in shown
    assert main([*common, "--out", str(new), "--diff", str(old), "--fail-on-change"]) == 1


def test_two_graded_files_alone(two_gradings, capsys):
    common, old, new = two_gradings
    assert main([*common, "--out", str(new)]) == 0
    capsys.readouterr()
    assert main(["grade", str(new), "--diff", str(old)]) == 0
    assert "old \\ new  correct  incorrect  no_answer" in capsys.readouterr().out
    assert main(["grade", str(new), "--diff", str(old), "--fail-on-change"]) == 1
    copy = new.with_name("copy.jsonl")
    copy.write_bytes(new.read_bytes())
    assert main(["grade", str(new), "--diff", str(copy), "--fail-on-change"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "OLD", "--diff", "OLD", "--overwrite"], "keep the old one, and name another --out"),
        (["--out", "NEW", "--diff", "nowhere.jsonl"], "--diff nowhere.jsonl: there is no such file"),
        (["--out", "NEW", "--diff", "OLD", "--diff-out", "OLD"], "--diff-out OLD would overwrite OLD"),
        (["--out", "NEW", "--fail-on-change"], "--fail-on-change needs --diff OTHER"),
        (["--diff", "OLD"], "missing option --out"),
    ],
)
def test_mistakes_are_found_before_anything_is_graded(two_gradings, capsys, arguments, message):
    common, old, new = two_gradings
    before = old.read_bytes()
    capsys.readouterr()
    names = {"OLD": str(old), "NEW": str(new)}
    assert main([*common, *(names.get(argument, argument) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert message.replace("OLD", str(old)) in error and error.count("\n") == 1
    assert old.read_bytes() == before and not new.exists()


def test_a_list_of_changes_replaces_nothing_but_such_a_list(two_gradings, tmp_path, capsys):
    common, old, new = two_gradings
    assert main([*common, "--out", str(new)]) == 0
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_text('{"prompt": "q", "completion": "c"}\n')
    capsys.readouterr()
    assert main(["grade", str(new), "--diff", str(old), "--diff-out", str(outputs)]) == 2
    assert "exists and is no list of changes; choose another" in capsys.readouterr().err
    assert outputs.read_text().startswith('{"prompt"')
    for _ in range(2):
        assert main(["grade", str(new), "--diff", str(old), "--diff-out", str(tmp_path / "changes.jsonl")]) == 0
