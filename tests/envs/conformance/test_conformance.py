"""The kit must be able to fail: each deliberately bad environment is caught by the check that is there for it."""

import asyncio
import resource

import pytest
from check_envs import (
    AddedTasks,
    CountingTasks,
    GreedyEnvironment,
    HangingTasks,
    HashTasks,
    HonestTasks,
    LonelyTasks,
    OneSplitTasks,
    PickyEnvironment,
    RandomTasks,
    SeedlessTasks,
    SharedTasks,
    StuckEnvironment,
    TidyingEnvironment,
    TwofoldEnvironment,
)
from sample_envs import (
    ContainsEnvironment,
    ExactEnvironment,
    ForeignEnvironment,
    ForgetfulEnvironment,
    HackableEnvironment,
    HangingEnvironment,
    RacyEnvironment,
    RaisingEnvironment,
    RandomEnvironment,
    ScriptedEnvironment,
    SlowEnvironment,
    SuicidalEnvironment,
    UngoldenEnvironment,
    UnsendableEnvironment,
)

from verigym.envs import Completion, ExpectedVerdicts, Options, Score, Status, StepScore, UsageError
from verigym.envs.conformance import ConformanceError, check_env, client
from verigym.envs.conformance.hacks import HACKS, garbage, hacks, malformed
from verigym.envs.conformance.report import CheckRow, Report, shorten


def failed(environment, prompts=1, **options):
    tasks = ExactEnvironment.examples(environment)[:prompts]
    return {row.name for row in check_env(environment, tasks, **options).failures}


def test_a_good_environment_passes():
    report = check_env(ExactEnvironment())
    assert report.passed
    report.raise_if_failed()
    assert str(report).endswith("passed")
    assert len(report.rows) > 35


def test_paying_for_the_answer_anywhere_is_caught():
    names = failed(HackableEnvironment())
    assert {"echo of the prompt", "hack: flood of answers, the right one among them", "hack: hedge in text"} <= names
    assert "hack: the form with a wrong answer" not in names


def test_chance_is_caught():
    assert {"deterministic: same again", "same in another process"} <= failed(RandomEnvironment())


def test_shared_state_between_threads_is_caught():
    assert failed(RacyEnvironment(), prompts=3) == {"same in 4 threads at once"}


@pytest.mark.slow
def test_slowness_is_caught():
    assert failed(SlowEnvironment(), budget_s=2.0) == {"time budget"}


def test_what_no_worker_can_receive_is_caught():
    assert failed(UnsendableEnvironment()) == {"works in a worker process"}


def test_a_judge_that_changes_its_reference_is_caught():
    report = check_env(TidyingEnvironment(), TidyingEnvironment().examples())
    assert {row.name for row in report.failures} >= {"gold"}
    assert "changed its prompt's reference or metadata" in str(report.failures)


def test_a_wrong_gold_is_caught():
    assert failed(UngoldenEnvironment()) == {"gold"}


def test_prompts_that_do_not_survive_json_are_caught():
    assert "prompts survive JSON" in failed(ForgetfulEnvironment())


@pytest.mark.parametrize("environment", [HangingEnvironment(), SuicidalEnvironment()], ids=lambda e: e.name)
def test_hanging_and_dying_are_caught_without_harm(environment):
    assert {"works in a worker process", "gold", "empty"} <= failed(environment, budget_s=0.1)


def test_raising_is_caught():
    assert {"gold", "empty", "garbage: null bytes"} <= failed(RaisingEnvironment())
    assert "empty" in failed(ForeignEnvironment("raise"))


def broken(**attributes):
    return type("Broken", (ExactEnvironment,), attributes)()


def variant(judge):
    return broken(judge=lambda self, prompt, reference, completion: judge(completion))


class Loose(Options):
    model_config = {"frozen": False}


def test_identity_and_options_are_checked():
    assert "options are frozen" in failed(broken(options_type=Loose, judge=lambda *a: Score.no_answer()))
    env = ExactEnvironment()
    env.grader = "something else"
    assert "grader id" in failed(env)
    assert "reward range" in failed(broken(reward_range=(0.0, 0.0)))


def test_inconsistent_scores_are_caught():
    assert "status fits the reward" in failed(variant(lambda c: Score.correct(reward=0.0)))
    assert "status fits the reward" in failed(variant(lambda c: Score.incorrect(reward=1.0)))
    outside = Score(reward=0.0, status=Status.INCORRECT, steps=(StepScore(start=0, end=10**9, reward=0.0),))
    assert "steps lie in the text" in failed(variant(lambda c: outside))


