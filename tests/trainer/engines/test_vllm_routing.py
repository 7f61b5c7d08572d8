"""All turns of an episode are asked of one server, over real HTTP, and of another where that one fails."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import pytest
from chats import ChatEnvironment, chatting_model
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
    arguments: dict[str, Any] = {"requests": 3, "timeout_s": 20.0, "wait_s": 20.0, "retries": 5, **more}
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


@pytest.mark.parametrize("order", ["lockstep", "free"])
def test_an_episode_stays_with_its_server(parts: tuple[Any, Codec], order: str) -> None:
    with small_server(parts[0], max_model_len=256) as one, small_server(parts[0], max_model_len=256) as other:
        engine = engine_for(parts, one, other)
        groups = roll(engine, parts[1], order)
        where = turns_by_server(groups, [one, other])
        assert len(where) > 6 and all(len(servers) == 1 for servers in where), where
        assert {0, 1} == set.union(*where), "both are used"
        firsts = [sum(len(prompt) == len(groups[0].prompt_ids) for prompt in server.prompts) for server in (one, other)]
        assert firsts == [6, 6], "new episodes go to the server with the fewest"
        assert not engine.homes._of, "nothing is kept of episodes that are over"


def test_the_orders_give_the_same_episodes(parts: tuple[Any, Codec]) -> None:
    with small_server(parts[0], max_model_len=256) as one, small_server(parts[0], max_model_len=256) as other:
        engine = engine_for(parts, one, other)
        found = [[group.episodes for group in roll(engine, parts[1], order)] for order in ("lockstep", "free")]
        assert found[0] == found[1] and one.asked + other.asked > 24


@pytest.mark.parametrize("order", ["lockstep", "free"])
def test_while_a_server_is_away_the_other_takes_its_episodes(parts: tuple[Any, Codec], order: str) -> None:
    model, codec = parts
    with small_server(model, max_model_len=256) as other:
        one = SmallServer(model, max_model_len=256)
        one.open()
        port = int(one.url.rpartition(":")[2])
        engine = engine_for(parts, one, other)
        expected = [group.episodes for group in roll(engine, codec, order)]
        del one.prompts[:], other.prompts[:]
        one.tricks.extend([None] * 8 + ["die"])
        groups = roll(engine, codec, order)
        assert [group.episodes for group in groups] == expected, "seeds do not depend on the server"
        assert len(one.prompts) == 8, "six first turns, two later ones"
        assert {1} in turns_by_server(groups, [one, other])
        one.restart()
        one.open(port)
        try:
            engine.sync()  # as after the next update
            assert [group.episodes for group in roll(engine, codec, order)] == expected
            assert len(one.prompts) > 8, "it is asked again"
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


def test_homes_are_balanced_and_given_up() -> None:
    homes = Homes(3)
    assert [homes.of(name) for name in "abcdab"] == [0, 1, 2, 0, 0, 1]
    homes.forget(["a", "d", "unknown"])
    assert [homes.of(name) for name in "efb"] == [0, 0, 1]
    homes.move("b", 2)
    assert homes.of("b") == 2 and homes.of("g") == 1
