"""Whose fault a dead worker is: the turn's that ends it twice while a control lives; never a neighbour's; else nobody's."""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import wait
from pathlib import Path

import pytest
from processes import alive, below, children, eventually, send
from session_envs import TalkEnvironment, play, play_on, undisturbed

import verigym
from verigym import Completion, EnvironmentFailure, Prompt, ToolEnvironment
from verigym.envs.sessions import Episode, SessionLimit, Sessions
from verigym.tools import calculator, python

TALK = TalkEnvironment()
TASK = TALK.prompt("Talk.", answer="x")


def workers_of(sessions: Sessions) -> list[int]:
    return [child.pid for owner in sessions._engine._owners if (child := owner._worker._child._process) is not None]


def beside(sessions: Sessions, count: int) -> list[Episode]:
    """Open episodes, and play a turn of each."""
    episodes = [sessions.open(TASK, f"neighbour {number}") for number in range(count)]
    wait([episode.turn("hello") for episode in episodes])
    return episodes


def unharmed(episodes: Sequence[Episode]) -> None:
    """Check that they go on as if nothing had happened."""
    ends = [play_on(episode, TASK, ["more", "DONE"]) for episode in episodes]
    wholes = [undisturbed(TALK, TASK, ["hello", "more", "DONE"], f"neighbour {n}") for n in range(len(ends))]
    assert [end.outcome for end in ends] == [whole.outcome for whole in wholes]
    assert [end.turns for end in ends] == [whole.turns[2:] for whole in wholes]


@pytest.mark.parametrize(
    ("text", "why", "timeout_s"),
    [
        ("DIE now", "the worker process was killed by SIGKILL", 60),
        pytest.param("EXIT", "the worker process exited with code 3", 60, marks=pytest.mark.slow),
        ("SPEAK", "the worker process sent a malformed answer: FrameError: not JSON: StopIteration", 60),
        ("EAT", "the session ran out of its worker's memory (memory_bytes)", 60),
        pytest.param("HANG", "no reply after 5 s (timeout_s)", 5, marks=pytest.mark.slow),
        pytest.param("STOP", "no reply after 5 s (timeout_s)", 5, marks=pytest.mark.slow),
    ],
)
def test_the_turn_that_ends_its_worker_is_to_blame_and_its_neighbours_are_not(text: str, why: str, timeout_s: float) -> None:
    with Sessions({"talk": TALK}, workers=1, timeout_s=timeout_s, memory_bytes=2**30) as sessions:
        neighbours = beside(sessions, 3)
        killer = play(sessions, TASK, ["hello", text, "DONE"])
        unharmed(neighbours)
        stats = sessions.stats
    assert killer.finish_reason == "limit"
    assert killer.outcome == {"limit": f"answering the turn twice ended its worker: {why}; a control session lived"}
    assert [turn.text for turn in killer.turns if turn.role == "assistant"] == ["hello", text]
    score = TALK.score(TASK, killer)
    assert (score.status, score.reward) == ("limit", 0.0)
    assert (stats.deaths, stats.limits, stats.failures, stats.ended) == (2, 1, 0, 3)


def test_a_limit_is_final() -> None:
    with Sessions({"talk": TALK}, workers=1) as sessions:
        episode = sessions.open(TASK, "0")
        for future in (episode.turn("DIE"), episode.turn("hello"), episode.end()):
            with pytest.raises(SessionLimit, match="a control session lived") as caught:
                future.result()
            assert caught.value.why == str(caught.value)


def test_a_worker_killed_from_outside_is_nobodys_fault() -> None:
    texts = [f"turn {number}" for number in range(3)]
    with Sessions({"talk": TALK}, workers=1) as sessions:
        neighbours = beside(sessions, 2)
        episode = sessions.open(TASK, "0")
        played = play_on_killing(sessions, episode, texts)
        unharmed(neighbours)
        stats = sessions.stats
    assert played == undisturbed(TALK, TASK, texts)
    assert (stats.limits, stats.failures) == (0, 0)
    assert stats.deaths >= len(texts)


@pytest.mark.slow
def test_a_python_session_outlives_its_workers() -> None:
    env = ToolEnvironment(verigym.load("math"), tools=[calculator, python(wall_s=60)])
    task = env.prompt("What is 37 * 41?", answer="1517")
    codes = ("x = 37", "def f(y):\n    return x * y", "f(41)")
    texts = [f"<tool_call>{json.dumps({'name': 'python', 'arguments': {'code': code}})}</tool_call>" for code in codes]
    texts += ['<tool_call>{"name": "calculator", "arguments": {"expression": "37 * 41"}}</tool_call>', r"\boxed{1517}"]
    with Sessions({env.name: env}, workers=1, timeout_s=300) as sessions:
        played = play_on_killing(sessions, sessions.open(task, "3"), texts, task)
        assert sessions.stats.deaths >= len(texts) - 1  # the first may come before there is a worker
    assert played == undisturbed(env, task, texts, "3")
    assert env.score(task, played).reward == 1.0