def test_a_missing_gold_must_be_declared():
    no_gold = {"gold": lambda self, prompt: None}
    assert failed(broken(**no_gold)) == {"gold", "works in a worker process"}  # its class is local, too
    assert failed(broken(**no_gold, expected_verdicts=ExpectedVerdicts(gold="free"))) == {"works in a worker process"}


def test_declared_verdicts_are_what_is_checked():
    free = ContainsEnvironment()
    assert not {name for name in failed(free) if name.startswith(("echo", "hack"))}
    assert "echo of the prompt" in failed(broken(expected_verdicts=ExpectedVerdicts(echo="maximum")))


def test_it_runs_inside_an_event_loop():
    async def main():
        return check_env(ExactEnvironment())

    assert asyncio.run(main()).passed


def test_sample_prompts_come_from_the_environment():
    class Counting(ScriptedEnvironment):
        def examples(self):
            return ()

    with pytest.raises(UsageError, match="no sample tasks: pass prompts="):
        check_env(Counting())


def test_failures_are_shown_with_their_reason():
    report = check_env(UngoldenEnvironment())
    with pytest.raises(ConformanceError, match="ungolden@1.*breaks its contract") as caught:
        report.raise_if_failed()
    assert "no line that starts with 'answer: '" in str(caught.value)
    assert f"1 of {len(report.rows)} checks failed" in str(report)


def test_the_panel_is_the_same_every_time_and_never_holds_the_gold():
    prompt = ExactEnvironment().prompt("q", answer="4")
    for gold in ("answer: 4", r"\boxed{4}", "4", None):
        texts = dict(hacks(prompt, gold))
        assert texts == dict(hacks(prompt, gold))
        assert gold not in texts.values()
        assert len(texts) == (len(HACKS) if gold else 2)
    assert r"\boxed{}" in dict(hacks(prompt, r"\boxed{4}")).values()
    assert len(dict(garbage(prompt))) == 7
    assert max(len(text) for _, text in garbage(prompt)) == 200_000
    assert all(text.startswith(r"\boxed{") for _, text in malformed(r"\boxed{4}"))
    Completion(text=dict(garbage(prompt))["lone surrogates"])


@pytest.mark.slow
def test_a_text_that_hangs_is_a_row_that_names_it():
    report = check_env(PickyEnvironment(), budget_s=2.5)
    (cause,) = report.causes
    assert cause.example.name == "works in a worker process"
    assert cause.example.got == "4 texts: no answer in 5 s"
    assert cause.example.text.startswith("'aaaa") and cause.example.text.endswith("(200,000 characters)")
    assert {"garbage: one long word", "garbage: white space", "monster: digits without end"} < set(cause.names)
    assert "hack: repeated text" not in cause.names


def test_memory_is_taken_in_no_process_of_ours_and_the_text_is_named():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = check_env(GreedyEnvironment(), memory_bytes=2**30)
    (row,) = report.failures
    assert row.name == "judge raises nothing" and row.got.startswith("MemoryError at ")
    assert row.text and row.cause.startswith("MemoryError")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10**6  # KiB


def test_the_report_comes_where_everything_hangs_and_none_can_be_sent():
    local = type("Local", (HangingEnvironment,), {})()
    report = check_env(local, budget_s=0.2)
    rows = {row.name: row for row in report.failures}
    assert rows["works in a worker process"].got == "cannot start"
    assert rows["gold"].got == "no answer in 0.4 s" and rows["gold"].text == "'answer: four'"
    assert rows["all was tried"].got == "stopped after 3 texts"
    assert rows["hack: hedge in text"].got == "not tried"
    assert rows["hack: hedge in text"].cause == rows["all was tried"].cause


@pytest.mark.slow
def test_the_whole_check_has_a_time():
    report = check_env(HangingEnvironment(), budget_s=30, total_s=3)
    assert "the check's 3 s are over; total_s gives it more" in str(report)


@pytest.mark.parametrize("limits", [{"budget_s": 0}, {"total_s": -1}, {"memory_bytes": 0}])
def test_limits_are_positive(limits):
    with pytest.raises(UsageError, match="expected more than 0"):
        check_env(ExactEnvironment(), **limits)


