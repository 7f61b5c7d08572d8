"""A judge that raises on most completions: told at once, counted, and after some completions no longer trained on."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from letters import BuggyEnvironment, HardenedEnvironment, LettersEnvironment
from runs import settings

from verigym.envs import Completion, EnvironmentFailure, Prompt, Score, Status, check_env
from verigym.envs.contract.blame import guarded
from verigym.envs.contract.errors import UsageError
from verigym.envs.grading import Grader
from verigym.trainer.config.run import build_config
from verigym.trainer.engines.base import Generated
from verigym.trainer.loop import train
from verigym.trainer.monitoring.console import GradingFailures
from verigym.trainer.monitoring.detectors import Alarm
from verigym.trainer.monitoring.grader_bugs import FEWEST, Causes, GraderBugs
from verigym.trainer.rollout.collect import Group

ENVIRONMENT = BuggyEnvironment()
PROMPT = ENVIRONMENT.prompt_at("train", 0, 0)


def group(*texts: str, source: str = "buggy") -> Group:
    written = tuple(Generated((1,), (-0.5,), "stop") for _ in texts)
    return Group(source, PROMPT, (1,), written, texts, tuple(ENVIRONMENT.score(PROMPT, text) for text in texts))


def test_a_score_says_what_was_raised_and_where() -> None:
    score = ENVIRONMENT.score(PROMPT, "four")
    assert (score.status, score.reward) == (Status.LIMIT, 0.0)
    assert score.raised is not None
    assert score.raised.error == "ValueError: invalid literal for int() with base 10: 'four'"
    assert "letters.py:" in score.raised.place and score.raised.place.endswith(" in judge")
    assert "int(completion.text)" in score.raised.traceback and "blame.py" not in score.raised.traceback
    assert "raised" not in ENVIRONMENT.score(PROMPT, "4").model_dump(mode="json")
    assert Score.model_validate(score.model_dump(mode="json")) == score
    assert HardenedEnvironment().score(HardenedEnvironment().prompt_at("train", 0, 0), "four").raised is None


def test_where_the_control_fails_too_the_score_says_so_as_well() -> None:
    def judge(_: Completion) -> Score:
        raise KeyError("x")

    score = guarded(judge, Completion(text="a"), lambda: "4", 0.0)
    assert score.reward is None and score.raised is not None and score.raised.error == "KeyError: 'x'"


def test_beyond_the_share_exceptions_are_no_zeros() -> None:
    bugs = GraderBugs(0.2)
    few = bugs.checked([group(*["four"] * (FEWEST - 1))])
    assert all(score.reward == 0 for score in few[0].scores) and bugs.metrics() == {}
    (now,) = bugs.checked([group("four", "4", "5")])
    assert [score.reward for score in now.scores] == [None, 1.0, 0.0]
    assert [score.status for score in now.scores] == [Status.ERROR, Status.CORRECT, Status.INCORRECT]
    assert bugs.metrics() == {"buggy/grader_broken": 1.0}
    again = GraderBugs(0.2)
    again.restore(json.loads(json.dumps(bugs.state())))
    assert again.checked([group("four")])[0].scores[0].reward is None


def test_below_the_share_the_text_is_blamed() -> None:
    bugs = GraderBugs(0.2)
    (found,) = bugs.checked([group(*["four"] * 20, *["4"] * 80)])
    assert [score.reward for score in found.scores[:20]] == [0.0] * 20 and not bugs.broken
    assert bugs.checked([group("four", source="other")])[0].scores[0].reward == 0.0


def test_a_cause_is_told_once() -> None:
    causes = Causes()
    (first,) = causes.new(3, [group("four", "4", "five")])
    assert first.step == 3 and "raised on 2 completions" in first.seen and "ValueError" in first.row["traceback"]
    assert causes.new(4, [group("six")]) == []


def test_the_end_of_a_run_says_on_how_many_completions_its_judge_raised() -> None:
    failures, judged = GradingFailures(), group("four", "4", "five")
    failures.add([judged, judged])
    rows = [{"kind": "train", "completions": 3, "unscored": 0, "judge_exceptions": 2}] * 2
    assert judged.scores[0].raised is not None
    assert failures.closing(rows) == [
        "all 6 completions of 2 steps were scored",
        "judge raised on 4 of 6 completions of 2 steps, whose scores are not to be trusted",
        f"  buggy: 4 by ValueError at {judged.scores[0].raised.place}",
    ]


def test_a_broken_grader_is_told_with_its_most_frequent_cause() -> None:
    causes = Causes()
    judged = group("four", "five", "six")
    assert judged.scores[0].raised is not None
    rare = judged.scores[0].raised.model_copy(update={"error": "KeyError: 'x'", "place": "own.py:7 in judge"})
    causes.new(1, [replace(judged, scores=(judged.scores[0].model_copy(update={"raised": rare}),))])
    other = replace(judged, source="other")
    causes.new(1, [judged, other, other])
    alarm = Alarm("broken_grader", 1, 1, "it raises", "mend it", stop=True, sources=("buggy",))
    place = judged.scores[0].raised.place
    cause = f"ValueError: invalid literal for int() with base 10: 'four' at {place}"
    assert causes.named(alarm).seen == f"it raises; mostly {cause} (3 of 4 times)"
    assert Causes().named(alarm) == alarm, "a resumed run may not have seen one yet"
    assert causes.named(replace(alarm, name="unscored")).seen == "it raises"


def test_grading_logs_each_cause_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Grader(ENVIRONMENT, workers=1) as grader:
        list(grader.grade((PROMPT, text) for text in ("four", "five", "4")))
        assert grader.stats.judge_exceptions == 2
    (record,) = [record for record in caplog.records if "judge raised" in record.getMessage()]
    assert "int(completion.text)" in record.getMessage()


@pytest.mark.slow
def test_check_fails_on_it() -> None:
    failed = {row.name: row for row in check_env(ENVIRONMENT, [PROMPT], budget_s=5).rows if not row.passed}
    assert "ValueError" in failed["judge raises nothing"].got
    assert all(row.name != "judge raises nothing" or row.passed for row in check_env(HardenedEnvironment(), budget_s=5).rows)


@pytest.mark.parametrize("stop", [False, True])
def test_training_is_loud_about_it(
    stop: bool, tmp_path: Path, tiny_model: Any, tiny_tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    fields = settings(
        tmp_path / "model",
        tmp_path / "out",
        sources=[{"environment": "letters"}, {"environment": "buggy", "eval_split": None}],
        steps=4,
        group_size=8,
        max_new_tokens=8,
        learning_rate=1e-3,
        **({} if stop else {"on_broken_grader": "warn"}),  # to stop is the default
    )
    given = {"letters": LettersEnvironment(), "buggy": BuggyEnvironment()}
    with caplog.at_level(logging.WARNING):
        if stop:
            told = (
                r"the judge of buggy raises on many completions .*; mostly ValueError: invalid literal for int\(\) .* "
                r"at \S*letters\.py:\d+ in judge \(\d+ of \d+ times\)"
            )
            with pytest.raises(UsageError, match=told):
                train(build_config(fields, "test"), given)
        else:
            with pytest.raises(UsageError, match="no verdict came from source 'buggy'"):
                train(build_config(fields, "test"), given)
            assert (tmp_path / "out/final/config.json").exists()
    rows = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["kind"] == "train"]
    assert steps[0]["buggy/judge_exceptions"] > 10 and steps[0]["letters/judge_exceptions"] == 0
    warnings = {row["name"]: row for row in rows if row["kind"] == "warning"}
    assert "int(completion.text)" in warnings["judge_exception"]["traceback"]
    assert "broken_grader" in warnings
    assert "buggy: its judge raised ValueError" in caplog.text and "letters.py" in caplog.text
    if not stop:
        assert steps[-1]["buggy/unscored"] == steps[-1]["buggy/judge_exceptions"] > 10
        assert len(steps) == 4


class Silent(LettersEnvironment):
    """Its own side fails on everything, the gold too."""

    name = "silent"

    def judge(self, prompt: Prompt, reference: Any, completion: Completion) -> Score:
        raise RuntimeError("out of order")


def test_a_source_without_a_verdict_is_silent_until_it_gives_one() -> None:
    ours = EnvironmentFailure("backend", "the server is down").score()
    down = replace(group(*["4"] * 100), scores=(ours,) * 100)
    bugs = GraderBugs(0.2)
    bugs.checked([down])
    assert bugs.silent() == {"buggy": 100} and bugs.metrics() == {}
    bugs.checked([down])
    assert bugs.metrics() == {"buggy/no_verdict": 1.0}
    again = GraderBugs(0.2)
    again.restore(json.loads(json.dumps(bugs.state())))
    assert again.metrics() == bugs.metrics()
    again.checked([group("4")])
    assert again.silent() == {} and again.metrics() == {}


def test_a_dead_server_is_no_bug_of_the_judge() -> None:
    def judge(_: Completion) -> Score:
        raise ConnectionError("refused")

    score = guarded(judge, Completion(text="a"), lambda: "4", 0.0)
    assert score.raised is not None
    bugs = GraderBugs(0.2)
    bugs.checked([replace(group(*["4"] * 100), scores=(score,) * 100)])
    assert not bugs.broken and bugs.silent()


def test_a_run_without_one_verdict_does_not_end_well(tmp_path: Path, letters_model: Path) -> None:
    fields = settings(letters_model, tmp_path / "out", steps=2, workers=0, eval_every=0, prompts_per_step=2, group_size=4)
    fields["sources"] = [{"environment": "silent", "eval_split": None}]
    with pytest.raises(UsageError, match=r"no verdict came from source 'silent' \(0 of 16 completions\)"):
        train(build_config(fields, "test"), {"silent": Silent()})
    assert (tmp_path / "out/final/config.json").exists()
