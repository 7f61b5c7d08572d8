"""Episodes in workers are the episodes of `run_episode`: where they live, in what order, and what they give back."""

import json
import time
from concurrent.futures import wait
from pathlib import Path

import pytest
from processes import eventually
from session_envs import OddEnvironment, TalkEnvironment, play, play_on, undisturbed

import verigym
from verigym import Completion, EnvironmentFailure, ToolEnvironment, Turn, UsageError
from verigym.envs.sessions import Answer, Episode, Sessions
from verigym.tools import calculator, python

TALK = TalkEnvironment()
TASK = TALK.prompt("Talk.", answer="x")
TOOLS = ToolEnvironment(verigym.load("math"), tools=[calculator, python(wall_s=60)])
SUM = TOOLS.prompt("What is 37 * 41?", answer="1517")


def call(name: str, **arguments: str) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


TOOL_TEXTS = [
    call("calculator", expression="37 * 41") + call("nothing"),
    call("python", code="x = 37\nprint(x * 41)"),
    call("python", code="x + 1") + call("python", code="1 / 0"),
    r"It is \boxed{1517}.",
]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_episode_is_that_of_run_episode(workers: int) -> None:
    # The first turn with tools starts a sandbox, for which a very busy machine may need more than the usual half minute.
    with Sessions({"talk": TALK, TOOLS.name: TOOLS}, workers=workers, timeout_s=300) as sessions:
        for env, prompt, texts in (
            (TALK, TASK, ["hello", "a\ud800b", "DONE"]),
            (TALK, TASK, ["hello"] * 5),
            (TALK, TASK, ["hello", "FAIL"]),
            (TOOLS, SUM, TOOL_TEXTS),
        ):
            expected = undisturbed(env, prompt, texts, "7")
            assert play(sessions, prompt, texts, "7") == expected
            assert env.score(prompt, expected).reward == (1.0 if env is TOOLS else None if "FAIL" in texts else 0.0)
        stats = sessions.stats
    assert (stats.opened, stats.ended, stats.failures, stats.turns, stats.deaths) == (4, 3, 1, 13, 0)


def test_an_episode_stays_with_its_worker_and_a_new_one_goes_to_the_emptier() -> None:
    with Sessions({"talk": TALK}, workers=2) as sessions:
        sessions.start()
        episodes = [sessions.open(TASK, str(seed)) for seed in range(8)]
        pids = [[pid(episode) for episode in episodes] for _ in range(3)]
        assert pids[0] == pids[1] == pids[2]
        assert [pids[0].count(one) for one in set(pids[0])] == [4, 4]
        left = [episode for episode, where in zip(episodes, pids[0], strict=True) if where == pids[0][0]]
        for episode in left[:3]:
            episode.end().result()
        more = [sessions.open(TASK, f"more {seed}") for seed in range(3)]
        assert [pid(episode) for episode in more] == [pids[0][0]] * 3


def pid(episode: Episode) -> str:
    return episode.turn("PID").result().reply.messages[0].content


def test_workers_start_when_they_are_needed() -> None:
    with Sessions({"talk": TALK}, workers=2) as sessions:
        first = sessions.open(TASK, "0")
        here = pid(first)
        first.end().result()
        held = [sessions.open(TASK, "1"), sessions.open(TASK, "2")]
        assert [pid(episode) == here for episode in held] == [True, False]


def test_an_episode_that_is_dropped_is_given_up(tmp_path: Path) -> None:
    env = TalkEnvironment(folder=str(tmp_path))
    prompt = env.prompt("Talk.", answer="x")
    with Sessions({"talk": env}, workers=2) as sessions:
        future = sessions.open(prompt, "0").turn("PID")
        here = future.result().reply.messages[0].content  # a future holds its episode
        del future
        assert eventually((tmp_path / "closed").exists, 300)
        assert eventually(lambda: sessions._engine._owners[0].episodes == 0, 300)
        assert pid(sessions.open(prompt, "1")) == here, "nobody else lives there"
        assert sessions.stats.failures == 0


