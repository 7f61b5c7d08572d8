"""The run's records: one line a step however often it was resumed, readable completions from every source."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from groups import RIGHT, UNSCORED, WRONG, group
from letters import LettersEnvironment
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from verigym.envs import Score, Status
from verigym.envs.contract.schema import StepScore
from verigym.trainer.config.monitoring import MonitoringFields
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.monitoring import report
from verigym.trainer.monitoring.console import GradingFailures
from verigym.trainer.monitoring.logs import RunLog, keep_until, read_rows, score_metrics, stream_rows
from verigym.trainer.monitoring.report import write_report
from verigym.trainer.monitoring.watch import read_past


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_numbers_go_to_both_places(tmp_path: Path) -> None:
    log = RunLog(tmp_path, None)
    for step in range(1, 4):
        returned = log.metrics(step, "train", {"reward": step / 7, "loss": float("nan")})
    log.metrics(3, "eval", {"accuracy": 1})
    log.close()
    rows = lines(tmp_path / "metrics.jsonl")
    assert returned == rows[2]
    assert [(row["step"], row["kind"]) for row in rows] == [(1, "train"), (2, "train"), (3, "train"), (3, "eval")]
    assert rows[0]["reward"] == 0.142857
    assert rows[0]["loss"] is None
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in board.Scalars("train/reward")] == [1, 2, 3]
    assert board.Scalars("eval/accuracy")[0].value == 1


def test_a_resumed_run_drops_later_steps_and_the_line_that_a_kill_cut_short(tmp_path: Path) -> None:
    log = RunLog(tmp_path, None)
    for step in range(1, 6):
        log.metrics(step, "train", {"reward": step})
        log.samples(step, "train", [group("a", [RIGHT])], 1)
    log.close()
    for name in ("metrics.jsonl", "samples.jsonl"):
        with (tmp_path / name).open("a") as file:
            file.write('{"step": 6, "kind": "tr')
    log = RunLog(tmp_path, 3)
    log.metrics(4, "train", {"reward": 40})
    log.close()
    assert [row["reward"] for row in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3, 40]
    assert [row["step"] for row in lines(tmp_path / "samples.jsonl")] == [1, 2, 3]
    assert not list(tmp_path.glob("*.tmp"))


def test_without_a_checkpoint_the_files_start_anew(tmp_path: Path) -> None:
    for value in (1, 2):
        log = RunLog(tmp_path, None)
        log.metrics(0, "eval", {"accuracy": value})
        log.close()
    assert [row["accuracy"] for row in lines(tmp_path / "metrics.jsonl")] == [2]


def test_keep_until(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    keep_until(path, 1)
    assert not path.exists()
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}')  # whole, but its line break is missing
    assert read_rows(path) == [{"step": 1}, {"step": 2}, {"step": 3}]
    keep_until(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    keep_until(path, -1)
    assert path.read_text() == ""


def test_samples_are_spread_over_the_sources(tmp_path: Path) -> None:
    groups = [group("a", [RIGHT], text=f"a{n}") for n in range(4)] + [group("b", [RIGHT], text="b0")]
    log = RunLog(tmp_path, None)
    log.samples(1, "train", groups, 3)
    log.samples(2, "train", groups, 9)
    log.samples(3, "train", groups, 0)
    log.samples(4, "train", [], 2)
    log.close()
    rows = lines(tmp_path / "samples.jsonl")
    assert [row["prompt"] for row in rows if row["step"] == 1] == ["a0", "b0", "a1"]
    assert [row["prompt"] for row in rows if row["step"] == 2] == ["a0", "b0", "a1", "a2", "a3"]
    assert {row["step"] for row in rows} == {1, 2}


def test_a_sample_holds_its_verdict(tmp_path: Path) -> None:
    log = RunLog(tmp_path, None)
    log.samples(7, "eval", [group("a", [UNSCORED, RIGHT], cut=[0])], 1)
    log.close()
    assert lines(tmp_path / "samples.jsonl") == [
        {
            "step": 7,
            "kind": "eval",
            "source": "a",
            "prompt": "text",
            "gold": None,
            "completion": "text",
            "finish_reason": "length",
            "tokens": 3,
            "reward": None,
            "components": {},
            "status": "error",
            "reason": "the worker process was killed by SIGKILL",
            "answer": None,
        }
    ]


def test_every_text_stays_one_line_and_comes_back(tmp_path: Path) -> None:
    text = "lone \ud800, break\n, \u2028, \x85, null \x00, \U0001f600"
    log = RunLog(tmp_path, None)
    log.samples(1, "train", [group("a", [RIGHT], text=text)], 1)
    log.close()
    path = tmp_path / "samples.jsonl"
    assert path.read_bytes().count(b"\n") == 1
    assert read_rows(path)[0]["completion"] == text
    keep_until(path, 1)
    assert read_rows(path)[0]["completion"] == text


def scored(reward: float, **components: float | None) -> Score:
    return Score(reward=reward, status=Status.PARTIAL, components=components)


def test_a_training_sample_has_its_components_and_its_advantage(tmp_path: Path) -> None:
    groups = [group("a", [WRONG, RIGHT]), group("b", [scored(0.5, format=1.0, units=None)])]
    whole, by_token = (
        TrainingRow((1,), (2,), 0.123456789, True),
        TrainingRow((1,), (2, 3), 0.0, True, token_advantages=(1.0, -0.5)),
    )
    log = RunLog(tmp_path, None)
    log.samples(1, "train", groups, 2, [[whole, by_token], [by_token]])
    log.close()
    first, second = lines(tmp_path / "samples.jsonl")
    assert first["advantage"] == 0.123457
    assert (second["advantage"], second["components"]) == (0.25, {"format": 1.0, "units": None})


def test_events_stand_among_the_numbers_and_go_with_them(tmp_path: Path) -> None:
    for done in (None, 2):
        log = RunLog(tmp_path, done)
        if done is None:
            for step in (1, 2, 3):
                log.metrics(step, "train", {"reward": step})
                log.event({"step": step, "kind": "warning", "name": "length"})
        assert [(row["step"], row["kind"]) for row in log.history()][:4] == [
            (1, "train"), (1, "warning"), (2, "train"), (2, "warning"),
        ]  # fmt: skip
        log.close()
    assert len(lines(tmp_path / "metrics.jsonl")) == 4


def test_components_are_means_over_the_scores_that_have_them() -> None:
    groups = [
        group("a", [scored(1, format=1.0, units=0.5), scored(0, format=0.0), UNSCORED]),
        group("a", [scored(0, format=0.5, units=None)]),
        group("b", [scored(1, units=0.25)]),
    ]
    assert score_metrics(groups) == {"completions": 5.0, "a/format": 0.5, "a/units": 0.5, "b/units": 0.25}
    assert score_metrics([]) == {"completions": 0.0}


def test_a_sample_holds_what_the_report_shows_of_it(tmp_path: Path) -> None:
    steps = (StepScore(start=0, end=1, reward=0.5, reason="half"),)
    one = group("a", [Score(reward=1.0, status=Status.CORRECT, answer="4", steps=steps)])
    one = replace(one, prompt=LettersEnvironment().prompt("text", metadata={"level": 3}))
    log = RunLog(tmp_path, None)
    log.samples(1, "train", [one], 1)
    log.close()
    (row,) = lines(tmp_path / "samples.jsonl")
    assert row["answer"] == "4" and row["tokens"] == 3 and row["metadata"] == {"level": 3}
    assert row["steps"] == [{"start": 0, "end": 1, "reward": 0.5, "reason": "half", "part": ""}]


@pytest.mark.slow
def test_a_long_run_s_log_is_never_held_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A week has 100,000 steps and hundreds of megabytes of them: what resumes or ends a run reads them one by one."""
    values = {f"source{n}/metric": 0.5 for n in range(40)} | {"completions": 8, "completion_tokens": 7.5, "reward": 0.5}
    path = tmp_path / "metrics.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for step in range(1, 2001):
            file.write(json.dumps({"step": step, "kind": "train", **values}) + "\n")
            if step % 500 == 0:
                file.write(json.dumps({"step": step, "kind": "eval", "accuracy": 0.5}) + "\n")
    with (tmp_path / "samples.jsonl").open("w", encoding="utf-8") as file:
        for step in range(2000):
            kind = "eval" if step % 250 == 0 else "train"
            sample = {"step": step, "kind": kind, "source": "a", "prompt": "?", "completion": "x" * 800, "reward": 0.5}
            file.write(json.dumps(sample) + "\n")
    size = path.stat().st_size
    assert size > 1.7e6
    monkeypatch.setattr(report, "_draw", lambda path, panels: None)  # the picture is of one size
    write_report(tmp_path, "warm-up", [])  # what it imports stays
    tracemalloc.start()
    try:
        keep_until(path, 1999)
        past = read_past(MonitoringFields(), stream_rows(path))
        closing = GradingFailures().closing(stream_rows(path))
        streamed = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        write_report(tmp_path, "long", [])
        drawn = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert past.first_length == 7.5 and past.evaluated == {500, 1000, 1500}
    assert closing == ["all 15,992 completions of 1,999 steps were scored"]
    assert streamed < size / 10, streamed
    assert drawn < 1.5 * size, drawn  # a few numbers of each row, twice: as rows and as points
