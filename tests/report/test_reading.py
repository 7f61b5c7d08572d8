"""Runs, scores and evaluations become records, and what cannot be read is counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from report_inputs import hostile_run, make_evaluation, make_run, run_sample, score, write_lines

from verigym.cli import main
from verigym.envs import UsageError
from verigym.report.reading.evaluations import evaluation_samples
from verigym.report.reading.inputs import Input, Kind, find_inputs
from verigym.report.reading.run_logs import read_metrics, run_samples
from verigym.report.reading.score_files import score_samples
from verigym.report.record import Record, TextLimit, completion_texts, difficulty, number

LIMIT = TextLimit(1000)


def graded(folder: Path, name: str = "scores.jsonl", *more: str) -> Path:
    """Grade four completions of two prompts with `verigym grade`."""
    rows = [
        {"prompt": "1+1?", "answer": "2", "level": 1, "completions": ["\\boxed{2}", "none"]},
        {
            "prompt": [{"role": "user", "content": "2+2?"}],
            "answer": "4",
            "level": 2,
            "completions": ["\\boxed{5}", {"text": "\\boxed{4", "finish_reason": "length"}],
        },
    ]
    path = write_lines(folder / "input.jsonl", rows)
    assert main(["grade", str(path), "--env", "math", "--out", str(folder / name), "--workers", "0", *more]) == 0
    return folder / name


def of(path: Path, graded_from: Path | None = None) -> tuple[Input, list[Record]]:
    (one,) = find_inputs([str(path)])
    return one, list(score_samples(one, 0, LIMIT, None, graded_from))


def test_a_file_of_scores_gets_its_texts_from_its_input(tmp_path: Path) -> None:
    one, records = of(graded(tmp_path))
    assert one.notes == []
    assert [record.status for record in records] == ["correct", "no_answer", "incorrect", "truncated"]
    first, last = records[0].texts, records[3].texts
    assert first["completion"] == "\\boxed{2}" and first["answer"] == "2" and first["gold"] == "2"
    assert first["prompt"] == [{"role": "user", "text": "1+1?"}] and first["place"] == "line 1, sample 1"
    assert last["finish"] == "length" and last["prompt"] == [{"role": "user", "text": "2+2?"}]
    assert [record.difficulty for record in records] == ["1", "1", "2", "2"]
    assert len({record.prompt_id for record in records}) == 2 and len({record.twin_id for record in records}) == 4


def test_texts_of_another_input_are_never_shown(tmp_path: Path) -> None:
    scores = graded(tmp_path)
    source = tmp_path / "input.jsonl"
    shutil.copy(source, tmp_path / "kept.jsonl")
    source.write_text(source.read_text().replace("none", "nine"))  # as long as before
    one, records = of(scores)
    assert all("completion" not in record.texts for record in records)
    assert one.notes == [
        f"4 samples are shown without their texts: the input {source} has moved or changed; give it with --graded"
    ]
    one, records = of(scores, tmp_path / "kept.jsonl")
    assert records[1].texts["completion"] == "none" and not one.notes
    with pytest.raises(UsageError, match=r"--graded .*input.jsonl is not the file that .*scores.jsonl was made from"):
        of(scores, source)


def test_an_input_that_moved_with_its_scores_is_found(tmp_path: Path) -> None:
    graded(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    one, records = of(tmp_path / "there/scores.jsonl")
    assert not one.notes and records[0].texts["completion"] == "\\boxed{2}"


def test_scores_without_their_sidecar_are_shown_without_texts(tmp_path: Path) -> None:
    scores = graded(tmp_path)
    (tmp_path / "scores.jsonl.meta.json").unlink()
    one, records = of(scores)
    assert len(records) == 4 and "no readable scores.jsonl.meta.json" in one.notes[0]


def test_two_graders_have_twins_and_the_same_prompts(tmp_path: Path) -> None:
    _, first = of(graded(tmp_path, "a.jsonl"))
    _, other = of(graded(tmp_path, "b.jsonl", "--option", "tolerance=0.1"))
    assert [one.twin_id for one in first] == [one.twin_id for one in other]
    assert [one.prompt_id for one in first] == [one.prompt_id for one in other]


def test_a_run_gives_its_samples_with_the_step_s_mean(tmp_path: Path) -> None:
    (one,) = find_inputs([str(make_run(tmp_path / "run"))])
    metrics = read_metrics(one)
    first, *rest = run_samples(one, 3, metrics, LIMIT, None)
    assert first.kind == "eval" and first.expected is None and first.input == 3
    assert {record.expected for record in rest} == {0.5} and {record.advantage for record in rest} == {0.5}
    assert rest[0].tokens == 5 and rest[0].texts["completion"] == "It is 2."


def test_rows_that_are_no_samples_are_counted(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with (folder / "samples.jsonl").open("a") as stream:
        stream.write('[1]\n{"status": "splendid"}\n' + json.dumps(run_sample(9)) + "\n" + json.dumps(run_sample(10))[:30])
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write("?\n")
    (one,) = find_inputs([str(folder)])
    metrics = read_metrics(one)
    assert len(list(run_samples(one, 0, metrics, LIMIT, None))) == 8
    assert one.notes == [
        "metrics.jsonl: 1 lines are no JSON objects and are left out",
        "samples.jsonl: 3 lines hold no sample and are left out",
    ]


@pytest.mark.parametrize("reward", [None, True, "1.0", float("nan"), 1e300])
def test_a_verdict_without_a_number_is_no_sample(reward: object, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with (folder / "samples.jsonl").open("a") as stream:
        stream.write(json.dumps({**run_sample(9), "reward": reward}) + "\n")
    (one,) = find_inputs([str(folder)])
    assert len(list(run_samples(one, 0, read_metrics(one), LIMIT, None))) == 7
    assert one.notes == ["samples.jsonl: 1 lines hold no sample and are left out"]


def test_an_evaluation_is_an_input_for_each_model(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path / "eval", {"b": [["correct", "error"]], "a": [["incorrect", "correct"]]})
    inputs = find_inputs([str(folder)])
    assert [one.label for one in inputs] == ["b", "a"] and {one.kind for one in inputs} == {Kind.EVALUATION}
    right, failed = evaluation_samples(inputs[0], 0, LIMIT, None)
    assert (right.status, right.reward, right.tokens, right.difficulty) == ("correct", 1.0, 4, "1")
    assert (failed.status, failed.reward) == ("error", None) and failed.texts["error"] == "backend: down"
    assert right.texts["place"] == "prompt 1, sample 1"


def test_samples_of_an_evaluation_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    lines = [
        {"identity": "x", "made_with": {}},
        {"number": 0, "samples": [["text", 3], ["text", 3, "stop", score()]]},
        {"number": 1},
    ]
    (one,) = find_inputs([str(write_lines(tmp_path / "samples-m.jsonl", lines))])
    assert len(list(evaluation_samples(one, 0, LIMIT, None))) == 1
    assert one.notes == ["2 lines or samples cannot be read and are left out"]


def test_a_folder_of_stages_gives_each_of_them(tmp_path: Path) -> None:
    make_run(tmp_path / "whole/sft")
    make_run(tmp_path / "whole/grpo")
    assert [one.label for one in find_inputs([str(tmp_path / "whole")])] == ["grpo", "sft"]


def test_runs_of_a_pipeline_are_called_by_their_stages(tmp_path: Path) -> None:
    for name in ("start-0a1b2c3d", "rl-0a1b2c3d", "rl-4e5f6a7b", "first-abcdefgh"):
        make_run(tmp_path / "whole" / name)
    found = [one.label for one in find_inputs([str(tmp_path / "whole")])]
    assert found == ["first-abcdefgh", "rl-0a1b2c3d", "rl-4e5f6a7b", "start"]
    products = [str(tmp_path / "whole" / name / "final") for name in ("start-0a1b2c3d", "rl-4e5f6a7b")]
    stages = [{"name": "any", "product": product} for product in products]
    (tmp_path / "whole/manifest.json").write_text(json.dumps({"stages": stages}))
    inputs = find_inputs([str(tmp_path / "whole")])
    assert [one.label for one in inputs] == ["rl", "start"]
    assert [note for one in inputs for note in one.notes] == [
        "2 older folders of stages that were run again with other settings: left out"
    ]


def test_equal_names_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = [str(make_run(tmp_path / name / "grpo")) for name in ("one", "two")]
    assert [one.label for one in find_inputs(paths)] == ["one/grpo", "two/grpo"]
    assert [one.label for one in find_inputs([f"x={paths[0]}", f"y={paths[1]}"])] == ["x", "y"]
    with pytest.raises(UsageError, match="two inputs are called"):
        find_inputs([f"x={paths[0]}", f"x={paths[1]}", f"x={paths[0]}"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "missing does not exist"),
        ("x.jsonl", '{"a": 1}\n', "does not begin with a line of scores or samples"),
        ("x.jsonl", "", "does not begin with a line of scores or samples"),
        ("empty", "folder", "holds neither metrics.jsonl nor samples"),
    ],
)
def test_other_paths_are_refused(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=message):
        find_inputs([str(path)])


def test_offsets_of_steps_count_as_the_page_counts() -> None:
    step = {"start": 1, "end": 3, "reward": 1.0, "reason": "", "part": ""}
    assert completion_texts("a\U0001f600bc", [step], LIMIT)["steps"] == [[1, 4, 1.0, "", ""]]
    assert completion_texts("abcd", [step], LIMIT)["steps"] == [[1, 3, 1.0, "", ""]]
    outside = {"start": -5, "end": 10**9, "reward": float("nan")}
    assert completion_texts("abcd", [outside, "x"], LIMIT)["steps"] == [[0, 4, None, "", ""]]
    assert completion_texts("a" * 2000, [step], LIMIT)["marked"] is False


def test_long_texts_are_cut_in_the_middle() -> None:
    cut = TextLimit(100).cut("a" * 100 + "b" * 100 + "c" * 100)
    assert cut == "a" * 75 + "\n[... 200 characters left out ...]\n" + "c" * 25
    assert TextLimit(100).cut("a" * 100) == "a" * 100


def test_numbers_are_finite_or_none() -> None:
    values = [1, 0.5, True, "1", None, float("nan"), float("inf"), 10**400]
    assert [number(value) for value in values] == [1.0, 0.5, None, None, None, None, None, None]


def test_difficulty_is_found_under_its_usual_names_or_the_one_given() -> None:
    assert difficulty({"level": 3}) == "3" and difficulty({"a": 1}, {"difficulty": "hard"}) == "hard"
    assert difficulty({"level": 3, "stars": 2}, column="stars") == "2" and difficulty(None, {"x": 1}) == ""


def test_hostile_texts_come_through_as_they_are(tmp_path: Path) -> None:
    (one,) = find_inputs([str(hostile_run(tmp_path / "run", ["<b>\ud800", "</script>"]))])
    records = list(run_samples(one, 0, read_metrics(one), LIMIT, None))
    assert records[0].texts["completion"] == "<b>\ud800 <b>\ud800" and records[0].source == "<b>\ud800"