@pytest.mark.slow
def test_three_hundred_live_episodes() -> None:
    with Sessions({"talk": TALK}, workers=2) as sessions:
        episodes = [sessions.open(TASK, str(seed)) for seed in range(300)]
        rounds = [[episode.turn(f"turn {number}") for episode in episodes] for number in range(3)]
        done = wait([future for row in rounds for future in row], timeout=600)
        assert not done.not_done
        ends = [episode.turn("DONE") for episode in episodes]
        for seed in (0, 17, 299):
            episode = undisturbed(TALK, TASK, ["turn 0", "turn 1", "turn 2", "DONE"], str(seed))
            assert [turn.text for turn in episode.turns if turn.role == "user"] == [
                row[seed].result().reply.messages[0].content for row in rounds
            ]
            assert ends[seed].result().outcome == episode.outcome
        assert len({future.result().outcome["state"] for future in ends}) == 300
        stats = sessions.stats
    assert (stats.turns, stats.replays, stats.ended, stats.evicted) == (1200, 0, 300, 0)


def test_turns_are_answered_in_order_of_arrival() -> None:
    with Sessions({"talk": TALK}, workers=1) as sessions:
        episodes = [sessions.open(TASK, str(seed)) for seed in range(4)]
        slow = episodes[0].turn("SLEEP")
        order: list[int] = []
        futures = []
        for number in range(20):
            future = episodes[number % 4].turn(f"turn {number}")
            future.add_done_callback(lambda _, number=number: order.append(number))
            futures.append(future)
        wait([slow, *futures], timeout=600)
        assert eventually(lambda: len(order) == 20, 300)  # who waits may hear of the last before its callback does
        assert order == list(range(20))


@pytest.mark.slow
def test_the_clock_of_a_turn_starts_when_its_worker_begins_it() -> None:
    with Sessions({"talk": TALK}, workers=1, timeout_s=3.0) as sessions:
        sessions.start()
        futures = [sessions.open(TASK, str(seed)).turn("SLEEP") for seed in range(20)]
        begun = time.monotonic()
        assert len([future.result() for future in futures]) == 20
        assert time.monotonic() - begun > 3.0
        assert sessions.stats.deaths == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_over_is_over(workers: int) -> None:
    with Sessions({"talk": TALK}, workers=workers) as sessions:
        episode = sessions.open(TASK, "0")
        answer = episode.turn("DONE").result()
        assert isinstance(answer, Answer) and answer.reply.reward == 0.5
        assert episode.end().result() == answer.outcome == episode.end().result()
        with pytest.raises(UsageError, match="the episode is over"):
            episode.turn("more").result()
        unused = sessions.open(TASK, "1")
        assert unused.end().result()["said"] == 0
        failed = sessions.open(TASK, "2")
        for text in ("FAIL", "hello"):
            with pytest.raises(EnvironmentFailure, match="no server"):
                failed.turn(text).result()
        assert failed.end().result()["said"] == 0, "its session was closed"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_cancelled_turn_is_not_given(workers: int) -> None:
    with Sessions({"talk": TALK}, workers=workers) as sessions:
        episode = sessions.open(TASK, "0")
        slow = episode.turn("SLEEP")
        cancelled = episode.turn("hello")
        assert cancelled.cancel()
        slow.result()
        assert episode.end().result()["said"] == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_exceptions_of_a_session(workers: int) -> None:
    odd = OddEnvironment()
    with Sessions({"talk": TALK, "odd": odd}, workers=workers) as sessions:
        for env, answer, text, kind, message in (
            (TALK, "x", "RAISE", "internal", "the session raised ZeroDivisionError: by the text"),
            (TALK, "x", "QUIT", "internal", "the session raised SystemExit: 1"),
            (TALK, "x", "SOCKET", "backend", "FileNotFoundError"),
            (TALK, "x", "FAIL", "unavailable", "no server"),
            (TALK, "FAIL-OPEN", "hello", "unavailable", "no server at all"),
            (TALK, "RAISE-CLOSE", "DONE", "internal", "ZeroDivisionError: in close"),
            (odd, "x", "NOTHING", "internal", "respond of the session returned NoneType instead of a Reply"),
            (odd, "x", "MUCH", "internal", "cannot be sent"),
            (odd, "SET", "DONE", "internal", "the session raised ValidationError"),
        ):
            episode = sessions.open(env.prompt("q", answer=answer), "0")
            with pytest.raises(EnvironmentFailure) as caught:
                episode.turn(text).result()
            assert caught.value.kind == kind and message in caught.value.message
            raised = caught.value.raised
            assert (raised is None) == (kind == "unavailable" or text == "MUCH")
            if text == "RAISE":
                assert raised is not None and raised.place.endswith("in complain") and "session_envs.py" in raised.place
                assert "host.py" not in raised.traceback
        assert sessions.stats.deaths == 0


