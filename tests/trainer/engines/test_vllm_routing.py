"""All turns of an episode are asked of one server, over real HTTP, and of another where that one fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Any

import pytest
from chats import ChatEnvironment, chatting_model
from patience import HANG_S, wait_for
from small_server import SmallServer, small_server

from verigym.envs import UsageError
from verigym.envs.grading import Grader
from verigym.envs.sessions import Sessions
from verigym.trainer.engines.base import Generated, Request
from verigym.trainer.engines.vllm.remote import VllmServerEngine
from verigym.trainer.engines.vllm.request_queue import Homes
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group, collect
from verigym.trainer.rollout.episodes import EpisodeLimits, Episodes
from verigym.trainer.tasks.mixture import Source

OPEN: list[VllmServerEngine] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture(scope="module")
def parts() -> tuple[Any, Codec]:
    return chatting_model()


def engine_for(parts: tuple[Any, Codec], *servers: SmallServer, **more: Any) -> VllmServerEngine:
    arguments: dict[str, Any] = {"requests": 3, "timeout_s": HANG_S, "wait_s": HANG_S, "retries": 5, **more}
    urls = [server.url for server in servers]
    OPEN.append(VllmServerEngine(*parts, urls=urls, api_key=None, dtype="fp32", weights_dir=None, **arguments))
    OPEN[-1].sync()
    return OPEN[-1]


def roll(engine: VllmServerEngine, codec: Codec, order: Any, prompts: int = 3) -> list[Group]:
    env = ChatEnvironment()
    tasks = []
    for number in range(prompts):
        prompt = env.prompt_at("train", 3, number)
        tasks.append((Source("chat", env, 1.0, lambda index, prompt=prompt: prompt, ()), prompt))
    limits = EpisodeLimits(max_turns=5, max_new_tokens=120, max_turn_tokens=30, positions=250)
    with Grader(env, workers=0) as grader, Sessions({env.name: env}, workers=0) as sessions:
        return collect(
            engine,
            codec,
            lambda source: grader,
            tasks,
            samples=4,
            key=("test",),
            max_new_tokens=120,
            temperature=1.0,
            episodes=Episodes(codec, {"chat": sessions}, limits, order),
        )


def turns_by_server(groups: Sequence[Group], servers: Sequence[SmallServer]) -> list[set[int]]:
    """Return, for each episode of several turns, the servers that answered its later turns and its first."""
    found = []
    for group in groups:
        for done in group.generated:
            ids = [*group.prompt_ids, *done.token_ids]
            asked = [ids[: len(group.prompt_ids) + start] for start, _ in done.turns[1:]]
            if asked:
                found.append({n for n, server in enumerate(servers) for prompt in server.prompts if prompt in asked})
    return found


@pytest.fixture(scope="module")
def expected(parts: tuple[Any, Codec]) -> list[Any]:
    """The episodes, which depend neither on the order nor on the servers."""
    with small_server(parts[0], max_model_len=256) as server:
        engine = engine_for(parts, server)
        return [group.episodes for group in roll(engine, parts[1], "lockstep")]


@pytest.mark.parametrize("order", ["lockstep", "free"])
@pytest.mark.slow
def test_an_episode_stays_with_its_server(parts: tuple[Any, Codec], order: str, expected: list[Any]) -> None:
    with small_server(parts[0], max_model_len=256) as one, small_server(parts[0], max_model_len=256) as other:
        engine = engine_for(parts, one, other)
        groups = roll(engine, parts[1], order)
        assert [group.episodes for group in groups] == expected and one.asked + other.asked > 24
        where = turns_by_server(groups, [one, other])
        assert len(where) > 6 and all(len(servers) == 1 for servers in where), where
        assert {0, 1} == set.union(*where), "both are used"
        firsts = [sum(len(prompt) == len(groups[0].prompt_ids) for prompt in server.prompts) for server in (one, other)]
        assert firsts == [6, 6], "new episodes go to the server with the fewest"
        assert not engine.homes._of, "nothing is kept of episodes that are over"


@pytest.mark.parametrize("order", ["lockstep", "free"])
@pytest.mark.slow
def test_while_a_server_is_away_the_other_takes_its_episodes(parts: tuple[Any, Codec], order: str, expected: list[Any]) -> None:
    model, codec = parts
    with small_server(model, max_model_len=256) as other:
        one = SmallServer(model, max_model_len=256)
        one.open()
        engine = engine_for(parts, one, other)
        one.tricks.extend([None] * 8 + ["die"])
        groups = roll(engine, codec, order)
        assert [group.episodes for group in groups] == expected, "seeds do not depend on the server"
        assert len(one.prompts) == 8, "six first turns, two later ones"
        assert {1} in turns_by_server(groups, [one, other])
        one.restart()
        one.open()
        try:
            engine.sync()  # as after the next update
            wait_for(lambda: not engine.fleet.out)
            assert len(play(engine, [None] * 8)) == 8 and len(one.prompts) > 8, "it is asked again"
        finally:
            one.close()


def play(engine: VllmServerEngine, episodes: Sequence[Hashable], turn: int = 0) -> list[Generated]:
    found: list[Generated] = []
    requests = [
        Request((0, number), [5, 6, 7, *[8] * turn, number + 9], ("k", number, turn), 4, episode)
        for number, episode in enumerate(episodes)
    ]
    engine.play(requests, temperature=1.0, on_finished=lambda p, g, done: found.append(done))
    return found


def test_completions_of_one_turn_belong_to_no_server(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as one, small_server(parts[0]) as other:
        engine = engine_for(parts, one, other)
        assert len(play(engine, [None] * 8)) == 8
        assert not engine.homes._of and one.asked + other.asked == 8


def test_a_server_that_keeps_failing_stops_the_run(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as one, small_server(parts[0]) as other:
        engine = engine_for(parts, one, other, retries=2)
        one.always = other.always = "500"
        with pytest.raises(UsageError, match=r"tried 2 times \(vllm_retries\)"):
            play(engine, ["a", "b"])


def test_a_server_that_stays_away_ends_nothing_while_another_is_well(
    parts: tuple[Any, Codec], caplog: pytest.LogCaptureFixture
) -> None:
    with small_server(parts[0]) as other:
        one = SmallServer(parts[0])
        one.open()
        engine = engine_for(parts, one, other, wait_s=0.3)
        assert len(play(engine, [None] * 4)) == 4
        one.close()
        for _ in range(3):
            assert len(play(engine, ["a", "b", "c", None])) == 4
            engine.sync()
            time.sleep(0.2)  # longer than `wait_s` in all
        assert engine.metrics()["servers_failing"] == 1
        assert other.receiver.version == f"{engine.run}-4"
        one.restart()
        one.open()
        try:
            wait_for(lambda: not engine.fleet.out)
            assert one.receiver.version == f"{engine.run}-4", "it has the newest weights before it is asked"
            asked = one.asked
            assert len(play(engine, [None] * 8)) == 8 and one.asked > asked
        finally:
            one.close()
        assert caplog.text.count("waiting for it") == 1 and caplog.text.count("is back") == 1


def test_the_run_ends_when_all_stay_away_and_names_each(parts: tuple[Any, Codec]) -> None:
    one, other = SmallServer(parts[0]), SmallServer(parts[0])
    one.open()
    other.open()
    urls = [one.url, other.url]
    engine = engine_for(parts, one, other, wait_s=0.3, retries=10)
    one.close()
    other.close()
    with pytest.raises(UsageError, match=r"waited 0.3 s \(vllm_wait_s\)") as error:
        play(engine, ["a"])
    assert all(f"{url} does not answer" in str(error.value) for url in urls)


def test_at_the_start_each_server_has_to_be_there(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as other:
        one = SmallServer(parts[0])
        one.open()
        one.close()
        with pytest.raises(UsageError, match=f"{one.url} does not answer"):
            engine_for(parts, one, other, wait_s=0.3)


def test_a_server_that_looks_well_and_fails_each_request_does_not_end_the_run(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as one, small_server(parts[0]) as other:
        engine = engine_for(parts, one, other, retries=2)
        one.always = "500"
        for turn in range(3):
            assert len(play(engine, list("abcdef"), turn)) == 6
        assert one.asked < 18, "it is asked less and less"


def test_weights_are_pushed_to_all_servers_at_the_same_time(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as one, small_server(parts[0]) as other:
        arrived = [asyncio.Event(), asyncio.Event()]
        for server, mine, others in ((one, *arrived), (other, *reversed(arrived))):
            server.engine.before_load = meet(mine, others)
        engine = engine_for(parts, one, other)
        figures = engine.metrics()
        assert 0 < figures["push_mb"] < 10 and 0 < figures["push_s"]
        assert set(engine.metrics()) == {"servers_failing"}, "there was no push since"


def meet(mine: asyncio.Event, others: asyncio.Event) -> Callable[[], Awaitable[Any]]:
    async def meeting() -> None:
        mine.set()
        await asyncio.wait_for(others.wait(), HANG_S)

    return meeting


def test_an_answer_from_weights_that_changed_meanwhile_is_refused(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as one:
        engine = engine_for(parts, one, retries=2)

        def change() -> None:
            one.receiver.version = f"{engine.run}-0"

        one.engine.before_answer = change
        with pytest.raises(UsageError, match="other weights.*tried 2 times"):
            play(engine, [None])


def test_a_server_started_again_with_less_room_is_refused(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0]) as one:
        engine = engine_for(parts, one)
        one.state.vllm_config.model_config.max_model_len = 32
        one.restart()
        with pytest.raises(UsageError, match="a --max-model-len of 32; start it with 64"):
            play(engine, [None])


def test_published_weights_are_loaded_beside_the_sampling(parts: tuple[Any, Codec]) -> None:
    """Each server ends what it was asked, then loads; completions say whose weights they are from."""
    with small_server(parts[0]) as one, small_server(parts[0]) as other:
        engine = engine_for(parts, one, other, requests=2)
        engine.publish(7)
        engine.settle()
        loaded: list[int] = []
        for server in (one, other):
            server.engine.before_load = running_ended(server, loaded)
        steps: list[int | None] = []

        def finished(p: int, g: int, done: Generated) -> None:
            steps.append(done.policy_step)
            if len(steps) == 10:
                engine.publish(8)

        requests = [Request((0, number), [5, 6, 7, number % 20], ("k", number), 4, None) for number in range(80)]
        later = [requests[60:]]

        def arrivals(idle: bool) -> list[Request]:
            """The last ones come when both servers have loaded."""
            if not idle or not later:
                return []
            wait_for(lambda: len(loaded) == 2)
            return later.pop()

        engine.play(requests[:60], temperature=1.0, on_finished=finished, arrivals=arrivals)
        assert len(steps) == 80 and set(steps) == {7, 8} and set(steps[60:]) == {8}
        assert loaded == [0, 0], "nothing was running on a server that loaded"
        assert one.receiver.version == other.receiver.version
        assert one.asked + other.asked == 80, "nothing was asked twice"


def running_ended(server: SmallServer, loaded: list[int]) -> Callable[[], Awaitable[Any]]:
    async def note() -> None:
        loaded.append(server.asked - len(server.prompts))

    return note


def test_homes_are_balanced_by_tokens_and_given_up() -> None:
    homes = Homes(3)
    assert [homes.of(name, 10) for name in "abcdab"] == [0, 1, 2, 0, 0, 1]
    homes.forget(["a", "d", "unknown"])
    assert [homes.of(name, 10) for name in "efb"] == [0, 0, 1]
    homes.move("b", 2)
    assert homes.of("b", 10) == 2 and homes.of("g", 10) == 1
    assert homes.of("g", 100) == 1, "an episode stays, and weighs more as it grows"
    assert [homes.of(name, 10) for name in "hij"] == [0, 2, 0], "0 has 20 tokens, 1 has 100, 2 has 20"
    homes.forget("abcdefghij")
    assert not homes._of and not homes._tokens and set(homes._load.values()) == {0}
