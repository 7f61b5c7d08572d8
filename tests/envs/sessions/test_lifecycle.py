"""Workers of sessions end with them, or with their process, and leave nothing behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import wait
from pathlib import Path

import pytest
from held import Held, nothing_left
from processes import alive, below, children, eventually, send
from session_envs import TalkEnvironment, UnsendableTalk, play, undisturbed

import verigym
from verigym import EnvironmentFailure, ToolEnvironment, UsageError
from verigym.envs.sessions import SessionLimit, Sessions
from verigym.tools import python

SUPPORT = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "support")]
TALK = TalkEnvironment()
TASK = TALK.prompt("Talk.", answer="x")


@pytest.mark.parametrize("workers", [0, 2])
def test_close_fails_every_open_future(workers: int) -> None:
    held = Held()
    sessions = Sessions({"talk": TALK}, workers=workers)
    episodes = [sessions.open(TASK, str(seed)) for seed in range(6)]
    wait([episode.turn("hello") for episode in episodes])
    futures = [episode.turn("SLEEP" if workers == 0 else "HANG") for episode in episodes]
    futures += [episode.end() for episode in episodes]
    sessions.close()
    assert all(future.done() for future in futures)
    errors = [future.exception() for future in futures]
    assert workers == 0 or None not in errors
    assert all(isinstance(one, EnvironmentFailure) and one.message == "the sessions were closed" for one in errors if one)
    with pytest.raises(EnvironmentFailure, match="the sessions were closed"):
        episodes[0].turn("hello").result()
    sessions.close()
    assert held.new_children() == set()
    assert eventually(lambda: not held.new_threads(), 300)


def test_without_workers_what_hangs_is_left_alone() -> None:
    sessions = Sessions({"talk": TALK}, workers=0)
    hanging = sessions.open(TASK, "0").turn("HANG")
    waiting = sessions.open(TASK, "1").turn("hello")
    sessions.close()
    for future in (hanging, waiting):
        with pytest.raises(EnvironmentFailure, match="the sessions were closed"):
            future.result(timeout=0)


def test_sessions_that_are_open_are_closed_in_an_orderly_end(tmp_path: Path) -> None:
    env = TalkEnvironment(folder=str(tmp_path))
    prompt = env.prompt("Talk.", answer="x")
    with Sessions({"talk": env}, workers=2) as sessions:
        episodes = [sessions.open(prompt, str(seed)) for seed in range(6)]
        wait([episode.turn("hello") for episode in episodes])
    assert len((tmp_path / "closed").read_text().splitlines()) == 6


@pytest.mark.slow
def test_nothing_is_left(own_tmp: Path, warm: None) -> None:
    env = ToolEnvironment(verigym.load("math"), tools=[python(wall_s=60)])
    task = env.prompt("What is 37 * 41?", answer="1517")
    code = '<tool_call>{"name": "python", "arguments": {"code": "open(\'f\', \'w\').write(\'x\')"}}</tool_call>'
    started: set[int] = set()
    with nothing_left() as held:
        with Sessions({"talk": TALK, env.name: env}, workers=2, timeout_s=300) as sessions:
            episodes = [sessions.open(task, str(seed)) for seed in range(4)]
            wait([episode.turn(code) for episode in episodes])
            talks = [sessions.open(TASK, str(seed)) for seed in range(4)]
            talks[0].turn("CHILDREN").result()
            for child in held.new_children():
                started |= {*below(child)}
                send(signal.SIGKILL, [child])
            assert [episode.turn(code).result().reply.messages[0].content for episode in episodes] == ["1\n"] * 4
            with pytest.raises(SessionLimit):
                talks[1].turn("DIE").result()
            for child in held.new_children():
                started |= {*below(child)}
        assert len(started) > 8
        assert eventually(lambda: not any(alive(pid) for pid in started), 300)
        del episodes, talks, sessions
        gc.collect()
    assert held.new_temporary_files() == set()


def test_an_environment_that_cannot_be_sent() -> None:
    env = UnsendableTalk()
    prompt = env.prompt("Talk.", answer="x")
    with Sessions({env.name: env}, workers=1) as sessions:
        with pytest.raises(UsageError, match="cannot be sent to a worker process.*importable.*workers=0"):
            sessions.start()
        for future in ((episode := sessions.open(prompt, "0")).turn("hello"), episode.end()):
            with pytest.raises(UsageError, match="no worker for sessions can be started.*cannot be sent"):
                future.result()
        with pytest.raises(UsageError, match="cannot be sent to a worker process"):
            sessions.open(prompt, "1")
    with Sessions({env.name: env}, workers=0) as sessions:
        sessions.start()
        assert play(sessions, prompt, ["hello", "DONE"]) == undisturbed(env, prompt, ["hello", "DONE"])


def test_a_worker_that_does_not_start_in_time_is_no_ones_fault() -> None:
    with Sessions({"talk": TALK}, workers=1, start_timeout_s=0.01) as sessions:
        with pytest.raises(UsageError, match="not ready after 0.01 s"):
            sessions.start()
        failed = play(sessions, TASK, ["hello"])
    assert failed.failure is not None and failed.failure.kind == "unavailable"


def test_dropped_sessions_end_their_workers() -> None:
    held = Held()
    sessions = Sessions({"talk": TALK}, workers=1)
    episode = sessions.open(TASK, "0")
    del sessions
    gc.collect()
    episode.turn("hello").result()  # an episode holds its sessions
    assert held.new_children()
    del episode
    gc.collect()
    assert eventually(lambda: not held.new_children(), 300)


def run(tmp_path: Path, body: str) -> "subprocess.Popen[str]":
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path += {SUPPORT!r}\n" + textwrap.dedent(body))
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


HEAD = """
import multiprocessing, os, time
from session_envs import TalkEnvironment
from verigym import ToolEnvironment, load
from verigym.envs.sessions import Sessions
from verigym.tools import python

