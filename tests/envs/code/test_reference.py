import json
import pickle
from typing import Any

import pytest

from verigym.envs import UsageError
from verigym.envs.code.environment import CodeEnvironment
from verigym.envs.code.reference import CodeReference

STDIO = {"type": "stdio", "stdin": "3\n", "stdout": "6\n"}
CALL = {"type": "call", "function": "f", "args": [3], "kwargs": {}, "expected": 6}
EVERY = [
    STDIO,
    CALL,
    {"type": "assert", "code": "def check(candidate): ...", "entry_point": "f"},
    {"type": "assert", "code": "assert f(3) == 6"},
    {"type": "unittest", "code": "import unittest"},
    {"type": "pytest", "code": "from answer import f", "module": "answer"},
    {"type": "file", "stdin": "3\n", "path": "out/output.txt", "content": "6\n"},
    {"type": "checker", "code": "def check(stdin, stdout): ...", "stdin": "3\n"},
]
DEEP: Any = 1
for _ in range(3000):
    DEEP = [DEEP]
HUGE = 10**5000


def call(**fields: Any) -> dict[str, Any]:
    return {**CALL, **fields}


def test_the_defaults_are_the_contracts() -> None:
    reference = CodeEnvironment().prompt("q", tests=[STDIO]).references["code"]
    assert reference.model_dump(mode="json") == {
        "language": "python",
        "tests": [STDIO],
        "setup": "",
        "limits": {
            "wall_s": 10.0,
            "cpu_s": 10.0,
            "memory_mb": 512,
            "processes": 32,
            "output_kb": 4096,
            "files_mb": 64,
        },
        "policy": {
            "partial": False,
            "stop_at_first_failure": True,
            "float_tolerance": 0.0,
            "whitespace": "lines",
            "tuple_as_list": True,
            "trust": "separate",
        },
        "prelude": None,
        "prefix": "",
        "solution": None,
    }


def test_limits_reach_the_sandbox_unchanged() -> None:
    given = {"wall_s": 1.5, "cpu_s": 2.5, "memory_mb": 99, "processes": 7, "output_kb": 11, "files_mb": 13}
    limits = CodeReference(tests=[STDIO], limits=given).limits.for_sandbox()  # type: ignore[arg-type]
    assert {name: getattr(limits, name) for name in given} == given


def test_every_type_of_test_survives_json_and_pickle() -> None:
    env = CodeEnvironment()
    prompt = env.prompt("q", tests=EVERY, setup="import math", policy={"partial": True}, solution="def f(n): ...", prefix="x")
    back = env.load_prompt(json.loads(json.dumps(prompt.model_dump(mode="json"))))
    assert back == prompt
    assert back.key == prompt.key
    assert [type(test) for test in env.reference(back).tests] == [type(test) for test in env.reference(prompt).tests]
    assert pickle.loads(pickle.dumps(env.reference(prompt))) == env.reference(prompt)  # noqa: S301


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1.5, 2**200, "\ud800", "x", [], [[1, "a", None]], {"a": [{"b": 1.0}]}],
    ids=range(10),
)
def test_values_that_json_carries_come_back_as_they_were(value: Any) -> None:
    env = CodeEnvironment()
    prompt = env.prompt("q", tests=[call(args=[value], kwargs={"k": value}, expected=value)])
    back = env.reference(env.load_prompt(json.loads(json.dumps(prompt.model_dump(mode="json"))))).tests[0]
    assert back == env.reference(prompt).tests[0]
    assert json.dumps(back.expected) == json.dumps(value)  # type: ignore[union-attr]


def checker(body: str) -> dict[str, str]:
    return {"type": "checker", "stdin": "[3]", "code": f"def check(stdin, stdout):\n    {body}"}


@pytest.mark.parametrize(
    "body",
    [
        "return int(stdout) == eval(stdin)[0]",
        "return ast.literal_eval(stdout) == 3",
        "return model.eval(stdout)",
        "return evaluate()",
    ],
)
def test_a_checker_may_evaluate_what_is_not_the_output(body: str) -> None:
    CodeEnvironment().prompt("q", tests=[checker(body)])


