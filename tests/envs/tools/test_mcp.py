"""MCP servers as tools: their results and errors are read by the model, their failures are ours, and nothing stays behind."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from needs import needs

import verigym
from verigym import EnvironmentFailure, Message, Session, ToolEnvironment, UsageError, run_episode
from verigym.envs.sessions import Answer, Sessions
from verigym.envs.tools import mcp_connection
from verigym.envs.tools.mcp import McpTool
from verigym.envs.tools.mcp_connection import Connection
from verigym.tools import ToolError, calculator, mcp_server

pytestmark = needs("mcp")

SUPPORT = Path(__file__).resolve().parents[2] / "support"
REAL = [sys.executable, str(SUPPORT / "mcp_server_for_tests.py")]
BY_HAND = [sys.executable, "-S", str(SUPPORT / "mcp_misbehaving.py")]
ANSWER = r"It is \boxed{3}."


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = list(texts)
    return lambda messages: left.pop(0)


def with_tools(tools: Sequence[Any]) -> ToolEnvironment:
    return ToolEnvironment(verigym.load("math"), tools=tools)


def opened(env: ToolEnvironment, seed: str = "0") -> Session:
    return env.open(env.prompt("What is 1 + 2?", answer="3"), seed)


def replies(session: Session, *texts: str) -> list[str]:
    return [message.content for text in texts for message in session.respond(session.read(text)).messages]


def there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(*pids: int) -> bool:
    """Whether these processes end; a busy machine may take its time."""
    until = time.monotonic() + 300
    while any(map(there, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(map(there, pids))


@pytest.fixture(scope="module")
def env() -> ToolEnvironment:
    """With the server by hand."""
    return with_tools([calculator, *mcp_server(BY_HAND, timeout_s=120.0)])


@pytest.fixture
def fresh() -> ToolEnvironment:
    """With the server by hand; no call has been answered before."""
    return with_tools(mcp_server(BY_HAND, timeout_s=120.0))


@pytest.fixture(scope="module")
def real() -> Iterator[ToolEnvironment]:
    """With the server by the package, one for all episodes."""
    yield with_tools(mcp_server(REAL, shared=True, timeout_s=120.0, start_timeout_s=300.0))


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    assert by_hand() == []
    if not mcp_connection._open:
        for thread in threading.enumerate():
            if thread.name == "verigym-mcp":
                thread.join(300)  # its loop has been stopped; on a busy machine its end takes a moment
                assert not thread.is_alive()


def by_hand() -> list[mcp_connection.Connection]:
    """Connections that are open, without the one that episodes share in this module."""
    return [one for one in mcp_connection._open if one._launch.command != tuple(REAL)]


@pytest.mark.slow
def test_the_tools_of_a_server_are_called_and_the_answer_is_judged(real: ToolEnvironment) -> None:
    prompt = real.prompt("What is 1 + 2?", answer="3")
    calls = [call("refuse", why="no"), call("bug"), call("parts"), call("count_up", by="many"), ANSWER]
    episode = run_episode(real, prompt, scripted(*calls))
    said = [turn.text for turn in episode.turns if turn.role == "tool"]
    assert said[0] == "Error: Error executing tool refuse: refused: no"
    assert said[1].startswith("Error: Error executing tool bug")
    assert said[2].split("\n") == [
        "a text",
        "[image of type image/png, not shown]",
        "[the resource file:///notes.txt]",
        "notes",
        "[audio of type audio/wav, not shown]",
        "the end",
    ]
    assert said[3].startswith("Error: the arguments do not fit: by breaks 'type'")
    assert real.score(prompt, episode).reward == 1.0
    assert real.tools["count_up"].spec.description == "Count up, and say how far."
    assert real.tools["count_up"].spec.parameters["properties"] == {"by": {"default": 1, "title": "By", "type": "integer"}}


@pytest.mark.slow
def test_episodes_share_a_shared_server_and_get_a_new_one_when_it_dies(real: ToolEnvironment) -> None:
    one, other = opened(real, "1"), opened(real, "2")
    first = replies(one, call("pid"), call("count_up"))
    second = replies(other, call("pid"), call("count_up"))
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("1 in no episode", "2 in no episode")
    with pytest.raises(EnvironmentFailure, match="ended with exit code 9; its last words on standard error: about to die"):
        replies(one, call("die", code=9))
    with pytest.raises(EnvironmentFailure, match="ended with exit code 9"):
        replies(other, call("total"))
    one.close()
    other.close()
    later = opened(real, "3")
    assert replies(later, call("total")) == ["0"]
    assert replies(later, call("pid")) != first[:1]
    later.close()


@pytest.mark.slow
def test_a_server_by_the_package_that_changes_its_tools_is_refused() -> None:
    session = opened(with_tools(mcp_server(REAL, start_timeout_s=300.0, timeout_s=120.0)))
    with pytest.raises(EnvironmentFailure, match="it has changed its tools"):
        replies(session, call("learn"), call("total"))
    session.close()


@pytest.mark.slow
def test_twenty_live_episodes() -> None:
    env = with_tools(mcp_server(REAL, start_timeout_s=120.0, timeout_s=60.0))
    sessions = [opened(env, str(number)) for number in range(20)]
    try:
        for number, session in enumerate(sessions):
            replies(session, call("count_up", by=number))
        said = [replies(session, call("count_up"))[0] for session in sessions]
        pids = [int(replies(session, call("pid"))[0]) for session in sessions]
    finally:
        for session in sessions:
            session.close()
    assert said == [f"{number + 1} in {number}" for number in range(20)]
    assert len(set(pids)) == 20 and gone(*pids)


@pytest.mark.slow
def test_the_tools_of_an_episode_share_its_server(env: ToolEnvironment, tmp_path: Path) -> None:
    one, other = opened(env, "a"), opened(env, "b")
    assert replies(one, call("count", by=3), call("count", by=4)) == [f"3 a {os.getcwd()}", f"7 a {os.getcwd()}"]
    assert replies(other, call("count", by=10)) == [f"10 b {os.getcwd()}"]
    pids = [replies(session, call("left"))[0].split()[1] for session in (one, other, one)]
    assert pids[0] == pids[2] != pids[1], "another tool, the same process"
    assert one.close() == one.close()
    other.close()
    assert gone(*map(int, pids))
    session = opened(with_tools(mcp_server(BY_HAND, cwd=str(tmp_path), env={"VERIGYM_SEED": "overridden"})), "c")
    assert replies(session, call("count", by=1)) == [f"1 c {tmp_path}"]
    session.close()


@cases(
    ("text", "words"),
    [
        (call("structured"), '{"a":[2],"b":1}'),
        (call("nothing"), "(nothing was returned)"),
        (call("count"), "Error: the arguments do not fit: the value breaks 'required'"),
        (call("count", by=1, to=2), "Error: the arguments do not fit: the value breaks 'additionalProperties'"),
        (call("odd", format="x"), "Error: the arguments do not fit: format breaks 'type'"),
        (call("odd", a="no uri"), "(nothing was returned)"),
        (call("odd", a="\ud800"), "Error: the arguments hold half of a surrogate pair"),
        (call("error", code=-32602, message="by must be even"), "Error: by must be even"),
        (call("ask"), '{"code": -32600, "message": "Sampling not supported"}'),
    ],
)
def test_what_the_model_reads(text: str, words: str, env: ToolEnvironment) -> None:
    session = opened(env)
    try:
        (reply,) = replies(session, text)
    finally:
        session.close()
    assert reply.startswith(words), reply


@cases(
    ("text", "kind", "words"),
    [
        (call("die"), "crashed", r"ended with exit code 7; its last words on standard error: last  \[1mwords"),
        (call("junk"), "protocol", "wrote what is no message: 'hello, world"),
        (call("long"), "protocol", "a line of more than 16777216 bytes"),
        (call("wrong"), "protocol", "wrong: ValidationError"),
        (call("change") + call("nothing"), "protocol", "it has changed its tools"),
    ],
)
def test_what_is_our_failure(text: str, kind: str, words: str, fresh: ToolEnvironment) -> None:
    session = opened(fresh)
    pid = int(replies(session, call("left"))[0].split()[1])
    with pytest.raises(EnvironmentFailure, match=words) as caught:
        replies(session, text)
    assert caught.value.kind == kind
    assert gone(pid), "it is stopped at once"
    with pytest.raises(EnvironmentFailure, match=words):
        replies(session, call("nothing"))
    session.close()


def test_a_call_is_to_blame_where_the_server_answers_others() -> None:
    env = with_tools(mcp_server(BY_HAND, timeout_s=120.0))
    refused, broken = call("error", code=-32602, message="odd"), call("error", code=-32603, message="out of order")
    session = opened(env)
    with pytest.raises(EnvironmentFailure, match="error gave error -32603: out of order"):
        replies(session, broken)  # nothing is known of this tool yet
    session.close()
    session = opened(env)
    try:
        said = replies(session, call("count", by=3), refused, broken, call("count", by=1))
        lost = "the tool starts anew, and what it held is lost"
        assert said[1:3] == ["Error: odd", f"Error: no result, for the tool failed; {lost}"]
        assert [one.split()[0] for one in said[::3]] == ["3", "1"]
    finally:
        outcome = session.close()
    assert outcome["faults"] == {"failed": 1}


def test_a_call_that_takes_too_long_has_no_reward() -> None:
    quick = with_tools(mcp_server(BY_HAND, timeout_s=0.3))
    prompt = quick.prompt("What is 1 + 2?", answer="3")
    episode = run_episode(quick, prompt, scripted(call("sleep"), ANSWER))
    assert episode.failure is not None
    assert (episode.failure.kind, episode.failure.retryable) == ("timeout", True)
    assert "sleep gave no result within 0.3 s" in episode.failure.message
    assert quick.score(prompt, episode).reward is None


def test_a_stubborn_server_and_what_it_left_behind_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "GRACE_S", 0.1)
    session = opened(with_tools(mcp_server([*BY_HAND, "stubborn", "child"])))
    pids = [int(one) for one in replies(session, call("left"))[0].split()]
    assert all(map(there, pids))
    session.close()
    assert gone(*pids)


WORKER = """
import sys, time
import verigym
from verigym.tools import mcp_server

