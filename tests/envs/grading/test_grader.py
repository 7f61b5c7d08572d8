import asyncio
import threading

import pytest
from sample_envs import CrowdedEnvironment, ExactEnvironment, FlakyEnvironment, ForeignEnvironment, ScriptedEnvironment

from verigym.envs import Completion, Status, UsageError
from verigym.envs.grading import Grader


def items(environment, count, right=lambda i: i % 2):
    for i in range(count):
        yield environment.prompt(f"q{i}", answer=str(i)), f"answer: {i if right(i) else 'no'}"


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_grade_gives_one_score_an_item_in_order_and_the_same_as_score(workers):
    env = ExactEnvironment()
    work = list(items(env, 50))
    with Grader(env, workers=workers) as grader:
        scores = grader.grade(work)
    assert [s.reward for s in scores] == [float(i % 2) for i in range(50)]
    for (prompt, completion), score in zip(work, scores, strict=True):
        assert score.model_dump(exclude={"seconds"}) == env.score(prompt, completion).model_dump(exclude={"seconds"})
    assert grader.stats.by_status == {"exact": {Status.CORRECT: 25, Status.INCORRECT: 25}}


def test_nothing_to_grade():
    with Grader(ExactEnvironment()) as grader:
        assert grader.grade([]) == []


def test_items_go_to_the_environment_of_their_prompt():
    exact, scripted = ExactEnvironment(), ScriptedEnvironment()
    work = [(e.prompt("q", answer="1"), "answer: 1") for e in (exact, scripted, exact)]
    with Grader({"exact": exact, "scripted": scripted}, workers=1) as grader:
        assert [s.grader for s in grader.grade(work)] == [exact.grader, scripted.grader, exact.grader]


def test_text_that_is_no_unicode_and_token_ids_arrive_unchanged():
    env = ExactEnvironment()
    prompt = env.prompt("q\udc80", answer="\ud800x\x00é")
    completion = Completion(text="answer: \ud800x\x00é", token_ids=(1, 2), finish_reason="length")
    with Grader(env, workers=1) as grader:
        assert grader.grade([(prompt, completion)])[0].reward == 1.0


def test_stream_holds_a_bounded_number_of_items():
    env = ExactEnvironment()
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield env.prompt(f"q{taken}", answer="1"), "answer: 1"

    with Grader(env, workers=1) as grader:
        stream = grader.stream(endless(), look_ahead=10)
        for _ in range(25):
            assert next(stream).reward == 1.0
        stream.close()
    assert taken <= 25 + 10


def test_submit_does_not_wait_for_the_verdict():
    env = ScriptedEnvironment()
    with Grader(env, workers=1) as grader:
        grader.start()
        futures = [grader.submit(env.prompt(f"q{i}", answer="1"), "SLEEP") for i in range(4)]
        assert not futures[-1].done()  # one worker sleeps for all four
        assert [f.result(timeout=300).status for f in futures] == [Status.NO_ANSWER] * 4


def test_equal_items_in_flight_are_graded_once():
    env = ScriptedEnvironment()
    prompt = env.prompt("q", answer="1")
    with Grader(env, workers=1) as grader:
        scores = grader.grade([(prompt, "SLEEP"), (prompt, "SLEEP"), (prompt, "SLEEP two")])
        assert [s.status for s in scores] == [Status.NO_ANSWER] * 3
        assert grader.stats.deduplicated == 1


def test_agrade_leaves_the_event_loop_free():
    env = ScriptedEnvironment()

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        with Grader(env, workers=2) as grader:
            ticker = asyncio.create_task(tick())
            scores = await grader.agrade((env.prompt(f"q{i}", answer=str(i)), "SLEEP") for i in range(6))
            ticker.cancel()
        return ticks, scores

    ticks, scores = asyncio.run(main())
    assert len(scores) == 6
    assert ticks > 10


def test_works_from_other_threads():
    env = ExactEnvironment()
    results = {}
    with Grader(env, workers=2) as grader:

        def run(n):
            results[n] = [s.reward for s in grader.grade(items(env, 20, right=lambda i: i % 3 == n))]

        threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {n: [float(i % 3 == n) for i in range(20)] for n in range(3)}


@pytest.mark.parametrize(("failures", "status", "retries"), [(2, Status.CORRECT, 2), (3, Status.ERROR, 2)])
def test_retryable_errors_are_tried_again(tmp_path, failures, status, retries):
    env = FlakyEnvironment(folder=str(tmp_path), failures=failures)
    with Grader(env, workers=1, retries=2) as grader:
        (score,) = grader.grade([(env.prompt("q", answer="1"), "answer: 1")])
        assert score.status is status
        assert grader.stats.retries == retries


def test_other_errors_are_not_tried_again(tmp_path):
    env = FlakyEnvironment(folder=str(tmp_path), failures=1, retryable=False)
    prompt = env.prompt("q", answer="1")
    with Grader(env, workers=1, retries=2) as grader:
        (score,) = grader.grade([(prompt, "answer: 1")])
    assert score.error is not None and score.error.kind == "unavailable"
    assert (tmp_path / prompt.key).read_text() == "x"


@pytest.mark.parametrize("limit", [1, 2])
def test_concurrency_limit_holds_without_starving_others(tmp_path, limit):
    crowded, exact = CrowdedEnvironment(folder=str(tmp_path)), ExactEnvironment()
    work = [(crowded.prompt(f"q{i}", answer=""), "x") for i in range(8)]
    with Grader([crowded, exact], workers=3, concurrency={"crowded": limit}) as grader:
        grader.start()
        slow = [grader.submit(*item) for item in work]
        assert grader.submit(exact.prompt("q", answer="1"), "answer: 1").result(timeout=300).reward == 1.0
        assert not slow[-1].done()
        crowds = [int(f.result().answer) for f in slow]
    assert max(crowds) <= limit


def test_foreign_environments_are_protected_too():
    prompt = ForeignEnvironment().prompt("q", answer="1")
    for mode, expected in [("good", 1.0), ("raise", None), ("none", None), ("range", None)]:
        env = ForeignEnvironment(mode)
        with Grader(env, workers=1) as grader:
            (score,) = grader.grade([(prompt, "answer: 1")])
        assert score.reward == expected, mode
        assert score.grader == env.grader


def test_mistakes_in_the_call_are_named():
    env = ExactEnvironment()
    with pytest.raises(UsageError, match="workers=-1"):
        Grader(env, workers=-1)
    with pytest.raises(UsageError, match="timeout_s=0"):
        Grader(env, timeout_s=0)
    with pytest.raises(UsageError, match="concurrency: no environment 'exakt'; did you mean 'exact'"):
        Grader(env, concurrency={"exakt": 1})
    with pytest.raises(UsageError, match="two are called 'exact'"):
        Grader([env, env])
    with pytest.raises(UsageError, match="is given under 'other'"):
        Grader({"other": env})
    with pytest.raises(UsageError, match="expected an environment"):
        Grader(["math"])
    with pytest.raises(UsageError, match="none given"):
        Grader([])
    with Grader(env) as grader, pytest.raises(UsageError, match="environment 'scripted', which this grader does not have"):
        grader.submit(ScriptedEnvironment().prompt("q", answer="1"), "x")
    with pytest.raises(UsageError, match="closed"):
        grader.submit(env.prompt("q", answer="1"), "x")
