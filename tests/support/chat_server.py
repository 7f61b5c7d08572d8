"""A server that speaks the OpenAI chat protocol over real sockets, and does to each request what the test says."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]
Step = Callable[["Handler", Request], None]


class Server(ThreadingHTTPServer):
    """Answers request number n with `plan[n]`, and all that follow with `rest`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, rest: Step, plan: list[Step] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rest = rest
        self.plan = list(plan or [])
        self.seen: list[Request] = []
        self.keys: list[str] = []
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.under_way = 0
        self.most = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    under_way = False

    def do_GET(self) -> None:
        self.answer(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append(request)
            self.server.keys.append(self.headers.get("Authorization", ""))
            step = self.server.plan.pop(0) if self.server.plan else self.server.rest
            self.under_way = True
            self.server.under_way += 1
            self.server.most = max(self.server.most, self.server.under_way)
        try:
            step(self, request)
        finally:
            self._over()

    def _over(self) -> None:
        """Count the request as over, once: before its answer is sent, for the client may ask again as soon as it has that."""
        with self.server.lock:
            self.server.under_way -= self.under_way
            self.under_way = False

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._over()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def say(content: str | Callable[[Request], str], usage: tuple[int, int] | None = (100, 10), finish: str = "stop") -> Step:
    """Reply with a text, or with what a function makes of the request."""

    def step(handler: Handler, request: Request) -> None:
        text = content if isinstance(content, str) else content(request)
        body = {"object": "chat.completion", "model": request["model"]}
        body["choices"] = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}]
        if usage is not None:
            body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
        handler.answer(200, body)

    return step


def status(code: int, body: Any = None, **headers: str) -> Step:
    """Reply with an error; `retry_after` becomes the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    shown = {"error": {"message": f"error {code}"}} if body is None else body
    return lambda handler, _: handler.answer(code, shown, named)


def hang(handler: Handler, request: Request) -> None:
    """Say nothing until the server closes."""
    handler.server.closing.wait(600)
    handler.close_connection = True


def drip(handler: Handler, request: Request) -> None:
    """Send a byte at a time, for ever: no single read takes long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.closing.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def drop(handler: Handler, request: Request) -> None:
    """Hang up without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def half(handler: Handler, request: Request) -> None:
    """Hang up in the middle of the body."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    drop(handler, request)


def raw(body: bytes) -> Step:
    """Reply 200 with these bytes."""
    return lambda handler, _: handler.answer(200, body)


@contextmanager
def serving(rest: Step, plan: list[Step] | None = None) -> Iterator[Server]:
    server = Server(rest, plan)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def user(request: Request) -> str:
    return str(request["messages"][1]["content"])


def quote(request: Request, name: str) -> str:
    """Return what stands in the quote of that name, as a reader who trusts only the code would."""
    text = user(request)
    codes = {line.split()[2] for line in text.split("\n") if line.startswith(f"=== {name} ") and line.endswith(" begins ===")}
    first = next(line for line in text.split("\n") if line.startswith("=== question ") and line.endswith(" begins ==="))
    code = first.split()[2]
    assert code in codes
    begin, end = f"=== {name} {code} begins ===\n", f"\n=== {name} {code} ends ==="
    assert text.count(begin) == 1 and text.count(end) == 1
    return text.partition(begin)[2].partition(end)[0]


def compare_texts(request: Request) -> str:
    """Judge equivalence as a strict reader would: the texts are the same or they are not."""
    same = quote(request, "submission").strip().casefold() == quote(request, "reference").strip().casefold()
    return json.dumps({"reasoning": "compared", "verdict": "same" if same else "different"})


def longer(request: Request) -> str:
    """Prefer the longer answer, wherever it stands."""
    first, second = len(quote(request, "first")), len(quote(request, "second"))
    better = "tie" if first == second else "first" if first > second else "second"
    return json.dumps({"reasoning": "by length", "better": better})
