"""Our side's failures are no verdict, and say what to do. Real failures: no daemon, no isolation, options that do not exist."""

from typing import Any

import pytest

from verigym.envs import EnvironmentFailure, Status, UsageError
from verigym.envs.code.environment import CodeEnvironment
from verigym.envs.code.outcome import failure_of
from verigym.sandbox import SandboxFailure

TESTS = [{"type": "stdio", "stdin": "", "stdout": "1"}]
PROGRAM = "```python\nprint(1)\n```"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend_options": {"level": 1}}, "allow_unsafe"),
        ({"backend_options": {"packages": ["no-such-package"]}}, "no-such-package"),
        ({"backend_options": {"read_only": ["/no/such"]}}, "there is no /no/such"),
        ({"backend": "docker", "backend_options": {"base_url": "unix:///nowhere/docker.sock"}}, "docker"),
    ],
    ids=["no isolation", "no such package", "no such path", "no daemon"],
)
def test_a_sandbox_that_cannot_work_is_unavailable(options: dict[str, Any], message: str) -> None:
    env = CodeEnvironment(**options)
    env.prepare()  # a worker of the Grader's must start all the same, to say why in each verdict
    with pytest.raises(EnvironmentFailure) as caught:
        env.check()
    assert caught.value.kind == "unavailable"
    assert message in caught.value.message.lower()
    score = env.score(env.prompt("q", tests=TESTS), PROGRAM)
    assert score.status is Status.ERROR and score.error is not None
    assert (score.error.kind, score.error.retryable) == ("unavailable", False)


def test_what_needs_no_sandbox_gets_its_verdict_without_one() -> None:
    env = CodeEnvironment(backend_options={"level": 1})
    assert env.score(env.prompt("q", tests=TESTS), "no program here").status is Status.NO_ANSWER


def test_a_failure_that_may_pass_is_retryable() -> None:
    failure = failure_of(SandboxFailure("a worker died"))
    assert (failure.kind, failure.retryable, failure.message) == ("backend", True, "a worker died")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "chroot"}, "backend"),
        ({"backend_options": {"no_such_option": 1}}, "no_such_option"),
        ({"backend_options": {"workers": 0}}, "workers=0: expected a whole number of at least 1"),
        ({"extract": "first"}, "extract"),
        ({"parallel": 0}, "parallel"),
        ({"max_program_kb": 0}, "max_program_kb"),
        ({"extracts": "all"}, "did you mean 'extract'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CodeEnvironment(**options)


@pytest.mark.parametrize("language", ["python", "bash"])
@pytest.mark.parametrize(
    "solution",
    ["print(1)", "print(1)\n", "echo '''\n```\n'''\n````\n", "x\n```\ny\n```\nz", "\n  indented\n", "a\r\nb"],
    ids=range(6),
)
def test_the_gold_gives_back_the_solution(language: str, solution: str) -> None:
    from verigym.envs.extraction.fences import find_program

    env = CodeEnvironment()
    gold = env.gold(env.prompt("q", tests=TESTS, language=language, solution=solution))
    assert gold is not None
    found = find_program(gold, language, "fenced").program
    assert found is not None
    assert found.rstrip("\n") == solution.replace("\r\n", "\n").rstrip("\n")


def test_golds_of_the_other_options() -> None:
    fields = {"tests": TESTS, "prefix": "import sys\n", "solution": "import sys\nprint(1)\n"}
    env = CodeEnvironment(extract="all")
    assert env.gold(env.prompt("q", **fields)) == "import sys\nprint(1)\n"
    env = CodeEnvironment(extract="all", continue_prefix=True)
    prompt = env.prompt("q", **fields)
    assert env.gold(prompt) == "print(1)\n"
    assert env.score(prompt, "print(1)\n").answer == "import sys\nprint(1)\n"
    assert env.gold(env.prompt("q", **{**fields, "prefix": "import os\n"})) is None
    assert env.gold(env.prompt("q", tests=TESTS)) is None


KILLS = [
    "__import__('os').kill(0, 9)",
    "__import__('signal').raise_signal(9)",
    "__import__('os').kill(__import__('os').getpid(), 9)",
]


@pytest.mark.parametrize("text", KILLS)
def test_a_program_that_has_the_tests_killed_gets_no_more_than_a_wrong_one(text: str) -> None:
    """Assertions may evaluate what the program gives them; a checker may where it says that verdicts can be forged."""
    env = CodeEnvironment()
    checker = {"type": "checker", "stdin": "", "code": "def check(stdin, stdout):\n    return eval(stdout) == 6"}
    for test, program in (
        (checker, f"print({text!r})"),
        ({"type": "assert", "code": "assert eval(f()) == 6"}, f"def f():\n    return {text!r}"),
    ):
        policy = {"trust": "shared"} if test is checker else {}
        score = env.score(env.prompt("q", tests=[test], policy=policy), f"```python\n{program}\n```")
        assert (score.status, score.reward) == (Status.INCORRECT, 0.0), score.reason
        assert "killed" in score.reason and "not without the program" in score.reason


def test_tests_that_kill_themselves_are_nobody_s_wrong_answer() -> None:
    env = CodeEnvironment()
    tests = [{"type": "assert", "code": "import os\nos.kill(os.getpid(), 9)"}]
    score = env.score(env.prompt("q", tests=tests), "```python\nx = 1\n```")
    assert score.reward is None and score.error is not None and "the process of the tests was killed" in score.reason


@pytest.mark.parametrize(
    ("body", "is_the_tests"),
    [
        ("    assert f(tmp_path) == str(tmp_path)", True),
        ("    p = tmp_path / 'a'\n    assert f(p) == str(p)", True),
        ("    p = tmp_path / 'a'\n    p = f('') or p\n    assert f(p) == str(p)", False),
        ("    if f('x'):\n        assert f(tmp_path) == str(tmp_path)", False),
        ("    p = tmp_path / f('a')\n    assert f(p)", False),
    ],
)
def test_a_folder_of_pytest_s_that_cannot_cross_is_the_test_s_fault(body: str, is_the_tests: bool) -> None:
    env = CodeEnvironment()
    code = f"from solution import f\ndef test_a(tmp_path):\n{body}"
    score = env.score(env.prompt("q", tests=[{"type": "pytest", "code": code}]), "```python\ndef f(p):\n    return str(p)\n```")
    if is_the_tests:
        assert score.error is not None and score.error.kind == "gold_invalid" and "cannot cross" in score.reason
    else:
        assert score.reward == 0.0, score
