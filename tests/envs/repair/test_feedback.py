"""`code_with_feedback`: the model learns what the public tests say, and is judged by all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cases import cases

import verigym
from verigym import Completion, Message, Turn, UsageError, run_episode
from verigym.envs.contract.schema import Prompt
from verigym.envs.repair import environment

HIDDEN = (71, 5041)
CALLS = [(3, 9), (-2, 4), HIDDEN, (0, 0)]
TESTS = [{"type": "call", "function": "square", "args": [n], "expected": value} for n, value in CALLS]
RIGHT = "def square(n):\n    return n * n"
WRONG = "def square(n):\n    return n + n"
CODED = "def square(n):\n    return {3: 9, -2: 4}[n]"
SAYS = "Write the whole program again: {} left."


def env_of(**options: Any) -> Any:
    return verigym.load("code_with_feedback", **options)


ENV = env_of(public=2)
TASK = ENV.prompt("Write square(n).", tests=TESTS, solution=RIGHT)


def fenced(program: str, tag: str = "python") -> str:
    return f"```{tag}\n{program}\n```"


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = iter(texts)
    return lambda messages: next(left)


def play(*programs: str, env: Any = ENV, task: Prompt = TASK) -> Completion:
    return run_episode(env, task, scripted(*map(fenced, programs)))


def replies(episode: Completion) -> list[str]:
    return [turn.text for turn in episode.turns if turn.role == "user"]


def test_a_program_is_repaired() -> None:
    episode = play(WRONG, RIGHT)
    assert replies(episode) == [
        "2 of 2 public tests failed.\nTest 1, square(3): expected 9, got 6\nTest 2, square(-2): expected 4, got -4\n"
        + SAYS.format("2 tries")
    ]
    assert (episode.finish_reason, episode.text) == ("stop", fenced(RIGHT))
    assert episode.outcome == {"rounds": 2, "public": 2, "passed": [0, 2]}
    score = ENV.score(TASK, episode)
    assert (score.reward, score.reason, score.grader) == (1.0, "passed 4 tests", ENV.grader)


def test_the_public_tests_alone_do_not_pay() -> None:
    episode = play(CODED)
    assert (replies(episode), episode.finish_reason) == ([], "stop")
    score = ENV.score(TASK, episode)
    assert score.reward == 0.0 and score.reason.startswith("test 3 of 4 (square(71)): raised KeyError")


def test_the_last_program_counts_and_no_other() -> None:
    assert ENV.score(TASK, play(WRONG, WRONG, RIGHT)).reward == 1.0
    spoilt = play(WRONG, CODED.replace("9", "8"), WRONG)
    assert len(replies(spoilt)) == 2 and ENV.score(TASK, spoilt).reward == 0.0
    turns = (Turn(role="assistant", text="Please write it."), Turn(role="user", text=fenced(RIGHT)))
    assert ENV.score(TASK, Completion(text="Please write it.", turns=turns)).reward == 0.0
    gave_up = Completion(
        text="I give up.", turns=(Turn(role="assistant", text=fenced(RIGHT)), Turn(role="assistant", text="I give up."))
    )
    assert ENV.score(TASK, gave_up).status == "no_answer"


def test_the_verdict_is_that_of_code() -> None:
    code = verigym.load("code")
    task = code.prompt("Write square(n).", tests=TESTS, solution=RIGHT)
    for text in (fenced(RIGHT), fenced(WRONG), fenced(CODED), "no", ""):
        ours, theirs = ENV.score(TASK, text), code.score(task, text)
        unstamped = {"seconds": 0.0, "grader": ""}
        assert ours.model_copy(update=unstamped) == theirs.model_copy(update=unstamped)
    assert ENV.gold(TASK) == code.gold(task)


FIRST = {
    "I think about it.": "No program was run: no fenced block",
    fenced("def square(n) return n"): "2 of 2 public tests failed.\nTest 1, square(3): the program does not load: SyntaxError",
    fenced("def square(n):\n    return 1 / 0"): "2 of 2 public tests failed.\nTest 1, square(3): raised ZeroDivisionError",
    fenced(
        "def square(n):\n    return abs(n) * 3"
    ): "1 of 2 public tests failed.\nTest 2, square(-2): expected 4, got 6\nWrite",
    fenced("def square(n):\n    return 'x' * 100000"): "2 of 2 public tests failed.\nTest 1, square(3): expected 9, got 'xxx",
    fenced("#" * 2000): "No program was run: the program has 2 KB, over 1.",
}


@cases("text, words", FIRST.items())
def test_what_the_model_reads(text: str, words: str) -> None:
    env = env_of(public=2, max_program_kb=1)
    session = env.open(env.prompt("Write square(n).", tests=TESTS), "0")
    (message,) = session.respond(session.read(text)).messages
    assert message.role == "user" and message.content.startswith(words)
    assert message.content.endswith(SAYS.format("2 tries")) and len(message.content) < 600


PROBES = [
    WRONG,
    CODED,
    "import gc\ndef square(n):\n    return repr([o for o in gc.get_objects() if isinstance(o, (dict, tuple))])[-3000:]",
    "import os\ndef square(n):\n    return sorted(os.environ) + sorted(os.listdir('.')) + sorted(os.listdir('/tmp'))",
    "import sys\ndef square(n):\n    frame, seen = sys._getframe(), []\n    while frame:\n"
    "        seen.append(repr(frame.f_locals))\n        frame = frame.f_back\n    raise ValueError(str(seen)[:4000])",
    "print(open(__file__).read())\nimport sys\ndef square(n):\n    print(n, file=sys.stderr)\n    sys.exit(str(n))",
]


@pytest.mark.parametrize("show", [True, False])
def test_hidden_tests_are_in_nothing_that_the_model_reads(show: bool) -> None:
    """Probes that show what is in the program's process, and every kind of failure."""
    env = env_of(public=(1, 3), show_expected=show, rounds=2)
    task = env.prompt("Write square(n).", tests=[*TESTS, TESTS[2], TESTS[2]], solution=RIGHT)
    for program in [*PROBES, "def square(n) return", ""]:
        read = json.dumps([turn.text for turn in play(program, WRONG, env=env, task=task).turns if turn.role == "user"])
        assert str(HIDDEN[0]) not in read and str(HIDDEN[1]) not in read and "square(3)" not in read
        assert " of 6" not in read and " of 4" not in read and "hidden" not in read
    assert "of 2 public tests failed" in read or "No program" in read