def talking(workers=2):
    env = TalkEnvironment()
    sessions = Sessions({"talk": env}, workers=workers)
    return sessions, env.prompt("Talk.", answer="x")

def main():
"""
ENDINGS = {
    "without close": ["sessions, prompt = talking()", "episode = sessions.open(prompt, '0')", "episode.turn('hello').result()"],
    "in a turn": [
        "sessions, prompt = talking()",
        "episode = sessions.open(prompt, '0')",
        "episode.turn('HANG')",
        "time.sleep(1)",
    ],
    "in a turn in this process": [
        "sessions, prompt = talking(0)",
        "episode = sessions.open(prompt, '0')",
        "episode.turn('HANG')",
        "time.sleep(0.2)",
    ],
    "held by a name": ["global kept", "kept = talking()[0]", "kept.start()"],
    "at once": ["sessions, prompt = talking()", "sessions.open(prompt, '0')"],
    "in a child of multiprocessing": [
        "process = multiprocessing.get_context('spawn').Process(target=child)",
        "process.start()",
        "process.join()",
        "assert process.exitcode == 0",
    ],
}


SLOW = ("in a turn", "in a turn in this process", "held by a name")


@pytest.mark.parametrize("ending", [pytest.param(one, marks=pytest.mark.slow if one in SLOW else ()) for one in ENDINGS])
@pytest.mark.slow
def test_no_script_waits_at_its_end(ending: str, tmp_path: Path) -> None:
    lines = "\n    ".join([*ENDINGS[ending], "print('done', flush=True)"])
    child = "\n    ".join(ENDINGS["without close"])
    body = f"{HEAD}    {lines}\n\ndef child():\n    {child}\n\nif __name__ == '__main__':\n    main()\n"
    process = run(tmp_path, body)
    out, error = process.communicate(timeout=600)
    assert (out, process.returncode) == ("done\n", 0), error


@pytest.mark.parametrize(
    "signals", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT))]
)
def test_workers_end_with_their_parent(signals: signal.Signals, tmp_path: Path) -> None:
    body = f"""{HEAD}    sessions, prompt = talking()
    talk = [sessions.open(prompt, str(seed)) for seed in range(2)]
    talk[1].turn("CHILDREN").result()
    talk[0].turn("HANG")
    env = ToolEnvironment(load("math"), tools=[python()])
    tools = Sessions({{env.name: env}}, workers=2)
    task = env.prompt("What?", answer="1")
    code = '<tool_call>{{"name": "python", "arguments": {{"code": "1"}}}}</tool_call>'
    episodes = [tools.open(task, str(seed)) for seed in range(3)]
    for episode in episodes:
        episode.turn(code).result()
    print("ready", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    main()
"""
    process = run(tmp_path, body)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = below(process.pid)
    assert len(children(process.pid)) == 4 and len(started) >= 4 + 3
    stopped = next(iter(children(process.pid)))
    os.kill(stopped, signal.SIGSTOP)
    process.send_signal(signals)
    process.communicate(timeout=600)
    assert eventually(lambda: not any(alive(pid) for pid in started), 300)


def test_a_script_without_a_main_guard_ends_with_one_error(tmp_path: Path) -> None:
    process = run(
        tmp_path, HEAD.replace("def main():", "sessions, prompt = talking()\nsessions.open(prompt, '0').turn('hi').result()")
    )
    out, error = process.communicate(timeout=600)
    assert process.returncode == 1 and out == ""
    assert error.count("Traceback") == 1, "the worker is silent"
    assert "UsageError: no worker for sessions can be started: " in error.splitlines()[-1]
    assert "if __name__ == '__main__':" in error


@pytest.mark.slow
def test_stopped_workers_do_not_hold_up_the_end_for_ever() -> None:
    held = Held()
    with Sessions({"talk": TALK}, workers=1) as sessions:
        episode = sessions.open(TASK, "0")
        episode.turn("hello").result()
        send(signal.SIGSTOP, held.new_children())
    with pytest.raises(EnvironmentFailure):
        episode.turn("hello").result()
