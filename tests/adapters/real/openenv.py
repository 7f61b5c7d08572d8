"""OpenEnv's real server, client and Environment with our items; and its server as an environment of ours."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from typing import Any

import uvicorn
from adapter_environments import Half
from openenv import GenericEnvClient
from openenv.core.env_server.interfaces import Environment

import verigym
from verigym.adapters import open_sources, openenv
from verigym.envs import Completion, EnvironmentFailure, Message, Prompt
from verigym.envs.sessions import Sessions

MIXTURE = {
    "sources": [
        {"environment": "arithmetic"},
        {"environment": "units", "format": {"boxes": 1}},
        {"environment": "number_guessing"},
    ]
}


def serve(app: Any) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{port}"


def guesses(prompt: Prompt) -> list[str]:
    reference = prompt.references["number_guessing"]
    low, high, texts = reference.above, reference.below, []
    while not texts or texts[-1] != reference.number:
        texts.append((low + high) // 2)
        low, high = (texts[-1], high) if texts[-1] < reference.number else (low, texts[-1])
    return [rf"\boxed{{{text}}}" for text in texts]


async def client_and_server() -> dict[str, Any]:
    url = serve(openenv.app(MIXTURE, rows=12, workers=1))
    sources = open_sources(MIXTURE)
    theirs, ours, steps = [], [], []
    async with openenv.client(url) as client:
        for number, row in enumerate(sources.rows(12)):
            label, prompt = sources.task(row["verigym"])
            environment = sources.environments[label]
            result = await client.reset(index=number)
            assert result.observation.messages == [one.model_dump() for one in prompt.messages]
            if label == "number_guessing":
                texts, expected = guesses(prompt), 1.0
            else:
                texts = [[environment.gold(prompt), r"\boxed{-7}", "nothing"][number % 3]]
                expected = environment.score(prompt, texts[0]).reward
            for text in texts:
                result = await client.step(text)
            assert result.done
            theirs.append(result.reward)
            ours.append(expected)
            state = await client.state()
            steps.append(state.step_count)
            assert (state.source, state.key) == (label, prompt.key)
    async with GenericEnvClient(base_url=url) as plain:
        first = await plain.reset(index=0)
        again = await plain.reset(verigym=next(sources.rows(12))["verigym"])
        cut = await plain.step({"text": "I was about to", "finish_reason": "length"})
    same = first.observation["messages"] == again.observation["messages"]
    return {"openenv": theirs, "env.score": ours, "steps": steps, "same": same, "cut off": [cut.done, cut.reward]}


def real_environment() -> dict[str, Any]:
    half = Half()
    env = openenv.environment(half, rows=2, workers=0, retries=0)()
    assert isinstance(env, Environment)
    rewards, expected, errors, result = [], [], set(), None
    for number in range(8):
        env.reset(seed=number)
        result = env.step(openenv.types().action(text=str(number)))
        assert result.done
        rewards.append(result.reward)
        expected.append(half.score(half.prompt_at("train", 0, 0), str(number)).reward)
        errors.add(result.error)
    refused = []
    for wrong in (lambda: env.step(openenv.types().action(text="hi")), lambda: env.reset(split="dev")):
        try:
            wrong()
        except ValueError as error:
            refused.append(str(error))
    found = {"openenv": rewards, "env.score": expected, "errors": sorted(errors)}
    return {**found, "refused": refused, "splits": env.list_splits()}


def theirs_as_ours() -> dict[str, Any]:
    url = serve(openenv.app("number_guessing", rows=50, workers=0))
    name = "verigym.adapters.openenv_environment:OpenEnvEnvironment"
    env = verigym.load(name, base_url=url, observation_field="messages")
    env.check()
    prompts = [env.prompt_at("train", 0, index) for index in range(2)]
    rewards, turns = [], []
    with Sessions({"openenv": env}, workers=1) as sessions:
        for place, prompt in enumerate(prompts):
            episode, said = sessions.open(prompt, "0"), [*prompt.messages]
            for _ in range(9):
                answer = episode.turn(play([one.content for one in said]) if place == 0 else "no idea").result()
                said += [Message(role="assistant", content=answer.turn.text), *answer.reply.messages]
                if answer.reply.done:
                    break
            outcome = episode.end().result()
            turns.append(len(outcome["rewards"]))
            saved = Completion(text=answer.turn.text, outcome=outcome, finish_reason="stop")
            rewards.append(env.score(env.load_prompt(prompt.model_dump(mode="json")), saved).reward)
    away = verigym.load(name, base_url="http://127.0.0.1:9")
    try:
        away.check()
        why = ""
    except EnvironmentFailure as failure:
        why = failure.kind
    return {"rewards": rewards, "turns": turns, "away": why}


def play(said: list[str]) -> str:
    """Binary search."""
    import re

    low, high = map(int, re.findall(r"than (\d+)", said[0])[:2])
    for guess, reply in zip(said[1::2], said[2::2], strict=False):
        number = int(guess[7:-1])
        low, high = (number, high) if reply.startswith("Higher") else (low, number)
    return rf"\boxed{{{(low + high) // 2}}}"


if __name__ == "__main__":
    report = {"served": asyncio.run(client_and_server()), "class": real_environment(), "theirs": theirs_as_ours()}
    print(json.dumps(report), flush=True)