def play_on_killing(sessions: Sessions, episode: Episode, texts: Sequence[str], task: Prompt = TASK) -> Completion:
    """Play an episode whose worker is killed before each turn."""

    class Killing:
        def turn(self, text: str):
            send(signal.SIGKILL, workers_of(sessions))
            return episode.turn(text)

        def end(self):
            return episode.end()

    return play_on(Killing(), task, texts)


def test_a_worker_killed_while_it_answers() -> None:
    with Sessions({"talk": TALK}, workers=1) as sessions:
        episode = sessions.open(TASK, "0")
        episode.turn("hello").result()
        slow = episode.turn("SLEEP")
        time.sleep(0.05)
        os.kill(workers_of(sessions)[0], signal.SIGKILL)
        slow.result()
        rest = play_on(episode, TASK, ["DONE"])
    assert rest.outcome == undisturbed(TALK, TASK, ["hello", "SLEEP", "DONE"]).outcome


@pytest.mark.slow
def test_a_stopped_worker_hangs() -> None:
    with Sessions({"talk": TALK}, workers=1, timeout_s=5.0) as sessions:
        neighbours = beside(sessions, 2)
        os.kill(workers_of(sessions)[0], signal.SIGSTOP)
        unharmed(neighbours)
        assert sessions.stats.deaths == 1


def test_a_session_that_forks_is_answered_once() -> None:
    with Sessions({"talk": TALK}, workers=1) as sessions:
        neighbours = beside(sessions, 2)
        forked = play(sessions, TASK, ["hello", "FORK", "DONE"])
        unharmed(neighbours)
        assert sessions.stats.deaths == 0
    assert forked == undisturbed_but_for_the_fork()


def undisturbed_but_for_the_fork() -> Completion:
    """In this process, without the fork itself."""
    import session_envs

    kept = session_envs.SPELLS.pop("FORK")
    try:
        return undisturbed(TALK, TASK, ["hello", "FORK", "DONE"])
    finally:
        session_envs.SPELLS["FORK"] = kept


@pytest.mark.slow
def test_where_the_control_dies_too_nobody_is_blamed() -> None:
    prompt = TALK.prompt("Talk.", answer="DIE-CLOSE")
    with Sessions({"talk": TALK}, workers=1) as sessions:
        neighbours = beside(sessions, 2)
        killer = play(sessions, prompt, ["hello", "DIE"])
        ended = play(sessions, prompt, ["hello"])
        unharmed(neighbours)
        stats = sessions.stats
    for episode in (killer, ended):
        assert (episode.finish_reason, TALK.score(prompt, episode).reward) == ("abort", None)
    assert killer.failure is not None and "a control session ended its worker too" in killer.failure.message
    assert ended.failure is not None and "closing the session ended its worker twice" in ended.failure.message
    assert (stats.limits, stats.failures) == (0, 2)


def test_where_the_control_fails_nobody_is_blamed() -> None:
    prompt = TALK.prompt("Talk.", answer="RAISE-CLOSE")
    with Sessions({"talk": TALK}, workers=1) as sessions:
        killer = play(sessions, prompt, ["DIE"])
    assert killer.failure is not None and "a control session failed too" in killer.failure.message
    assert "ZeroDivisionError: in close" in killer.failure.message


def test_a_session_that_does_otherwise_when_it_is_opened_again_has_no_score() -> None:
    with Sessions({"talk": TALK}, workers=1) as sessions:
        neighbours = beside(sessions, 2)
        episode = sessions.open(TASK, "0")
        for text in ("hello", "OTHER", "more"):
            episode.turn(text).result()
        os.kill(workers_of(sessions)[0], signal.SIGKILL)
        rest = play_on(episode, TASK, ["DONE"])
        unharmed(neighbours)
        stats = sessions.stats
    assert rest.failure is not None and rest.failure.kind == "backend"
    assert TALK.score(TASK, rest).reward is None
    assert "talk: opened anew, the session did not do the same: reply" in rest.failure.message
    assert (stats.limits, stats.failures) == (0, 1)


def test_a_turn_that_ends_workers_is_to_blame_though_its_session_does_otherwise_each_time(tmp_path: Path) -> None:
    """A model that has a tool tell the time, and then one that hangs, is not taken out of the loss."""
    env = TalkEnvironment(folder=str(tmp_path))
    prompt = env.prompt("Talk.", answer="x")
    with Sessions({"talk": env}, workers=1) as sessions:
        killer = play(sessions, prompt, ["OTHER", "DIE"])
        assert (sessions.stats.deaths, sessions.stats.limits) == (2, 1)
        killed = sessions.open(prompt, "1")
        killed.turn("OTHER").result()
        (tmp_path / f"bomb-{workers_of(sessions)[0]}").write_text("DIE")
        unlucky = play_on(killed, prompt, ["hello"])
        stats = sessions.stats
    assert killer.outcome is not None and "a control session lived" in str(killer.outcome["limit"])
    assert (killer.finish_reason, env.score(prompt, killer).reward) == ("limit", 0.0)
    assert unlucky.failure is not None and "the session did not do the same" in unlucky.failure.message
    assert (stats.deaths, stats.limits, stats.failures) == (3, 1, 1)


