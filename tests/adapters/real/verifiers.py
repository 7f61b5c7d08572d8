"""verifiers' real Env, Rollout and Task score our items: one turn, episodes, and a verifier that fails half the time.

The model is a server of this script, and the harness calls it in process: the bundled ones start a program with `uv`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, os.getcwd())
os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])

HARNESS = '''
import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.runtimes import ProgramResult


class Config(vf.HarnessConfig):
    pass


class Chat(vf.Harness[Config]):
    """One model call for each turn, in this process."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [message_to_wire(m) for m in prompt]
        async with httpx.AsyncClient(timeout=60) as client:
            reply = await client.post(
                f"{endpoint}/chat/completions",
                json={"model": ctx.model, "messages": messages},
                headers={"Authorization": f"Bearer {secret}"},
            )
            reply.raise_for_status()
        return ProgramResult(0, "", "")


__all__ = ["Chat"]
'''
OURS = """
from verigym.adapters import verifiers
OurTaskset, OurEnv = verifiers.plugin({what!r}, count={count}, workers=1, retries=0)
__all__ = ["OurTaskset", "OurEnv"]
"""
THEIRS = """
import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class SumTask(vf.Task[Data]):
    @vf.reward(weight=0.8)
    async def right(self, trace) -> float:
        if "explode" in trace.last_reply:
            raise RuntimeError("a bug that this text finds")
        if "provider" in trace.last_reply:
            raise vf.ProviderError("the judge is overloaded", status_code=503)
        return float(trace.last_reply.split()[-1:] == [self.data.answer])

    @vf.reward(weight=0.2)
    async def polite(self, task, trace) -> float:
        return float("please" in trace.last_reply)

    @vf.metric
    async def words(self, trace) -> float:
        return len(trace.last_reply.split())


class Sums(vf.Taskset[SumTask]):
    def load(self):
        for number in range(5):
            yield SumTask(Data(prompt=f"What is {number}+1?", system_prompt="Add.", answer=str(number + 1)), self.config.task)


__all__ = ["Sums"]
"""


BOXED = THEIRS.replace("async def polite(self, task, trace)", "async def polite(self, runtime, trace)")
WITH_ENV = THEIRS.replace(
    '__all__ = ["Sums"]',
    """
from verifiers.v1.envs.single_agent import SingleAgentEnv


class Played(SingleAgentEnv):
    pass


__all__ = ["Sums", "Played"]
""",
)


class Model:
    """A chat endpoint whose answers are a function of the messages."""

    def __init__(self, policy: Callable[[list[dict[str, str]]], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                message = {"role": "assistant", "content": policy(body["messages"])}
                reply = {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": "mock",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
                data = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"


async def rollouts(taskset: str, policy: Callable[[list[dict[str, str]]], str], count: int) -> list[Any]:
    """Return the traces of so many tasks."""
    from verifiers.v1.clients import EvalClientConfig, ModelContext
    from verifiers.v1.utils.loaders import load_environment, resolve_env_config

    model = Model(policy)
    agent = {"harness": {"id": "in_process"}, "runtime": {"type": "subprocess"}}
    env = load_environment(resolve_env_config({"taskset": {"id": taskset}, "agent": agent}))
    context = ModelContext(model="mock", client=EvalClientConfig(base_url=model.url, api_key_var="NO_KEY"))
    traces = []
    async with env.serving():
        for task in env.taskset.take(count):
            (slot,) = env.slots(task)
            episode = await env.run_slot(slot, context)
            traces += episode.traces or [episode]
    model.server.shutdown()
    return traces


def one_turn() -> dict[str, Any]:
    from verigym.adapters import open_sources

    sources = open_sources({"sources": [{"environment": "arithmetic"}, {"environment": "units", "format": {"boxes": 1}}]})
    rows = [sources.task(row["verigym"]) for row in sources.rows(12)]
    answers = {}
    for number, (label, prompt) in enumerate(rows):
        gold = sources.environments[label].gold(prompt)
        answers[prompt.messages[-1].content] = [gold, r"\boxed{-7}", ""][number % 3] or "nothing"
    traces = asyncio.run(rollouts("mixed_tasks", lambda messages: answers[messages[-1]["content"]], 12))
    expected = [sources.environments[label].score(p, answers[p.messages[-1].content]).reward for label, p in rows]
    return {"verifiers": [trace.reward for trace in traces], "env.score": expected, "ok": [trace.ok for trace in traces]}


def no_reward() -> dict[str, Any]:
    from adapter_environments import Half

    env = Half()
    traces = asyncio.run(rollouts("half_tasks", lambda messages: messages[-1]["content"], 8))
    expected = [env.score(env.prompt_at("train", 0, 0), trace.task.data.prompt).reward for trace in traces]
    return {
        "verifiers": [None if trace.rewards["verigym"] is None else trace.reward for trace in traces],
        "env.score": expected,
        "ok": [trace.ok for trace in traces],
        "errors": sorted({trace.last_error.message for trace in traces if trace.last_error}),
    }


def game(messages: list[dict[str, str]]) -> str:
    """Play number guessing by binary search."""
    import re

    low, high = map(int, re.findall(r"than (\d+)", messages[0]["content"])[:2])
    for said, reply in zip(messages[1::2], messages[2::2], strict=False):
        guess = int(said["content"].removeprefix(r"\boxed{").removesuffix("}"))
        low, high = (guess, high) if reply["content"].startswith("Higher") else (low, guess)
    return rf"\boxed{{{(low + high) // 2}}}"


def episodes() -> dict[str, Any]:
    from verigym.adapters import open_sources
    from verigym.adapters.verifiers import completion_of_trace

    traces = asyncio.run(rollouts("game_tasks", game, 3))
    sources = open_sources("number_guessing")
    expected = []
    for trace in traces:
        label, prompt = sources.task(trace.task.data.verigym)
        expected.append(sources.environments[label].score(prompt, completion_of_trace(trace)).reward)
    return {
        "verifiers": [trace.reward for trace in traces],
        "env.score": expected,
        "turns": [trace.num_turns for trace in traces],
    }


def tools() -> dict[str, Any]:
    """A call in the first turn, then an answer; one source's tool fails on our side."""
    from adapter_environments import WITH_TOOLS

    from verigym.adapters import open_sources
    from verigym.adapters.verifiers import completion_of_trace

    sources, answers = open_sources(WITH_TOOLS), {}
    for row in sources.rows(9):
        label, prompt = sources.task(row["verigym"])
        answers[prompt.messages[-1].content] = sources.environments[label].gold(prompt)

    def policy(messages: list[dict[str, str]]) -> str:
        system, *rest = messages if messages[0]["role"] == "system" else [{"content": ""}, *messages]
        if len(rest) > 1 or not system["content"]:
            return answers[rest[0]["content"]]
        name, given = ("calculator", {"expression": "6*7"}) if "calculator" in system["content"] else ("away", {"number": 1})
        return f"<tool_call>{json.dumps({'name': name, 'arguments': given})}</tool_call>"

    traces = asyncio.run(rollouts("tool_tasks", policy, 9))
    expected = []
    for trace in traces:
        label, prompt = sources.task(trace.task.data.verigym)
        expected.append(sources.environments[label].score(prompt, completion_of_trace(trace)).reward)
    said = [message.content for trace in traces for message in trace.messages if message.role == "user"]
    return {
        "verifiers": [None if trace.rewards["verigym"] is None else trace.reward for trace in traces],
        "env.score": expected,
        "sources": [trace.task.data.source for trace in traces],
        "tool said": sorted({text for text in said if "tool_response" in text}),
    }


def theirs() -> dict[str, Any]:
    import verigym
    from verigym.envs import Completion

    env = verigym.load("verigym.adapters.verifiers_environment:VerifiersEnvironment", taskset="their_tasks")
    # The first task of ten is for `test`.
    prompts = [env.prompt_at("test", 0, 0), *(env.prompt_at("train", 0, index) for index in range(4))]
    texts = ["please 1", "2", "3 please", "explode", "provider"]
    with verigym.Grader(env, workers=1, retries=0) as grader:
        scores = grader.grade([(prompt, Completion(text=text)) for prompt, text in zip(prompts, texts, strict=True)])
    reloaded = env.load_prompt(json.loads(json.dumps(prompts[0].model_dump(mode="json"))))
    traces = asyncio.run(rollouts("their_tasks", lambda m: texts[int(m[-1]["content"].split()[2].partition("+")[0])], 3))
    turns = ({"role": "assistant", "text": "1"}, {"role": "user", "text": "Sure?"}, {"role": "assistant", "text": "please 1"})
    episode = env.score(prompts[0], Completion(text="please 1", turns=turns))
    refused = []
    for taskset in ("boxed_tasks", "played_tasks", "no_such_tasks"):
        try:
            verigym.load("verigym.adapters.verifiers_environment:VerifiersEnvironment", taskset=taskset)
        except verigym.envs.UsageError as error:
            refused.append(str(error))

    async def inside() -> float | None:
        return env.score(prompts[0], "please 1").reward

    return {
        "episode": episode.reward,
        "refused": refused,
        "in a loop": asyncio.run(inside()),
        "rewards": [one.reward for one in scores],
        "status": [one.status.value for one in scores],
        "reasons": [one.reason for one in scores],
        "error": [one.error.kind if one.error else None for one in scores],
        "retryable": scores[-1].error.retryable if scores[-1].error else None,
        "components": dict(scores[0].components),
        "reloaded": reloaded == prompts[0],
        "rollouts": [trace.reward for trace in traces],
        "system": prompts[0].messages[0].role,
    }


if __name__ == "__main__":
    from adapter_environments import WITH_TOOLS

    mixture = {"sources": [{"environment": "arithmetic"}, {"environment": "units", "format": {"boxes": 1}}]}
    files = {
        "in_process": HARNESS,
        "their_tasks": THEIRS,
        "boxed_tasks": BOXED,
        "played_tasks": WITH_ENV,
        "mixed_tasks": OURS.format(what=mixture, count=12),
        "half_tasks": OURS.format(what="adapter_environments:Half", count=8),
        "tool_tasks": OURS.format(what=WITH_TOOLS, count=9),
        "game_tasks": OURS.format(what="number_guessing", count=3),
    }
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)
    report = {"one turn": one_turn(), "no reward": no_reward(), "episodes": episodes(), "tools": tools(), "theirs": theirs()}
    print(json.dumps(report), flush=True)
