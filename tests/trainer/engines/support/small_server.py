"""A real HTTP server with the real receiver in front of a small model, which can be told to misbehave."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from patience import wait_for
from safetensors.torch import load_file

from verigym.trainer.engines.native.generate import generate
from verigym.trainer.engines.vllm.receiver import Receiver

HEADER = "Content-Length"
LOOP = asyncio.new_event_loop()
"""Of all requests, because the receiver has a lock, and a lock belongs to one loop."""
threading.Thread(target=LOOP.run_forever, daemon=True).start()


class SmallEngine:
    """What the receiver asks of vLLM, by its names, done by the native loop over a model of its own."""

    def __init__(self, model: Any) -> None:
        self.model = copy.deepcopy(model).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.zero_()  # so that only pushed weights can give the right completions
        self.lock = threading.Lock()
        self.calls: list[str] = []
        self.before_load: Callable[[], Awaitable[Any]] | None = None
        self.before_answer: Callable[[], None] | None = None
        """Called between the sampling and the answer."""

    async def pause_generation(self, mode: str) -> None:
        self.calls.append(f"pause {mode}")

    async def resume_generation(self) -> None:
        self.calls.append("resume")

    async def reset_prefix_cache(self) -> bool:
        self.calls.append("reset")
        return True

    async def collective_rpc(self, method: str, kwargs: Mapping[str, str]) -> None:
        self.calls.append(method)
        if self.before_load is not None:
            await self.before_load()
        found: dict[str, torch.Tensor] = {}
        for file in sorted(Path(kwargs["weights_path"]).glob("*.safetensors")):
            found |= load_file(file)
        with self.lock:
            self.model.load_state_dict(found)

    def complete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a completion as the OpenAI interface of vLLM does."""
        with self.lock:
            ((done,),) = generate(
                self.model,
                [request["prompt"]],
                [[(request["seed"],)]],
                max_new_tokens=request["max_tokens"],
                temperature=request["temperature"],
                eos_ids=frozenset(request["stop_token_ids"]),
                pad_id=0,
            )
        logprobs = {"token_logprobs": list(done.logprobs)}
        return {"choices": [{"token_ids": list(done.token_ids), "logprobs": logprobs, "finish_reason": done.finish_reason}]}


class SmallServer:
    """State that outlives connections: the engine, the receiver, and the tricks to play."""

    def __init__(self, model: Any, max_model_len: int = 64) -> None:
        self.first_model = model
        config = SimpleNamespace(max_model_len=max_model_len, logprobs_mode="processed_logprobs", hf_text_config=model.config)
        self.state = SimpleNamespace(vllm_config=SimpleNamespace(model_config=config), engine_client=None)
        self.tricks: deque[str | None] = deque()
        """What befalls the next completions: a status, drop, garbage, damaged, beyond, null, cut, restart, die or nothing."""
        self.always: str | None = None
        self.asked = 0
        self.prompts: list[list[int]] = []
        """Of all completions that were answered."""
        self.down = False
        self.http: ThreadingHTTPServer | None = None
        self.turn = threading.Lock()
        """Of looking at `down` and taking a trick: what comes after a death finds it dead."""
        self.move()
        self.restart()

    def restart(self) -> None:
        """Forget all weights, as a process that is started again does."""
        self.engine = SmallEngine(self.first_model)
        self.state.engine_client = self.engine
        self.receiver = Receiver(self._application)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        request = json.loads(body)
        data = json.dumps(self.engine.complete(request)).encode()
        self.prompts.append(request["prompt"])
        if self.engine.before_answer is not None:
            self.engine.before_answer()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": data})

    def move(self) -> None:
        """Take another port, and hold it also while nothing listens there."""
        place = socket.socket()
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        place.bind(("127.0.0.1", 0))
        self.port = int(place.getsockname()[1])
        weakref.finalize(self, os.close, place.detach())

    def open(self) -> None:
        """Listen, once no other thread is still closing."""
        wait_for(lambda: self.http is None)
        self.down = False
        self.http = Http(("127.0.0.1", self.port), type("Bound", (Handler,), {"small": self}))
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        http = self.http
        if http is None:
            return
        self.down = True
        http.shutdown()
        http.server_close()
        self.http = None


class Http(ThreadingHTTPServer):
    """Listens at a port that another socket holds."""

    allow_reuse_port = True
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    """Answers for a SmallServer."""

    protocol_version = "HTTP/1.1"
    small: SmallServer

    def log_message(self, *_: object) -> None:
        pass

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get(HEADER, 0)))
        with self.small.turn:
            if self.small.down:  # connections from before have ended, too
                self.close_connection = True
                return
            trick = None
            if self.path == "/v1/completions":
                self.small.asked += 1
                trick = self.small.always or (self.small.tricks.popleft() if self.small.tricks else None)
            if trick == "die":
                self.small.down = True
        if trick == "restart":
            self.small.restart()
        elif trick is not None:
            self.misbehave(trick)
            return
        status, data = asyncio.run_coroutine_threadsafe(self.serve(body), LOOP).result()
        self.reply(status, data)

    do_GET = do_POST = do_PUT = answer

    def misbehave(self, trick: str) -> None:
        if trick == "die":
            threading.Thread(target=self.small.close).start()
        if trick in ("drop", "die"):
            self.close_connection = True
        elif trick == "cut":
            self.send_response(200)
            self.send_header(HEADER, "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif trick == "garbage":
            self.reply(200, b"<html>busy</html>")
        elif trick == "damaged":
            choice = {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0]}, "finish_reason": "stop"}
            self.reply(200, json.dumps({"choices": [choice]}).encode())
        elif trick == "beyond":
            choice = {"token_ids": [10**6], "logprobs": {"token_logprobs": [-1.0]}, "finish_reason": "stop"}
            self.reply(200, json.dumps({"choices": [choice]}).encode())
        elif trick == "null":
            self.reply(200, json.dumps({"choices": [{"token_ids": None, "finish_reason": "abort"}]}).encode())
        else:
            self.reply(int(trick), b'{"error": "on purpose"}')

    async def serve(self, body: bytes) -> tuple[int, bytes]:
        # In two pieces, as a network would.
        pieces = deque([body[: len(body) // 2], body[len(body) // 2 :]])
        told: dict[str, Any] = {"body": b""}

        async def receive() -> dict[str, Any]:
            piece = pieces.popleft()
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message: Mapping[str, Any]) -> None:
            told["status"] = message.get("status", told.get("status"))
            told["body"] += message.get("body", b"")

        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        app = SimpleNamespace(state=self.small.state)
        scope = {"type": "http", "method": self.command, "path": self.path, "headers": headers, "app": app}
        await self.small.receiver(scope, receive, send)
        return told["status"], told["body"]

    def reply(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header(HEADER, str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def small_server(model: Any, **more: Any) -> Iterator[SmallServer]:
    """Give a server that listens."""
    server = SmallServer(model, **more)
    server.open()
    try:
        yield server
    finally:
        server.close()
