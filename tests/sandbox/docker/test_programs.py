"""Programs in real containers: every language, sessions, tests, files."""

from __future__ import annotations

import pytest

from verigym.sandbox import (
    Answer,
    CannotCross,
    Ended,
    Limits,
    Loaded,
    Program,
    Raised,
    RunStatus,
    Sandbox,
    SandboxFailure,
    TestSuite,
)

pytestmark = pytest.mark.slow

TWICE = {
    "python": "print(2 * int(input()))",
    "bash": "read n; echo $((2 * n))",
    "c": '#include <stdio.h>\nint main() { int n; scanf("%d", &n); printf("%d\\n", 2 * n); }',
    "cpp": "#include <bits/stdc++.h>\nint main() { int n; std::cin >> n; std::cout << 2 * n << '\\n'; }",
    "javascript": "console.log(2 * parseInt(require('fs').readFileSync(0, 'utf8')))",
}


@pytest.mark.parametrize("language", TWICE)
def test_every_language_runs(box: Sandbox, language: str) -> None:
    program, built = box.build(Program(source=TWICE[language], language=language))
    assert program is not None, built
    for n in (21, -4):
        result = box.run(program, stdin=f"{n}\n".encode())
        assert result.ok, result
        assert result.stdout == f"{2 * n}\n".encode()


def test_what_does_not_compile_says_why(box: Sandbox) -> None:
    program, result = box.build(Program(source="int main() { return x; }", language="c"))
    assert program is None
    assert result.status is RunStatus.COMPILE
    assert "undeclared" in result.message


def test_exit_code_streams_and_arguments(box: Sandbox) -> None:
    source = "import sys\nprint(sys.argv[1:])\nprint('so', file=sys.stderr)\nsys.exit(3)"
    result = box.run(Program(source=source, args=("a", "b c")))
    assert (result.status, result.exit_code) == (RunStatus.RUNTIME, 3)
    assert (result.stdout, result.stderr) == (b"['a', 'b c']\n", b"so\n")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3_000_000])
def test_bytes_of_any_size_pass_unchanged(box: Sandbox, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    source = "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data)\nsys.stderr.buffer.write(data[::-1])"
    result = box.run(Program(source=source), stdin=data[:size])
    assert result.ok, result.message
    assert result.stdout == data[:size]
    assert result.stderr == data[:size][::-1]


def test_files_in_and_out(box: Sandbox) -> None:
    source = "data = open('in/a.bin', 'rb').read()\nopen('out.bin', 'wb').write(data * 3)\nopen('empty', 'w')"
    content = bytes(range(256)) * 1000
    program = Program(source=source, files={"in/a.bin": content})
    result = box.run(program, collect=["out.bin", "empty", "absent", "in/a.bin"])
    assert result.files == {"out.bin": content * 3, "empty": b"", "in/a.bin": content}


def test_a_link_is_no_file(box: Sandbox) -> None:
    source = "import os\nos.symlink('/etc/passwd', 'a')\nos.link('main.py', 'b')\nos.mkfifo('c')"
    assert box.run(Program(source=source), collect=["a", "b", "c"]).files == {}


def test_a_session(box: Sandbox) -> None:
    source = """
calls = []
def f(n): calls.append(n); print("at", n); return 2 * n, calls
def grow(xs): xs.append(1)
def fail(): raise KeyError("x")
def lazy(): return lambda: 1
def end(): import os; os._exit(0)
"""
    with box.session(Program(source=source)) as session:
        assert isinstance(session.loaded, Loaded)
        assert session.call("f", [3]) == Answer((6, [3]), {}, "at 3\n")
        assert session.call("f", [4]) == Answer((8, [3, 4]), {}, "at 4\n")
        assert session.call("grow", [[0]]) == Answer(None, {0: [0, 1]}, "")
        raised = session.call("fail")
        assert isinstance(raised, Raised)
        assert raised.type == "KeyError"
        assert isinstance(session.call("lazy"), CannotCross)
        big = ["x" * 1000] * 1000
        answer = session.call("f", [big])
        assert isinstance(answer, Answer)
        assert answer.value[0] == 2 * big
        ended = session.call("end")
        assert isinstance(ended, Ended)
        assert ended.result.status is RunStatus.RUNTIME


def test_a_call_that_never_returns(box: Sandbox) -> None:
    with box.session(Program(source="def f():\n    while True: pass"), Limits(wall_s=0.5)) as session:
        ended = session.call("f")
        assert isinstance(ended, Ended)
        assert ended.result.status is RunStatus.TIME


@pytest.mark.parametrize(
    ("suite", "right"),
    [
        (TestSuite(kind="assert", code="assert f(3) == 6\nassert f(-4) == -8"), True),
        (TestSuite(kind="assert", code="def check(candidate):\n    assert candidate(3) == 7", entry_point="f"), False),
        (
            TestSuite(
                kind="unittest",
                code="class T(unittest.TestCase):\n    def test(self): self.assertEqual(f(3), 6)",
                setup="import unittest",
            ),
            True,
        ),
        (TestSuite(kind="pytest", code="from solution import f\ndef test_f(): assert f(3) == 6"), True),
        (TestSuite(kind="pytest", code="from solution import f\ndef test_f(): assert f(3) == 5"), False),
    ],
    ids=["assert", "check-wrong", "unittest", "pytest", "pytest-wrong"],
)
def test_suites(box: Sandbox, suite: TestSuite, right: bool) -> None:
    verdict = box.test(Program(source="def f(n): return 2 * n"), suite)
    assert verdict.passed is right, verdict
    assert verdict.fault == (None if right else "candidate")


def test_a_missing_tool_is_our_fault_and_says_what_to_do(box: Sandbox) -> None:
    from verigym.sandbox.languages import LANGUAGES, Language, register_language

    register_language(Language(name="nonesuch", source="a.x", run=("nonesuch-interpreter", "{source}")))
    try:
        with pytest.raises(SandboxFailure, match="nonesuch-interpreter.*image"):
            box.run(Program(source="", language="nonesuch"))
    finally:
        del LANGUAGES["nonesuch"]
    assert box.run(Program(source="print(1)")).ok
