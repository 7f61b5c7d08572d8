"""The kit must be able to fail: each deliberately bad environment is caught by the check that is there for it."""

import asyncio

import pytest
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

from verigym.envs import Completion, Options, Panel, Score, Status, StepScore, UsageError
from verigym.envs.conformance import ConformanceError, check_env
from verigym.envs.hacks import HACKS, garbage, hacks, malformed


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


def test_slowness_is_caught():
    assert failed(SlowEnvironment(), budget_s=0.1) == {"time budget"}


def test_what_no_worker_can_receive_is_caught():
    assert failed(UnsendableEnvironment()) == {"works in a worker process"}


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
    assert failed(broken(**no_gold, panel=Panel(gold="free"))) == {"works in a worker process"}


def test_a_declared_panel_is_what_is_checked():
    free = ContainsEnvironment()
    assert not {name for name in failed(free) if name.startswith(("echo", "hack"))}
    assert "echo of the prompt" in failed(broken(panel=Panel(echo="maximum")))


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
        panel = dict(hacks(prompt, gold))
        assert panel == dict(hacks(prompt, gold))
        assert gold not in panel.values()
        assert len(panel) == (len(HACKS) if gold else 2)
    assert r"\boxed{}" in dict(hacks(prompt, r"\boxed{4}")).values()
    assert len(dict(garbage(prompt))) == 7
    assert max(len(text) for _, text in garbage(prompt)) == 200_000
    assert all(text.startswith(r"\boxed{") for _, text in malformed(r"\boxed{4}"))
    Completion(text=dict(garbage(prompt))["lone surrogates"])