def test_a_checker_may_evaluate_the_output_where_verdicts_may_be_forged() -> None:
    CodeEnvironment().prompt("q", tests=[checker("return eval(stdout) == 24")], policy={"trust": "shared"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "'tests' is missing"),
        ({"tests": []}, "tests"),
        ({"test": [STDIO]}, "did you mean 'tests'"),
        ({"tests": [STDIO], "language": "cobol"}, "language"),
        ({"tests": [STDIO], "limits": {"wall": 1}}, "limits.wall"),
        ({"tests": [STDIO], "limits": {"wall_s": 0}}, "limits.wall_s"),
        ({"tests": [STDIO], "policy": {"partly": True}}, "policy.partly"),
        ({"tests": [STDIO], "policy": {"float_tolerance": -1.0}}, "float_tolerance"),
        ({"tests": [STDIO], "policy": {"float_tolerance": float("nan")}}, "float_tolerance"),
        ({"tests": [STDIO], "policy": {"whitespace": "some"}}, "whitespace"),
        ({"tests": [STDIO], "policy": {"trust": "none"}}, "trust"),
        ({"tests": [STDIO], "solution": " \n"}, "solution is empty"),
        ({"tests": [{"type": "stdin"}]}, "stdin"),
        ({"tests": [{"stdin": "", "stdout": ""}]}, "tests.0"),
        ({"tests": [{**STDIO, "stderr": ""}]}, "stderr"),
        ({"tests": [{"type": "stdio", "stdin": "3"}]}, "stdout"),
        ({"tests": [{"type": "stdio", "stdin": "\ud800", "stdout": ""}]}, "lone surrogate"),
        ({"tests": [CALL], "language": "bash"}, "tests.0 is of type 'call', which is for Python"),
        (
            {"tests": [STDIO], "language": "cpp", "prelude": "leetcode"},
            "prelude is 'leetcode', which is for programs in Python",
        ),
        ({"tests": [STDIO, EVERY[3]], "language": "cpp"}, "tests.1 is of type 'assert'"),
        ({"tests": [{"type": "file", "path": "/etc/passwd", "content": ""}]}, "below the work directory"),
        ({"tests": [{"type": "file", "path": "a/../../b", "content": ""}]}, "below the work directory"),
        ({"tests": [{"type": "file", "path": "", "content": ""}]}, "below the work directory"),
        ({"tests": [{"type": "file", "path": ".", "content": ""}]}, "below the work directory"),
        ({"tests": [{"type": "file", "path": "a\0b", "content": ""}]}, "below the work directory"),
        ({"tests": [{"type": "pytest", "code": "x", "module": "a.b"}]}, "module"),
        ({"tests": [{"type": "assert", "code": ""}]}, "code"),
        ({"tests": [call(expected=(1, 2))]}, "write a list"),
        ({"tests": [call(args=[{1: 2}])]}, "JSON's keys are strings"),
        ({"tests": [call(args=[[{1}]])]}, "a set, which JSON cannot carry"),
        ({"tests": [call(expected=b"x")]}, "a bytes, which JSON cannot carry"),
        ({"tests": [call(expected=float("nan"))]}, "nan, which JSON cannot carry"),
        ({"tests": [call(expected=[float("inf")])]}, "inf, which JSON cannot carry"),
        ({"tests": [call(expected=HUGE)]}, "more than 4000 digits"),
        ({"tests": [call(kwargs={"a": HUGE})]}, "more than 4000 digits"),
        ({"tests": [call(expected=DEEP)]}, "nested more than 90 levels"),
        ({"tests": [call(args=3)]}, "args"),
        ({"tests": [checker("return eval(stdout) == 24")]}, "tests.0 is a checker that calls eval()"),
        ({"tests": [STDIO, checker("exec (stdout)")]}, "tests.1 is a checker that calls exec()"),
        ({"tests": [checker("return f(stdout)")], "setup": "f = lambda text: eval(text)"}, "calls eval()"),
    ],
    ids=range(40),
)
def test_mistakes_are_explained_when_the_prompt_is_made(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        CodeEnvironment().prompt("q", **fields)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("path", ["output.txt", "./output.txt", "a/b/c.txt", "..txt", "a..b"])
def test_files_below_the_work_directory_are_fine(path: str) -> None:
    CodeEnvironment().prompt("q", tests=[{"type": "file", "path": path, "content": ""}])


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"limits": {"memory_mb": 31}}, "limits.memory_mb"),
        ({"limits": {"processes": 10**9}}, "limits.processes"),
        ({"tests": [{"type": "call", "function": "f g", "expected": 1}]}, "expected the name of a function"),
        ({"tests": [{"type": "call", "function": "f.g", "expected": 1}]}, "expected the name of a function"),
        ({"tests": [{"type": "call", "function": "class", "expected": 1}]}, "expected the name of a function"),
    ],
)
def test_what_no_sandbox_and_no_program_could_do_is_refused(reference: dict[str, Any], message: str) -> None:
    stdio = [{"type": "stdio", "stdin": "1\n", "stdout": "1\n"}]
    with pytest.raises(UsageError, match=message):
        CodeEnvironment().prompt("x", **{"tests": stdio, **reference})
