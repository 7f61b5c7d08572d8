"""The python tool keeps names within an episode, and nothing else."""

import pytest

from verigym import UsageError
from verigym.tools import OpenTool, PythonOptions, python

TOOL = python(wall_s=60, memory_mb=128)
QUICK = python(wall_s=3, memory_mb=128)


def run(tool: OpenTool, code: str) -> str:
    return tool.call({"code": code})


def test_state_output_and_errors() -> None:
    tool = TOOL.open("0")
    try:
        assert run(tool, "x = 3\nx * 2") == "6\n"
        assert run(tool, "print('a', x)\ndef f(): return x") == "a 3\n"
        assert run(tool, "f()") == "3\n"
        assert run(tool, "y = 1") == "(nothing was printed)"
        error = run(tool, "print(1)\n1 / 0")
        assert error.startswith("1\nTraceback") and "1 / 0" in error and error.endswith("ZeroDivisionError: division by zero\n")
        assert "SyntaxError" in run(tool, "1 +")
        assert "SyntaxError" in run(tool, "'\ud800'")
        assert "KeyboardInterrupt" in run(tool, "raise KeyboardInterrupt")
        assert run(tool, "import sys; print('e', file=sys.stderr)") == "e\n"
        assert run(tool, "x") == "3\n"
    finally:
        tool.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import time\ntime.sleep(600)", "took longer than 3 s"),
        ("a = bytearray(1 << 30)", "MemoryError"),
        ("import os; os._exit(0)", "the code ended the interpreter"),
        ("import os\nos.write(1, b'x' * (1 << 20))", ""),
    ],
    ids=["time", "memory", "exit", "output"],
)
def test_what_goes_over_a_limit_is_stopped_and_the_next_call_works(code: str, words: str) -> None:
    tool = (QUICK if "sleep" in code else TOOL).open("0")
    try:
        run(tool, "x = 3")
        assert words in run(tool, code)
        assert run(tool, "print(2)") == "2\n"
    finally:
        tool.close()


def test_episodes_share_nothing() -> None:
    one, other = TOOL.open("0"), TOOL.open("1")
    try:
        before = run(other, "import os; sorted(os.listdir('.'))")
        run(one, "x = 1\nopen('file', 'w').write('secret')")
        assert "NameError" in run(other, "x")
        assert run(other, "sorted(os.listdir('.'))") == before
    finally:
        one.close()
        other.close()


def test_more_episodes_live_than_runs_are_allowed_at_once() -> None:
    shared = python(backend_options={"workers": 1})
    tools = [shared.open(str(number)) for number in range(5)]
    try:
        for number, tool in enumerate(tools):
            run(tool, f"x = {number}")
        assert [run(tool, "x") for tool in tools] == [f"{number}\n" for number in range(5)]
    finally:
        for tool in tools:
            tool.close()


def test_options() -> None:
    assert python(wall_s=3).identity != python(wall_s=4).identity
    assert python().options == PythonOptions()
    with pytest.raises(UsageError, match="wall"):
        python(wall=3)
