"""NeMo Gym's real resources server class and simple agent score our items over HTTP; the model is a server of this script."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import uvicorn
from adapter_environments import Half
from fastapi import FastAPI
from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.server_utils import BaseServerConfig, ServerClient
from omegaconf import OmegaConf
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

from verigym.adapters import nemo_gym, open_sources

MIXTURE = {
    "sources": [
        {"environment": "units", "name": "plain"},
        {"environment": "arithmetic", "name": "tools", "tools": {"calculator": {}}},
    ]
}


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def serve(app: Any, number: int) -> tuple[uvicorn.Server, asyncio.Task[None]]:
    """Start a server in this event loop, for NeMo Gym has one HTTP client for a whole process."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=number, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    return server, task


def model_app(answers: dict[str, str]) -> FastAPI:
    """A model that calls the calculator once where there is one, and then says what is written for the prompt."""
    app = FastAPI()

    @app.post("/v1/responses")
    async def responses(body: dict[str, Any]) -> dict[str, Any]:
        question = [one for one in body["input"] if one.get("role") == "user"][-1]["content"]
        called = [one for one in body["input"] if one.get("type") == "function_call_output"]
        if body.get("tools") and not called:
            arguments = json.dumps({"expression": "6*7"})
            output = [{"type": "function_call", "call_id": "c", "name": "calculator", "arguments": arguments}]
        else:
            said = answers[question] + (f" (the tool said {called[-1]['output']})" if called else "")
            content = [{"type": "output_text", "text": said, "annotations": []}]
            output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]
        return {
            "id": "r",
            "created_at": 0,
            "model": "mock",
            "object": "response",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    return app


async def gym(
    what: Any, answers: dict[str, str], rows: list[dict[str, Any]], unscored: Any, **settings: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Play rows with the real agent and the real server; return what `/verify` said, and what it aggregates to."""
    ports = {"ours": port(), "agent": port(), "policy": port()}
    kinds = {"ours": "resources_servers", "agent": "responses_api_agents", "policy": "responses_api_models"}
    place = {"host": "127.0.0.1", "entrypoint": "app.py"}
    names = {name: {kind: {name: {**place, "port": ports[name]}}} for name, kind in kinds.items()}
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create(names)
    )
    kind = nemo_gym.server(what, unscored=unscored, **settings)
    ours = kind(config=BaseResourcesServerConfig(port=ports["ours"], name="ours", **place), server_client=client)
    agent = SimpleAgent(
        config=SimpleAgentConfig(
            port=ports["agent"],
            name="agent",
            resources_server={"type": "resources_servers", "name": "ours"},
            model_server={"type": "responses_api_models", "name": "policy"},
            **place,
        ),
        server_client=client,
    )
    apps = {"policy": model_app(answers), "ours": ours.setup_webserver(), "agent": agent.setup_webserver()}
    servers = [await serve(app, ports[name]) for name, app in apps.items()]
    found = []
    for row in rows:
        reply = await client.post("agent", "/run", json=row)
        found.append(json.loads(await reply.content.read()) if reply.status == 200 else {"http": reply.status})
    kept = [
        {"_ng_task_index": number, "_ng_rollout_index": 0, **{name: one[name] for name in ("reward", "mask_sample")}}
        for number, one in enumerate(found)
        if "reward" in one
    ]
    total = await client.post("ours", "/aggregate_metrics", json={"verify_responses": kept})
    aggregated = json.loads(await total.content.read())
    for server, task in servers:
        server.should_exit = True
        await task
    return found, aggregated


async def mixture() -> dict[str, Any]:
    sources = open_sources(MIXTURE)
    nemo_gym.write_rows(sources, sources.rows(10), "rows.jsonl", agent="agent")
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    answers, expected = {}, []
    for number, row in enumerate(rows):
        label, prompt = sources.task(row["verigym"])
        environment = sources.environments[label]
        answers[prompt.messages[-1].content] = [environment.gold(prompt), r"\boxed{-7}"][number % 2]
        expected.append(environment.score(prompt, answers[prompt.messages[-1].content]).reward)
    found, aggregated = await gym(MIXTURE, answers, rows, "mask", workers=1)
    said = [one["response"]["output"][-1]["content"][0]["text"] for one in found if one["source"] == "tools"]
    return {
        "nemo gym": [one["reward"] for one in found],
        "env.score": expected,
        "masked": [one["mask_sample"] for one in found],
        "tools": [one["source"] == "tools" for one in found],
        "tool said 42": all("the tool said 42" in one for one in said),
        "mean": aggregated["agent_metrics"].get("mean/reward"),
    }


async def no_reward() -> dict[str, Any]:
    env = Half()
    sources = open_sources(env)
    rows = [nemo_gym.row_of_gym(sources, row) for row in sources.rows(6)]
    answers = {row["responses_create_params"]["input"][-1]["content"]: str(place) for place, row in enumerate(rows)}
    expected = [env.score(sources.task(row["verigym"])[1], str(place)).reward for place, row in enumerate(rows)]
    masked, aggregated = await gym(env, answers, rows, "mask", workers=0, retries=0)
    stopped, _ = await gym(env, answers, rows, "stop", workers=0, retries=0)
    number, _ = await gym(env, answers, rows, -1, workers=0, retries=0)
    scored = [one for one in expected if one is not None]
    return {
        "mask": [None if one["mask_sample"] else one["reward"] for one in masked],
        "stop": [one.get("reward") for one in stopped],
        "http": sorted({one["http"] for one in stopped if "http" in one}),
        "number": [one["reward"] for one in number],
        "env.score": expected,
        "aggregated": [aggregated["agent_metrics"][name] for name in ("verigym/no_reward", "mean/reward")],
        "mean": sum(scored) / len(scored),
    }


async def both() -> dict[str, Any]:
    return {"mixture": await mixture(), "no reward": await no_reward()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(both())), flush=True)