def test_a_turn_of_a_million_characters_is_to_blame() -> None:
    for workers in (0, 1):
        with Sessions({"talk": TALK}, workers=workers) as sessions:
            assert play(sessions, TASK, ["\x01" * 1_000_000]).finish_reason == "turns"
            for length in (1_000_001, 13_000_000):
                episode = play(sessions, TASK, ["hello", "\x01" * length])
                assert episode.outcome == {"limit": f"a turn of {length:,} characters, more than 1,000,000"}
                assert TALK.score(TASK, episode).status == "limit"
            assert (sessions.stats.deaths, sessions.stats.limits) == (0, 2)


@pytest.mark.slow
def test_a_prompt_whose_sessions_cannot_be_opened_is_not_tried_for_ever() -> None:
    bad = TALK.prompt("Talk.", answer="DIE-OPEN")
    with Sessions({"talk": TALK}, workers=1) as sessions:
        neighbours = beside(sessions, 2)
        episodes = [play(sessions, bad, ["hello"], str(seed)) for seed in range(6)]
        assert sessions.stats.deaths == 2
        unharmed(neighbours)
    assert all(episode.failure is not None and TALK.score(bad, episode).reward is None for episode in episodes)
    assert "opening the session ended its worker twice" in episodes[0].failure.message
    assert "is not asked for a while" in episodes[-1].failure.message


@pytest.mark.slow
def test_a_worker_whose_memory_runs_low_retires_between_turns() -> None:
    with Sessions({"talk": TALK}, workers=1, memory_bytes=3 * 2**30) as sessions:
        neighbours = beside(sessions, 2)
        episode = sessions.open(TASK, "0")
        played = play_on(episode, TASK, ["KEEP", "KEEP", "KEEP", "KEEP", "hello", "DONE"])
        unharmed(neighbours)
        stats = sessions.stats
    assert stats.retired >= 1 and stats.deaths == 0
    assert played.finish_reason == "stop"


@pytest.mark.slow
def test_a_kill_takes_what_the_sessions_started() -> None:
    env = ToolEnvironment(verigym.load("math"), tools=[python(wall_s=60)])
    task = env.prompt("What is 37 * 41?", answer="1517")
    texts = [
        f'<tool_call>{{"name": "python", "arguments": {{"code": "{code}"}}}}</tool_call>' for code in ("x = 1", "x += 1; x")
    ]
    with Sessions({"talk": TALK, env.name: env}, workers=1, timeout_s=300) as sessions:
        episodes = [sessions.open(task, str(seed)) for seed in range(3)]
        wait([episode.turn(texts[0]) for episode in episodes])
        sessions.open(TASK, "0").turn("CHILDREN").result()
        (worker,) = workers_of(sessions)
        started = below(worker)
        assert len(children(worker)) >= 3 + 2
        os.kill(worker, signal.SIGKILL)
        answers = [episode.turn(texts[1]).result().reply.messages[0].content for episode in episodes]
        assert answers == ["2\n"] * 3
        assert eventually(lambda: not any(alive(pid) for pid in started), 300)
        started = below(workers_of(sessions)[0])
    assert eventually(lambda: not any(alive(pid) for pid in started), 300)


@pytest.mark.slow
def test_killing_turns_of_many_episodes_at_once() -> None:
    """Killers and others share two workers; each is treated as if it were alone."""
    results: dict[int, Completion] = {}
    with Sessions({"talk": TALK}, workers=2) as sessions:

        def run(number: int) -> None:
            results[number] = play(sessions, TASK, ["a", "DIE" if number % 6 == 0 else "b", "DONE"], str(number))

        threads = [threading.Thread(target=run, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
    for number, episode in results.items():
        if number % 6 == 0:
            assert episode.finish_reason == "limit"
        else:
            assert episode == undisturbed(TALK, TASK, ["a", "b", "DONE"], str(number))
    assert len(results) == 12


def test_without_workers_the_same_rule_holds_for_what_can_be_caught() -> None:
    with Sessions({"talk": TALK}, workers=0) as sessions:
        neighbours = beside(sessions, 2)
        killer = play(sessions, TASK, ["hello", "SHORT"])
        with pytest.raises(EnvironmentFailure, match="by the text"):
            sessions.open(TASK, "1").turn("RAISE").result()
        unharmed(neighbours)
        assert (sessions.stats.deaths, sessions.stats.limits) == (2, 1)
    assert killer.finish_reason == "limit"
