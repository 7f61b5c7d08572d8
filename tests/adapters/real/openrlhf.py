"""OpenRLHF's own single-turn executor, with our function in a file and with our endpoint. Prints one line of JSON.

Its package is installed without its dependencies (flash-attn and deepspeed need a GPU), so `openrlhf.utils.agent` is what runs:
the code that calls the function and the endpoint, with a model that says what a script says.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adapter_environments import MIXTURE

from verigym.adapters import open_sources, openrlhf

if __name__ == "__main__":
    import torch
    import uvicorn
    from openrlhf.utils.agent import SingleTurnAgentExecutor

FUNCTION = """
import adapter_environments
from verigym.adapters import openrlhf
reward_func = openrlhf.reward_func(adapter_environments.MIXTURE, unscored={unscored}, workers=0, retries=0)
"""
GARBAGE = ("no", "", "12", "17", r"\boxed{3}")
END = "<|im_end|>"


class Characters:
    """A tokenizer whose tokens are characters."""

    def __call__(self, text: str, add_special_tokens: bool, return_tensors: str) -> Any:
        return {"input_ids": torch.tensor([[ord(one) for one in text]])}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids))


class Engine:
    def __init__(self) -> None:
        self.says = ""

    async def generate(self, prompt_ids: Any, sampling_params: Any, multi_modal_data: Any = None) -> Any:
        ids = [ord(one) for one in self.says + END]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, text=self.says, finish_reason="stop", logprobs=None)])


def close(theirs: Any, ours: float) -> bool:
    """Equal, as a number of 32 bits is."""
    return abs(float(theirs) - ours) < 1e-6


async def scored(executor: Any, sources: Any, number: float) -> dict[str, Any]:
    engine, found = Engine(), {"scored": 0, "equal": 0, "unscored": 0, "logged": 0}
    for row in sources.rows(12):
        label, task = sources.task(row["verigym"])
        prompt = f"<|im_start|>user\n{row['prompt'][-1]['content']}{END}\n<|im_start|>assistant\n"
        for text in (sources.environments[label].gold(task), *GARBAGE):
            engine.says = text
            sampling = SimpleNamespace(max_tokens=64, logprobs=None)
            output = await executor.execute(prompt, row["verigym"], sampling, 4096, Characters(), engine)
            ours = sources.environments[label].score(task, text).reward
            found["scored"] += 1
            found["equal"] += float(output["reward"]) == float(output["scores"]) and close(
                output["reward"], number if ours is None else ours
            )
            found["unscored"] += ours is None
            found["logged"] += float(output["extra_logs"]["unscored"]) == float(ours is None)
    return found


async def missing(executor: Any, sources: Any) -> dict[str, Any]:
    """What OpenRLHF has where `stop` raises."""
    row = next(row for row in sources.rows(12) if row["source"] == "half")
    environment, (_, task) = sources.environments["half"], sources.task(row["verigym"])
    engine = Engine()
    engine.says = next(text for text in map(str, range(100)) if environment.score(task, text).reward is None)
    sampling = SimpleNamespace(max_tokens=64, logprobs=None)
    output = await executor.execute("Q\n", row["verigym"], sampling, 4096, Characters(), engine)
    return {"reward": output["reward"]}


def served(application: Any) -> str:
    """Serve an application in a thread and return its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{port}/get_reward"


if __name__ == "__main__":
    mixture = open_sources(MIXTURE)
    Path("rewards.py").write_text(FUNCTION.format(unscored=-0.5))
    Path("stops.py").write_text(FUNCTION.format(unscored='"stop"'))
    endpoint = served(openrlhf.app(MIXTURE, unscored=-0.5, workers=0, retries=0))
    stopping = served(openrlhf.app(MIXTURE, unscored="stop", workers=0, retries=0))
    print(
        json.dumps(
            {
                "version": importlib.metadata.version("openrlhf"),
                "function": asyncio.run(scored(SingleTurnAgentExecutor("rewards.py"), mixture, -0.5)),
                "endpoint": asyncio.run(scored(SingleTurnAgentExecutor(endpoint), mixture, -0.5)),
                "function_stops": asyncio.run(missing(SingleTurnAgentExecutor("stops.py"), mixture)),
                "endpoint_stops": asyncio.run(missing(SingleTurnAgentExecutor(stopping), mixture)),
            }
        )
    )