STDIO = [{"type": "stdio", "stdin": f"{n}\n", "stdout": f"{value}\n"} for n, value in CALLS]
ASSERTS = [{"type": "assert", "code": f"assert square({n}) == {value}"} for n, value in CALLS]
CASE = (
    "import unittest\nfrom solution import square\nclass T(unittest.TestCase):\n"
    "    def test(self):\n        self.assertEqual(square({}), {})"
)
CASES = [{"type": "unittest", "code": CASE.format(n, value)} for n, value in CALLS]
CHECKERS = [
    {"type": "checker", "code": f"def check(stdin, stdout):\n    return stdout == '{value}'", "stdin": str(n)}
    for n, value in CALLS
]
FILES = [{"type": "file", "stdin": str(n), "path": "o.txt", "content": str(value)} for n, value in CALLS]
PRINTS = "n = int(input())\nprint(n + n)\nopen('o.txt', 'w').write(str(n + n))"
DIES = "raise KeyError('mine')"


@pytest.mark.parametrize(
    ("tests", "program", "shown", "concealed"),
    [
        (TESTS, WRONG, "square(3): expected 9, got 6", "square(3): a wrong result"),
        (STDIO, PRINTS, "stdio, input '3\\n': line 1: expected '9', got '6'", "stdio, input '3\\n': a wrong result"),
        (STDIO, DIES, "ended with exit code 1: KeyError: 'mine'", "ended with exit code 1: KeyError: 'mine'"),
        (FILES, PRINTS, "expected '9', got '6'", "file, input '3': a wrong result"),
        (ASSERTS, WRONG, "assert: AssertionError: at line 1 of the test: assert square(3) == 9", "assert: a wrong result"),
        (CASES, WRONG, "AssertionError: 6 != 9", "unittest: a wrong result"),
        (CHECKERS, PRINTS, "the checker refuses '6\\n'", "checker, input '3': a wrong result"),
    ],
    ids=["call", "stdio", "exit", "file", "assert", "unittest", "checker"],
)
def test_what_was_expected_is_shown_or_not(tests: Any, program: str, shown: str, concealed: str) -> None:
    for show, words in ((True, shown), (False, concealed)):
        env = env_of(show_expected=show, rounds=2)
        task = env.prompt("Write it.", tests=tests)
        (reply,) = replies(play(program, program, env=env, task=task))
        assert reply.startswith("The public test failed.\nTest 1, ") and words in reply
        assert show or ("9" not in reply)


def test_a_limit_is_told() -> None:
    env = env_of(show_expected=False, rounds=2)
    task = env.prompt("Write it.", tests=STDIO, limits={"wall_s": 0.5, "cpu_s": 0.5})
    (reply,) = replies(play("while True: pass", "", env=env, task=task))
    assert "time limit 0.5 s" in reply


