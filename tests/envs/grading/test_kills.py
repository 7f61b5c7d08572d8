"""The blame rule for workers that hang or die: never a reward for our failures, always a verdict for the model's text."""

import time

import pytest
from held import Held
from more_envs import HangingGoldEnvironment, SlowStartEnvironment
from processes import alive, children, eventually
from sample_envs import (
    HangingEnvironment,
    HardenedScriptedEnvironment,
    HungryEnvironment,
    NanEnvironment,
    RaisingEnvironment,
    ScriptedEnvironment,
    SuicidalEnvironment,
)

from verigym.envs import Status
from verigym.envs.grading import Grader


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        (RaisingEnvironment(), "internal"),
        (NanEnvironment(), "internal"),
        (HungryEnvironment(), "internal"),
        pytest.param(HangingEnvironment(), "timeout", marks=pytest.mark.slow),
        (SuicidalEnvironment(), "crashed"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.slow
def test_a_broken_environment_gives_errors_only_and_soon(environment, kind):
    work = [(environment.prompt(f"q{i}", answer=str(i)), f"answer: {i % 3}") for i in range(40)]
    timeout_s = 0.3 if kind == "timeout" else 60.0
    with Grader(environment, workers=2, timeout_s=timeout_s, memory_bytes=2**30) as grader:
        scores = grader.grade(work)
        deaths = grader.stats.worker_deaths
    assert len(scores) == 40
    assert {s.status for s in scores} == {Status.ERROR}
    assert {s.reward for s in scores} == {None}
    assert {s.error.kind for s in scores} == {kind}
    assert deaths <= 12, "it is soon given up"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("HANG", "no verdict after 3 s"),
        ("DIE", "killed by SIGKILL"),
        ("EXIT", "exited with code 3"),
        ("FORK", "answered item"),
    ],
)
def test_a_text_that_brings_its_worker_down_gets_the_floor_and_harms_no_other(text, why):
    env = ScriptedEnvironment()
    texts = ["answer: 0", "answer: no", text, "answer: 3", "answer: 4"]
    work = [(env.prompt(f"q{i}", answer=str(i)), t) for i, t in enumerate(texts)]
    with Grader(env, workers=2, timeout_s=3.0 if text == "HANG" else 60.0) as grader:
        scores = grader.grade(work)
    if text == "FORK":  # the first answer is right; the second is met, and refused, by whoever comes next
        assert [s.reward for s in scores] == [1.0, 0.0, 0.0, 1.0, 1.0]
        return
    assert [s.status for s in scores] == [Status.CORRECT, Status.INCORRECT, Status.LIMIT, Status.CORRECT, Status.CORRECT]
    assert scores[2].reward == 0.0
    assert why in scores[2].reason
    assert scores[2].grader == env.grader
    assert grader.stats.worker_deaths == 2
    # A judge that bounds its own work ends no worker: so this is reported like an exception, not only charged to the text.
    assert scores[2].raised is not None and why in scores[2].raised.error
    assert grader.stats.judge_exceptions == 1


def test_a_hardened_environment_says_that_only_a_text_can_hang_it():
    env = HardenedScriptedEnvironment()
    with Grader(env, workers=1, timeout_s=0.5) as grader:
        (score,) = grader.grade([(env.prompt("q", answer="1"), "HANG")])
    assert score.status is Status.LIMIT and score.raised is None
    assert grader.stats.judge_exceptions == 0


def test_text_that_eats_memory_or_raises_gets_the_floor():
    env = ScriptedEnvironment()
    prompt = env.prompt("q", answer="1")
    with Grader(env, workers=1, memory_bytes=2**30) as grader:
        scores = grader.grade([(prompt, "EAT"), (prompt, "RAISE"), (prompt, "answer: 1")])
    assert [s.status for s in scores] == [Status.LIMIT, Status.LIMIT, Status.CORRECT]
    assert "MemoryError" in scores[0].reason


@pytest.mark.slow
def test_a_kill_takes_what_the_item_started():
    env = ScriptedEnvironment()
    started = set()
    held = Held()
    with Grader(env, workers=1, timeout_s=3.0) as grader:
        future = grader.submit(env.prompt("q", answer="1"), "GRANDCHILD")
        while not future.done():
            for worker in held.new_children():
                started |= children(worker)
            time.sleep(0.02)
    assert future.result().status is Status.LIMIT
    assert len(started) == 2
    assert eventually(lambda: not any(alive(pid) for pid in started), 300)


def test_an_error_by_our_limits_is_not_charged_to_the_text_when_the_control_fails_too():
    env = HangingEnvironment()
    with Grader(env, workers=1, timeout_s=0.2, retries=0) as grader:
        (score,) = grader.grade([(env.prompt("q", answer="1"), "answer: 1")])
    assert score.error.kind == "timeout" and score.error.retryable
    assert "a control item ended its worker too" in score.reason


def test_output_of_an_environment_reaches_neither_the_channel_nor_stdout(capfd):
    env = ScriptedEnvironment()
    with Grader(env, workers=1) as grader:
        (score,) = grader.grade([(env.prompt("q", answer="1"), "PRINT")])
    assert score.status is Status.NO_ANSWER
    assert "noise" not in capfd.readouterr().out


def test_the_log_says_why_and_stays_short(caplog):
    env = RaisingEnvironment()
    with Grader(env, workers=1) as grader:
        grader.grade((env.prompt(f"q{i}", answer="1"), "secret completion") for i in range(30))
    messages = [r.getMessage() for r in caplog.records if r.name == "verigym.cli.grade"]
    assert len(messages) == 2
    assert all("raising" in message and "ValueError: broken" in message for message in messages)
    assert ["Traceback" in message for message in messages].count(True) == 1
    assert not any("secret" in message for message in messages)


@pytest.mark.slow
def test_a_bad_prompt_does_not_bring_down_its_environment():
    env = HangingGoldEnvironment()
    bad, good = env.prompt("bad", answer="HANG"), env.prompt("good", answer="1")
    with Grader(env, workers=1, timeout_s=3.0, retries=0) as grader:
        scores = grader.grade([(bad, f"answer: {n}") for n in range(6)] + [(good, "answer: 1")] * 3)
    assert all(score.status is Status.ERROR for score in scores[:6])
    assert [score.reward for score in scores[6:]] == [1.0, 1.0, 1.0]


def test_what_an_environment_prepares_is_not_on_the_items_time():
    with Grader(SlowStartEnvironment(), workers=1, timeout_s=2.0) as grader:
        prompt = SlowStartEnvironment().prompt("q", answer="1")
        assert grader.grade([(prompt, "answer: 1")])[0].reward == 1.0
        assert grader.stats.worker_deaths == 0
