"""Several tests of one program: order, stopping, the same verdict however many run at a time."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from verigym.envs import Completion, Grader, Status
from verigym.envs.code.environment import CodeEnvironment
from verigym.envs.code.outcome import PASSED, wrong
from verigym.envs.code.run_all import Results
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.job import Job

# Sleeps as long as the input says and prints it; what the tests expect decides which of them fail.
SLEEPER = "```python\nimport time\nn = input()\ntime.sleep(float(n))\nprint(n)\n```"


def sleeps(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"type": "stdio", "stdin": stdin, "stdout": stdout} for stdin, stdout in pairs]


class Runs:
    """The runs of programs in the local sandbox."""

    def __init__(self) -> None:
        self.started: list[Job] = []
        self.going = self.most = 0
        """At once."""
        self.lock = threading.Lock()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Counts them."""
    found, execute = Runs(), LocalSandbox.execute

    def counted(self: LocalSandbox, job: Job, *more: Any) -> Any:
        with found.lock:
            found.started.append(job)
            found.going += 1
            found.most = max(found.most, found.going)
        try:
            return execute(self, job, *more)
        finally:
            with found.lock:
                found.going -= 1

    monkeypatch.setattr(LocalSandbox, "execute", counted)
    return found


@pytest.mark.parametrize("parallel", [1, 2, 5])
@pytest.mark.parametrize("stop", [True, False])
def test_the_first_failure_in_order_is_reported_though_a_later_one_came_sooner(parallel: int, stop: bool) -> None:
    env = CodeEnvironment(parallel=parallel)
    tests = sleeps(("0.3", "0.3"), ("0.4", "wrong"), ("0", "wrong"), ("0.1", "wrong"))
    prompt = env.prompt("q", tests=tests, policy={"stop_at_first_failure": stop})
    score = env.score(prompt, SLEEPER)
    assert score.reason == "test 2 of 4 (stdio, input '0.4'): line 1: expected 'wrong', got '0.4'"
    assert score.components == {"passed": 0.25}


@pytest.mark.parametrize("parallel", [1, 2])
def test_no_test_is_started_after_a_failure(parallel: int, runs: Runs) -> None:
    env = CodeEnvironment(parallel=parallel)
    tests = sleeps(("0", "wrong"), *[("1", "1")] * 80)
    score = env.score(env.prompt("q", tests=tests), SLEEPER)
    assert score.status is Status.INCORRECT
    assert len(runs.started) < 40


@pytest.mark.slow
def test_tests_of_one_program_run_at_the_same_time(runs: Runs) -> None:
    env = CodeEnvironment(parallel=4, backend_options={"workers": 4})
    assert env.score(env.prompt("q", tests=sleeps(*[("2", "2")] * 4)), SLEEPER).status is Status.CORRECT
    assert len(runs.started) == 4 and 2 <= runs.most <= 4


def test_a_failure_of_ours_after_the_programs_failure_changes_nothing_and_before_it_is_an_error() -> None:
    broken = {"type": "checker", "code": "def check(stdin, stdout)"}
    bad, good = sleeps(("0", "wrong"), ("0", "0"))
    env = CodeEnvironment(parallel=1)
    program = "```python\nprint(input())\n```"
    for stop in (True, False):
        policy = {"stop_at_first_failure": stop}
        assert env.score(env.prompt("q", tests=[good, bad, broken], policy=policy), program).status is Status.INCORRECT
        assert env.score(env.prompt("q", tests=[{**broken, "stdin": "1"}, bad], policy=policy), program).status is Status.ERROR
    # Where the fraction counts, every test does.
    partial = env.prompt("q", tests=[good, bad, {**broken, "stdin": "1"}], policy={"partial": True})
    assert env.score(partial, program).status is Status.ERROR


def test_results_want_what_can_still_matter() -> None:
    results = Results(4, stop_at_first_failure=True)
    results.record(2, wrong("no"))
    assert [results.wanted(index) for index in range(4)] == [True, True, False, False]
    results.record(0, PASSED)
    assert results.wanted(1)
    results.record(1, wrong("no"))
    assert not results.wanted(1)
    everything = Results(2, stop_at_first_failure=False)
    everything.record(0, wrong("no"))
    assert everything.wanted(1)


def test_calls_after_a_death_are_made_in_a_new_session_where_the_fraction_counts() -> None:
    program = "```python\nimport os\nseen = []\ndef f(n):\n    seen.append(n)\n    if n == 1: os._exit(0)\n    return seen\n```"
    tests = [
        {"type": "call", "function": "f", "args": [n], "expected": expected} for n, expected in ((0, [0]), (1, [1]), (2, [2]))
    ]
    env = CodeEnvironment()
    score = env.score(env.prompt("q", tests=tests, policy={"partial": True}), program)
    assert score.reward == pytest.approx(2 / 3)
    assert "test 2 of 3 (f(1)): ended" in score.reason


def test_mixed_types_in_one_reference() -> None:
    tests = [
        {"type": "call", "function": "f", "args": [1], "expected": 2},
        {"type": "stdio", "stdin": "", "stdout": "ready"},
        {"type": "call", "function": "f", "args": [2], "expected": 4},
        {"type": "file", "path": "log", "content": "ready"},
        {"type": "call", "function": "f", "args": [3], "expected": 7},
    ]
    program = "```python\ndef f(n):\n    return 2 * n\nopen('log', 'w').write('ready')\nprint('ready')\n```"
    env = CodeEnvironment()
    assert env.score(env.prompt("q", tests=tests[:4]), program).status is Status.CORRECT
    score = env.score(env.prompt("q", tests=tests), program)
    assert score.reason == "test 5 of 5 (f(3)): expected 7, got 6"
    assert score.components == {"passed": 0.8}


def test_threads_and_pickled_copies_agree() -> None:
    env = CodeEnvironment()
    prompts = env.examples()
    expected = [env.score(prompt, env.gold(prompt) or "").status for prompt in prompts]
    assert expected == [Status.CORRECT] * len(prompts)
    copy = pickle.loads(pickle.dumps(env))  # noqa: S301
    with ThreadPoolExecutor(6) as pool:
        scores = pool.map(lambda prompt: copy.score(prompt, copy.gold(prompt) or "").status, prompts * 3)
        assert list(scores) == expected * 3


def test_in_the_graders_workers() -> None:
    env = CodeEnvironment()
    prompt = env.prompt("q", tests=sleeps(("0", "0"), ("0.1", "0.1")))
    wrong_one = "```python\nprint(1)\n```"
    bomb = "```python\nx = []\nwhile True: x.append(bytearray(1 << 24))\n```"
    with Grader(env, workers=2) as grader:
        scores = list(grader.grade([(prompt, Completion(text=text)) for text in (SLEEPER, wrong_one, bomb, "none", SLEEPER)]))
        assert grader.stats.worker_deaths == 0
    statuses = [Status.CORRECT, Status.INCORRECT, Status.LIMIT, Status.NO_ANSWER, Status.CORRECT]
    assert [score.status for score in scores] == statuses
