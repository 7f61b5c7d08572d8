"""A mistake in a call of the sandbox's Python API is one sentence that names the parameter and says what to give."""

from __future__ import annotations

import re
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import verigym.sandbox
from verigym.sandbox import (
    Answer,
    Language,
    Limits,
    LocalSandbox,
    Program,
    TestSuite,
    open_sandbox,
    register_language,
    typed_options,
)
from verigym.sandbox.arguments import checked

PROGRAM = "a Program, or the source of a Python program as a text"
Box = Any
api: Any = verigym.sandbox  # the calls below are wrong on purpose


def in_session(call: Callable[[Any], object]) -> Callable[[Box], object]:
    def run(box: Box) -> object:
        with box.session("def f(x): return x") as session:
            return call(session)

    return run


WRONG: list[tuple[Callable[[Box], object], str]] = [
    (lambda box: box.run(3), f"Sandbox.run: program: expected {PROGRAM}; got an int, 3"),
    (lambda box: box.run(code="print(1)"), f"Sandbox.run: no parameter is called 'code'; it takes program ({PROGRAM})"),
    (lambda box: box.run("1", timeout=5), "limits (Limits, such as Limits(wall_s=2)), collect (a list of texts)"),
    (lambda box: box.run("1", limit=5), "Sandbox.run: no parameter is called 'limit'; did you mean 'limits'?"),
    (lambda box: box.run(), f"Sandbox.run: 'program' is missing: expected {PROGRAM}"),
    (lambda box: box.run("1", 3), "Sandbox.run: stdin: expected bytes or a text; got an int, 3"),
    (lambda box: box.run("1", None), "Sandbox.run: stdin: expected bytes or a text; got None"),
    (lambda box: box.run("1", limits={"wall_s": 1}), "got a dict, {'wall_s': 1}: give Limits(wall_s=1)"),
    (lambda box: box.run("1", limits=5), "Sandbox.run: limits: expected Limits, such as Limits(wall_s=2); got an int, 5"),
    (lambda box: box.run("1", collect="a.txt"), "collect: expected a list of texts; got a text, 'a.txt': give ['a.txt']"),
    (lambda box: box.run("1", collect=["a", 3]), "Sandbox.run: collect[1]: expected a text; got an int, 3"),
    (lambda box: box.run("1", b"", None, (), 7), "Sandbox.run: too many arguments without a name, from 7 on; name them"),
    (lambda box: box.build(b"int main(){}"), "Sandbox.build: program: expected"),
    (lambda box: box.session(3), f"Sandbox.session: program: expected {PROGRAM}; got an int, 3"),
    (lambda box: box.test("1", "assert 1"), "Sandbox.test: suite: expected TestSuite; got a text, 'assert 1'"),
    (lambda box: box.test("1"), "Sandbox.test: 'suite' is missing: expected TestSuite"),
    (lambda box: box.test("1", api.TestSuite(kind="assert", code=""), 3), "Sandbox.test: limits: expected Limits"),
    (in_session(lambda session: session.call(3)), "Session.call: function: expected a text; got an int, 3"),
    (in_session(lambda session: session.call("f", "ab")), "Session.call: args: expected a list; got a text, 'ab': give"),
    (in_session(lambda session: session.call("f", 1)), "Session.call: args: expected a list; got an int, 1"),
    (in_session(lambda session: session.call("f", [], ["x"])), "Session.call: kwargs: expected a dictionary of texts"),
    (in_session(lambda session: session.call("f", [], {3: 1})), "Session.call: a name in kwargs: expected a text; got"),
    (in_session(lambda session: session.call("f", [1, object()])), "Session.call: args[1]: expected plain data, such"),
    (lambda _: api.Program(), "Program: 'source' is missing: expected a text"),
    (lambda _: api.Program("print(1)"), "too many arguments without a name, from 'print(1)' on; name them, such as source="),
    (lambda _: api.Program(source=b"1"), "Program: source: expected a text; got bytes, b'1': give its .decode()"),
    (lambda _: api.Program(source=None), "Program: source: expected a text; got None"),
    (lambda _: api.Program(source="", language=3), "Program: language: expected a text; got an int, 3"),
    (lambda _: api.Program(source="", args="ab"), "Program: args: expected a list of texts; got a text, 'ab': give ['ab']"),
    (lambda _: api.Program(source="", args=[3]), "Program: args[0]: expected a text; got an int, 3"),
    (lambda _: api.Program(source="", files={"a": "b"}), "files['a']: expected bytes; got a text, 'b': give its .encode()"),
    (lambda _: api.Program(source="", files=["a"]), "files: expected a dictionary of texts to bytes; got a list, ['a']"),
    (lambda _: api.Program(source="", files={3: b""}), "Program: a name in files: expected a text; got an int, 3"),
    (lambda _: api.Program(source="", stdin="a"), "Program: no parameter is called 'stdin'; it takes source (a text)"),
    (lambda _: api.Limits(timeout=5), "Limits: no parameter is called 'timeout'; it takes wall_s (a number)"),
    (lambda _: api.Limits(5), "Limits: too many arguments without a name, from 5 on; name them, such as wall_s="),
    (lambda _: api.TestSuite(kind="assert", code=b""), "TestSuite: code: expected a text; got bytes"),
    (lambda _: api.TestSuite(kind="assert", code="", setup=None), "TestSuite: setup: expected a text; got None"),
    (lambda _: api.open_sandbox(3), "open_sandbox: backend: expected a text; got an int, 3"),
    (lambda _: api.open_sandbox(["local"]), "open_sandbox: backend: expected a text; got a list, ['local']"),
    (lambda _: api.typed_options("local", 3), "typed_options: given: expected a dictionary of texts"),
    (lambda _: api.register_language("lua"), "register_language: language: expected Language; got a text, 'lua'"),
    (lambda _: api.Language(name="lua", source="m.lua", run="lua"), "Language: run: expected a list of texts; got"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_an_argument_of_the_wrong_type_is_one_sentence(call: Callable[[Box], object], message: str, box: LocalSandbox) -> None:
    with pytest.raises(TypeError, match=re.escape(message)) as caught:
        call(box)
    assert "\n" not in str(caught.value)


VALUES: list[tuple[Callable[[Box], object], str]] = [
    (lambda _: api.TestSuite(kind="foo", code=""), "TestSuite: kind: expected one of assert, unittest, pytest, checker"),
    (lambda _: api.TestSuite(kind="shared", code="", form="x"), "TestSuite: form: expected one of assert, unittest, pytest"),
    (lambda _: api.Program(source="", prelude="all"), "Program: prelude: expected one of none, leetcode; got a text, 'all'"),
    (lambda _: api.Limits(wall_s="5"), "limit wall_s='5': expected a number above 0"),
    (lambda _: api.Limits(memory_mb=-5), "limit memory_mb=-5: expected a number above 31"),
    (lambda _: api.open_sandbox(timeout="5"), "limits are given to each run: box.run(program, limits=Limits(wall_s=2))"),
    (lambda box: box.run("print(1)", "\ud800"), "stdin: character 0 is half of a surrogate pair, which UTF-8 has no bytes for"),
    (lambda box: box.run("1", collect=["/etc/passwd"]), "collect: '/etc/passwd': expected a path below the work folder, such"),
    (lambda box: box.run("1", collect=["a", "in/../../b"]), "collect: 'in/../../b': expected a path below the work folder"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), VALUES, ids=[message for _, message in VALUES])
def test_a_wrong_value_is_one_sentence(call: Callable[[Box], object], message: str, box: LocalSandbox) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call(box)


def test_what_is_right_still_passes(box: LocalSandbox) -> None:
    program = Program(source="import sys; print(sys.argv[1:], input())", args=["a", "b"], files={"x/y": b""})
    assert program.args == ("a", "b")
    assert box.run(program, "in", None, ("x/y",)).stdout == b"['a', 'b'] in\n"
    with box.session("def f(*args, **kwargs): return args, kwargs") as session:
        assert session.call("f", ([1], (2,)), {"k": None}) == Answer((([1], (2,)), {"k": None}))


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


def test_a_value_that_cannot_be_shown_is_refused_as_well() -> None:
    wrong: list[Any] = [Unprintable(), 10**5000, "x" * 10_000]
    for value in wrong:
        with pytest.raises(TypeError, match="files: expected a dictionary of texts to bytes") as caught:
            Program(source="", files=value)
        assert len(str(caught.value)) < 200


def test_every_public_call_is_checked() -> None:
    calls = [getattr(verigym.sandbox.Sandbox, name) for name in ("run", "build", "session", "test")]
    calls += [verigym.sandbox.Session.call, open_sandbox, typed_options, register_language]
    calls += [kind.__init__ for kind in (Program, Limits, TestSuite, Language)]
    assert all(hasattr(one, "__wrapped__") for one in calls)


def test_checking_costs_next_to_nothing_beside_a_run() -> None:
    def plain(program: Program | str, stdin: bytes | str = b"", limits: Limits | None = None) -> None: ...

    arguments = (Program(source=""), b"", Limits())
    direct, through = (min(timeit.repeat(partial(call, *arguments), number=1000, repeat=5)) for call in (plain, checked(plain)))
    assert through - direct < 1000 * 100e-6  # a run takes thousands of microseconds; measured: 5
