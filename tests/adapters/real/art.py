"""ART's own model, trajectories and groups, with an endpoint that says what a script says. Prints one line of JSON."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from adapter_environments import MIXTURE, WITH_TOOLS

from verigym.adapters import art as ours
from verigym.envs import Completion
from verigym.envs.contract.schema import sha256_hex

if __name__ == "__main__":
    import art

EACH = 6


class Endpoint(BaseHTTPRequestHandler):
    """Chat completions: calls where there are tools, as structures or as text, and otherwise a number of one digit."""

    structured = True
    asked = 0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked += 1
        messages, names = asked["messages"], [tool["function"]["name"] for tool in asked.get("tools", [])]
        message: dict[str, Any] = {"role": "assistant", "content": rf"\boxed{{{self.asked % 10}}}"}
        if len(messages) > 1:
            message["content"] = rf"\boxed{{{messages[-1]['content']}}}"
        elif names:
            question = messages[-1]["content"].replace("=?", "").strip()
            arguments = {"expression": question} if names == ["calculator"] else {"number": 3}
            function = {"name": names[0], "arguments": json.dumps(arguments) if self.structured else arguments}
            if self.structured:
                message |= {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": function}]}
            else:
                message["content"] = f"<tool_call>{json.dumps(function)}</tool_call>"
        choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


async def gathered(rollout: Any, model: Any, count: int) -> tuple[list[Any], int]:
    """Groups of trajectories as ART gathers them, and how many rollouts raised."""
    rows = list(rollout.scorer.sources.rows(count))
    groups = await art.gather_trajectory_groups(
        (art.TrajectoryGroup(rollout(model, row) for _ in range(EACH)) for row in rows), max_exceptions=1000, pbar_desc=None
    )
    return groups, sum(len(group.exceptions) for group in groups)


def compared(rollout: Any, groups: list[Any]) -> dict[str, int]:
    sources, found = rollout.scorer.sources, {"trajectories": 0, "equal": 0}
    tasks = {row["key"]: sources.task(row["verigym"]) for row in sources.rows(12)}
    for group in groups:
        for one in group.trajectories:
            label, task = tasks[one.metadata["key"]]
            text = one.messages()[-1]["content"]
            found["trajectories"] += 1
            found["equal"] += one.reward == sources.environments[label].score(task, Completion(text=text)).reward
    return found


async def items(model: Any) -> dict[str, Any]:
    rollout = ours.rollout(MIXTURE, workers=1, retries=0)
    groups, raised = await gathered(rollout, model, 12)
    halves = [one for group in groups for one in group.trajectories if one.metadata["source"] == "half"]
    kept = {one.messages()[-1]["content"] for one in halves}
    messages = {error.message for group in groups for error in group.exceptions}
    rollout.close()
    return {
        **compared(rollout, groups),
        "raised": raised,
        "rollouts": 12 * EACH,
        "kept_fail": sum(int(sha256_hex(text)[:8], 16) % 2 for text in kept),
        "why": sorted(messages),
    }


async def tools(model: Any, structured: bool) -> dict[str, Any]:
    Endpoint.structured = structured
    rollout = ours.rollout(WITH_TOOLS, workers=1)
    groups, raised = await gathered(rollout, model, 6)
    ones = [one for group in groups for one in group.trajectories]
    right = sum(one.reward == 1.0 for one in ones if one.metadata["source"] == "tools")
    roles = sorted({str([message["role"] for message in one.messages()]) for one in ones})
    rollout.close()
    return {**compared(rollout, groups), "raised": raised, "right_with_tool": right, "roles": roles}


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = art.Model(
        name="scripted",
        project="verigym",
        inference_base_url=f"http://127.0.0.1:{server.server_port}/v1",
        inference_api_key="none",
        inference_model_name="scripted",
    )
    result = {
        "version": importlib.metadata.version("openpipe-art"),
        "items": await items(model),
        "tools": await tools(model, True),
        "tools_as_text": await tools(model, False),
    }
    server.shutdown()
    server.server_close()
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