@cases(
    "tests",
    [
        [{"type": "call", "function": "square", "args": [n], "expected": n * n} for n in range(5)],
        [{"type": "assert", "code": f"assert square({n}) == {n * n}"} for n in range(5)],
    ],
)
def test_slow_programs_are_stopped_between_public_tests(tests: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "TESTS_S", 0.0)
    env = env_of(public=4, parallel=1)
    episode = play(RIGHT, RIGHT, RIGHT, env=env, task=env.prompt("Write square(n).", tests=tests))
    late = "0 of 4 public tests failed. 3 were not run, for those before took more than 0 s."
    assert [reply.split("\n")[0] for reply in replies(episode)] == [late, late]
    assert episode.outcome == {"rounds": 3, "public": 4, "passed": [1, 1]}
    assert env.score(env.prompt("Write square(n).", tests=tests), episode).reward == 1.0, "the verdict runs them all"


def test_the_failures_of_a_reply_are_capped() -> None:
    many = [{"type": "call", "function": "square", "args": [n], "expected": n * n} for n in range(5, 15)]
    env = env_of(public=9, max_failures=2)
    (reply,) = replies(play(WRONG, RIGHT, env=env, task=env.prompt("Write square(n).", tests=many)))
    assert [line.partition(",")[0] for line in reply.splitlines()] == [
        "9 of 9 public tests failed.",
        "Test 1",
        "Test 2",
        "7 more failed.",
        SAYS.format("2 tries"),
    ]


def test_rounds_are_counted() -> None:
    env = env_of(rounds=1)
    episode = play(WRONG, env=env, task=env.prompt("Write square(n).", tests=TESTS))
    assert (replies(episode), episode.finish_reason) == ([], "stop")
    assert episode.outcome == {"rounds": 1, "public": 1, "passed": []}
    last = play(WRONG, WRONG, WRONG)
    assert replies(last)[1].endswith(SAYS.format("1 try")) and last.finish_reason == "stop"
    assert last.outcome is not None and last.outcome["rounds"] == 3


def test_our_own_failure_is_no_verdict() -> None:
    broken = [{"type": "assert", "code": "assert square(3) == (9"}, {"type": "assert", "code": "assert square(1) == 1"}]
    env = env_of()
    task = env.prompt("Write square(n).", tests=broken)
    episode = play(RIGHT, env=env, task=task)
    assert episode.failure is not None and episode.failure.kind == "gold_invalid"
    assert env.score(task, episode).reward is None


def test_partial_rewards_are_those_of_the_reference() -> None:
    task = ENV.prompt("Write square(n).", tests=TESTS, policy={"partial": True})
    assert ENV.score(task, play(CODED, task=task)).reward == 0.5


@pytest.mark.parametrize(
    ("public", "count", "words"),
    [
        (1, 1, "public=1 of 1 test leaves none hidden"),
        (4, 4, "public=4 of 4 tests leaves none hidden"),
        (5, 4, "names one that is not there; give the task more tests, or use the environment 'code'"),
        ((0, 1), 2, r"public=\(0, 1\) of 2 tests leaves none hidden"),
        ((7,), 4, "names one that is not there"),
    ],
)
def test_one_test_stays_hidden(public: Any, count: int, words: str) -> None:
    env = env_of(public=public)
    with pytest.raises(UsageError, match=words):
        env.prompt("Write square(n).", tests=TESTS[:count])
    with pytest.raises(UsageError, match=words):
        form = env_of(public=(0,)).prompt("Write square(n).", tests=TESTS[: max(count, 2)]).model_dump(mode="json")
        form["references"]["code_with_feedback"]["tests"] = TESTS[:count]
        env.load_prompt({**form, "key": ""})


@pytest.mark.parametrize("public", [0, -1, (), (-1,), (1, 1), "all"])
def test_which_tests_can_be_public(public: Any) -> None:
    with pytest.raises(UsageError, match="options of 'code_with_feedback': .*public"):
        env_of(public=public)


def test_sessions_share_nothing_and_are_closed_once() -> None:
    one, other = ENV.open(TASK, "0"), ENV.open(TASK, "0")
    one.respond(one.read(fenced(WRONG)))
    assert other.respond(other.read("no")).messages[0].content.endswith(SAYS.format("2 tries"))
    assert one.close() == one.close() == {"rounds": 1, "public": 2, "passed": [0]}
    with pytest.raises(UsageError, match="closed"):
        one.respond(one.read(fenced(RIGHT)))


@pytest.mark.slow
def test_in_worker_processes() -> None:
    with verigym.Grader(ENV, workers=1) as grader:
        scores = grader.grade([(TASK, play(WRONG, RIGHT)), (TASK, play(CODED))])
    assert [score.reward for score in scores] == [1.0, 0.0]