env = verigym.ToolEnvironment(verigym.load("math"), tools=mcp_server(sys.argv[1:]))
session = env.open(env.prompt("What is 1 + 2?", answer="3"), "0")
print(session.respond(session.read('<tool_call>{"name": "left"}</tool_call>')).messages[0].content, flush=True)
END
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["time.sleep(1000)", "import os; os._exit(1)", "raise SystemExit(0)"])
def test_a_server_dies_with_its_worker(end: str) -> None:
    command = [sys.executable, "-c", WORKER.replace("END", end), *BY_HAND, "stubborn", "child"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    pids = [int(one) for one in worker.stdout.readline().split()]
    assert len(pids) == 2
    if "sleep" in end:
        assert all(map(there, pids))
        worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert gone(*pids)


def test_a_check_starts_one_server(monkeypatch: pytest.MonkeyPatch, env: ToolEnvironment) -> None:
    started = []
    start = Connection.__init__
    monkeypatch.setattr(Connection, "__init__", lambda self, launch: (started.append(launch), start(self, launch))[1])
    env.check()
    assert len(started) == 1


def test_it_is_sent_to_worker_processes(env: ToolEnvironment) -> None:
    again = pickle.loads(pickle.dumps(env))  # noqa: S301
    assert again.grader == env.grader
    tools = [tool for tool in again.tools.values() if isinstance(tool, McpTool)]
    assert len({id(tool.server) for tool in tools}) == 1
    session = opened(again)
    assert [text.split()[0] for text in replies(session, call("count", by=3), call("count", by=4))] == ["3", "7"]
    session.close()


@pytest.mark.slow
def test_episodes_live_on_when_their_worker_is_killed(env: ToolEnvironment) -> None:
    task = env.prompt("What is 1 + 2?", answer="3")
    with Sessions({env.name: env}, workers=1) as sessions:
        episodes = [sessions.open(task, str(number)) for number in range(20)]
        for number, episode in enumerate(episodes):
            assert said(episode.turn(call("count", by=number))) == f"{number} {number} {os.getcwd()}"
        spy = sessions.open(task, "spy")
        server = int(said(spy.turn(call("left"))).split()[1])
        worker = parent(parent(server))
        os.kill(worker, signal.SIGKILL)
        assert gone(worker, server)
        for number, episode in enumerate(episodes):
            assert said(episode.turn(call("count", by=1))) == f"{number + 1} {number} {os.getcwd()}"
            assert episode.turn(ANSWER).result().reply.done
        with pytest.raises(EnvironmentFailure):
            spy.turn(call("left")).result()


def said(future: Future[Answer]) -> str:
    return future.result().reply.messages[0].content


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    env = with_tools(mcp_server(BY_HAND, only=["count", "odd", "structured", "nothing"]))
    report = verigym.check_env(env, [env.prompt("What is 1 + 2?", answer="3")])
    assert report.passed, str(report)


def test_what_is_offered_decides_the_grader() -> None:
    graders = {
        with_tools(mcp_server(BY_HAND, **options)).grader
        for options in ({}, {"shared": True}, {"prefix": "x_"}, {"only": ["count"]})
    }
    extra = with_tools(mcp_server([*BY_HAND, "extra"], only=["count"])).grader
    assert len(graders | {extra}) == 5
    assert with_tools(mcp_server(BY_HAND, timeout_s=5)).grader in graders


def test_a_server_with_other_tools_than_before_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    source = (SUPPORT / "mcp_misbehaving.py").read_text()
    script.write_text(source)
    env = with_tools(mcp_server([sys.executable, "-S", str(script)]))
    for old, new in (("To {name}.", "For {name}."), ('"left", ', '"left", "more", ')):
        script.write_text(source.replace(old, new))
        session = opened(env)
        with pytest.raises(EnvironmentFailure, match="its tools are not those with which the environment was made .*make the"):
            replies(session, call("count", by=1))
        session.close()


@cases(
    ("words", "message"),
    [
        (["mute"], "ended with exit code 3; its last words on standard error: no licence was found"),
        (["junk"], "wrote what is no message: 'Welcome to the server!"),
        (["deaf"], "did not say which tools it has within 0.5 s"),
        (["twins"], "the tools 'a-b' and 'a.b' would both be 'a_b'; take one of them, by only"),
        (["none"], "it has no tools"),
        (["schema"], "tool 'count' has no valid schema: 'integral'"),
        (["pages"], "its list of tools has more than 100 pages"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_when_the_tools_are_made(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^mcp_server.*{message}"):
        mcp_server([*BY_HAND, *words], start_timeout_s=0.5 if words == ["deaf"] else 120.0)


@cases(
    ("command", "options", "message"),
    [
        ("python server.py", {}, r"give a list, such as \['python', 'server.py'\]"),
        ([], {}, "options of mcp_server: .*command"),
        (["no-such-program-here"], {}, "ended with exit code 127; .*no-such-program-here: No such file"),
        (BY_HAND, {"timeout": 3}, "unknown field 'timeout'; did you mean 'timeout_s'"),
        (BY_HAND, {"prefix": "a-"}, "field 'prefix'"),
        (BY_HAND, {"cwd": "/no/such/folder"}, "no/such/folder"),
        (BY_HAND, {"only": ["cuont"]}, "only: it has no tool 'cuont'; did you mean 'count'"),
    ],
)
def test_mistakes_are_one_sentence(command: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mcp_server(command, **options)


def test_a_server_that_knows_no_handshake() -> None:
    session = opened(with_tools(mcp_server([*BY_HAND, "modern"])))
    assert [text.split()[0] for text in replies(session, call("count", by=3), call("count", by=4))] == ["3", "7"]
    session.close()


def test_names_for_models() -> None:
    twins = mcp_server([*BY_HAND, "twins"], only=["a-b", "count"], prefix="1")
    assert [tool.spec.name for tool in twins] == ["_1a_b", "_1count"]


def test_without_the_package_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UsageError, match=r"mcp_server needs the package mcp \(.*\); pip install 'verigym\[mcp\]'"):
        mcp_server(BY_HAND)


def test_calls_from_several_threads(env: ToolEnvironment) -> None:
    shared = [with_tools(mcp_server(BY_HAND, shared=True))]
    said: list[str] = []

    def play(number: int) -> None:
        session = opened(shared[0], str(number))
        said.extend(replies(session, *[call("count", by=1)] * 5))
        session.close()

    threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(text.split()[0]) for text in said) == list(range(1, 41))
    session = opened(shared[0])
    pid = int(replies(session, call("left"))[0].split()[1])
    session.close()
    assert there(pid)
    del session
    shared.clear()
    assert gone(pid), "the server ends with what shares it"
    until = time.monotonic() + 300
    while by_hand() and time.monotonic() < until:
        time.sleep(0.01)


def test_a_tool_error_is_what_the_protocol_calls_one() -> None:
    (count,) = mcp_server(BY_HAND, only=["error"])
    tool = count.open("0")
    with pytest.raises(ToolError, match="odd"):
        tool.call({"code": -32602, "message": "odd"})
    tool.close()
    with pytest.raises(EnvironmentFailure, match="closed"):
        tool.call({})