def test_a_saved_episode_goes_on() -> None:
    texts = ["hello", "again", "more", "DONE"]
    whole = undisturbed(TALK, TASK, texts)
    saved = Completion.model_validate_json(whole.model_dump_json()).turns[:4]
    with Sessions({"talk": TALK}, workers=1) as sessions:
        rest = play_on(sessions.open(TASK, "0", turns=saved), TASK, texts[2:])
        assert rest.turns == whole.turns[4:]
        assert rest.outcome == whole.outcome
        with pytest.raises(EnvironmentFailure, match="opened anew, the session did not do the same: reply 1 was"):
            sessions.open(TASK, "another seed", turns=saved).turn("hello").result()
        for turns in (saved[1:], saved[:3], saved[::2]):
            with pytest.raises(UsageError, match="turns: "):
                sessions.open(TASK, "0", turns=turns)


def test_a_saved_episode_with_tools_goes_on() -> None:
    whole = undisturbed(TOOLS, SUM, TOOL_TEXTS)
    upto = max(number for number, turn in enumerate(whole.turns) if turn.role == "assistant")
    with Sessions({TOOLS.name: TOOLS}, workers=1, timeout_s=300) as sessions:
        assert play_on(sessions.open(SUM, "0", turns=whole.turns[:upto]), SUM, TOOL_TEXTS[3:]).outcome == whole.outcome


def test_mistakes() -> None:
    with pytest.raises(UsageError, match="'math' has no episodes"):
        Sessions({"math": verigym.load("math")})
    with pytest.raises(UsageError, match="given under 'walk'"):
        Sessions({"walk": TALK})
    for wrong in ({"workers": -1}, {"timeout_s": 0}, {"memory_bytes": 0}, {"idle_s": -1.0}, {"start_timeout_s": 0}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))}="):
            Sessions({"talk": TALK}, **wrong)
    with Sessions({"talk": TALK}, workers=0) as sessions:
        with pytest.raises(UsageError, match="the prompt is for environment 'math_with_tools'"):
            sessions.open(SUM, "0")
        with pytest.raises(TypeError, match="opened for a Prompt"):
            sessions.open("hello", "0")
        with pytest.raises(TypeError, match="a turn is the assistant's next text"):
            sessions.open(TASK, "0").turn(None)
    with pytest.raises(UsageError, match="the sessions are closed"):
        sessions.open(TASK, "0")


def test_the_transcript_of_a_turn_can_be_kept() -> None:
    """What a worker read is a turn of the contract, with its calls."""
    with Sessions({TOOLS.name: TOOLS}, workers=1, timeout_s=300) as sessions:
        answer = sessions.open(SUM, "0").turn(TOOL_TEXTS[0]).result()
    assert [(one.name, one.fault) for one in answer.turn.calls] == [("calculator", None), ("nothing", "unknown")]
    assert Turn.model_validate_json(answer.turn.model_dump_json()) == answer.turn


def test_sessions_idle_too_long_are_closed_and_replayed(tmp_path: Path) -> None:
    env = TalkEnvironment(folder=str(tmp_path))
    prompt = env.prompt("Talk.", answer="x")
    with Sessions({"talk": env}, workers=1, idle_s=0.1) as sessions:
        episode, other = sessions.open(prompt, "0"), sessions.open(prompt, "1")
        futures = [episode.turn("hello"), other.turn("hello")]
        wait(futures)
        assert eventually(lambda: sessions.stats.evicted >= 2 and not sessions._engine._owners[0]._open, 300)
        assert len((tmp_path / "closed").read_text().splitlines()) == sessions.stats.evicted >= 2
        rest = play_on(episode, prompt, ["again", "DONE"])
        assert rest.outcome == undisturbed(env, prompt, ["hello", "again", "DONE"]).outcome
        assert other.end().result()["said"] == 1
        stats = sessions.stats
    assert stats.replays >= 2 and stats.deaths == 0 and stats.evicted >= 2