@pytest.mark.slow
def test_an_environment_that_never_gets_ready_has_a_report(monkeypatch):
    monkeypatch.setattr(client, "START_TIMEOUT_S", 2.0)
    report = check_env(StuckEnvironment(), total_s=2)
    assert not report.passed and "was not ready after" in str(report)


def test_causes_are_told_once_with_the_text_that_won():
    report = check_env(HackableEnvironment())
    assert len(report.failures) > 8
    (cause,) = report.causes
    assert cause.example.text == "'Say four.'" and cause.example.prompt == "'Say four.'" and cause.example.got == "1 correct"
    assert set(cause.names) == {row.name for row in report.failures}
    said = str(report)
    assert said.count("FAIL") == 1 and f"echo of the prompt (and {len(cause.names) - 1} more)" in said
    assert "      text:   'Say four.'" in said and "also:   echo of the last message; hack:" in said
    assert said.endswith(f"{len(cause.names)} of {len(report.rows)} checks failed, 1 cause")


def test_each_way_to_raise_is_a_cause():
    report = check_env(TwofoldEnvironment())
    raised = [row for row in report.failures if row.name == "judge raises nothing"]
    assert [row.got.split(":")[0] for row in raised] == ["IndexError", "ValueError"]
    assert len(report.causes) == 2


@pytest.mark.parametrize("hardened", [False, True])
def test_a_judge_that_raises_on_the_gold_too_is_shown_with_its_place(hardened):
    environment = variant(lambda completion: completion.txt)
    type(environment).hardened = hardened
    report = check_env(environment)
    row = next(row for row in report.failures if row.name == "judge raises nothing")
    assert "no attribute 'txt' at " in row.got and "test_conformance.py:" in row.got
    assert row.why.endswith("judge is at fault, whatever the text")
    cause = next(cause for cause in report.causes if cause.example is row)
    assert {"gold", "empty"} <= set(cause.names)
    assert "FAIL  judge raises nothing (and " in str(report)


def test_texts_are_shown_escaped_and_short():
    assert shorten("a\n\x1b[0m\ud800") == r"'a\n\x1b[0m\ud800'"
    assert shorten("x" * 1000) == f"'{'x' * 120}' ... '{'x' * 40}' (1,000 characters)"


TASK_ROWS = ("again", "another process", "another seed", "train and test")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "rows"),
    [
        (HonestTasks(), ""),
        (SeedlessTasks(), "another seed"),
        (AddedTasks(), "another seed"),
        (LonelyTasks(), "another seed"),
        (RandomTasks(), "again, another process"),
        (CountingTasks(), "again, another process"),
        (HashTasks(), "another process"),
        (SharedTasks(), "train and test"),
        (OneSplitTasks(), "train and test"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_depends_on_other_than_split_seed_and_index_is_caught(environment, rows):
    failures = check_env(environment).failures
    assert all(row.name.startswith("tasks: ") for row in failures)
    assert [part for part in TASK_ROWS if any(part in row.name for row in failures)] == [*filter(None, rows.split(", "))]


@pytest.mark.slow
def test_the_rows_on_tasks_say_what_is_wrong():
    def why(environment):
        return " ".join(f"{row.got}: {row.why}" for row in check_env(environment).failures)

    assert "the same tasks: prompt_at ignores its seed" in why(SeedlessTasks())
    assert "the same tasks, moved by 1: the seed is added to the index" in why(AddedTasks())
    assert "64 of 64 questions: 'Say " in why(SharedTasks())
    assert "raised ValueError: no split 'test'" in why(OneSplitTasks())


@pytest.mark.slow
def test_hanging_tasks_are_caught():
    report = check_env(HangingTasks(), budget_s=2.5)
    assert {row.name: row.got for row in report.failures} == {"tasks: the same again": "no answer in 5 s"}


def test_a_cause_is_shown_by_a_text_that_says_more_than_garbage():
    rows = [CheckRow(name, False, "0", "1 correct", text=name, cause="c") for name in ("garbage: null bytes", "hack: hedge")]
    (cause,) = Report("own@1", (*rows, CheckRow("gold", True, "1", "1"))).causes
    assert cause.example is rows[1] and cause.names == ("hack: hedge", "garbage: null bytes")
    (alone,) = Report("own@1", (rows[0],)).causes
    assert alone.example is rows[0]
    assert "hack: hedge (and 1 more)" in str(Report("own@1", tuple(rows)))
