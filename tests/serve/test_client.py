"""The client: with and without an event loop, and what it does where the service or the way to it fails."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from service_process import Running, math_item

from verigym import Completion, UsageError
from verigym.client import (
    AsyncClient,
    AsyncRemoteEpisode,
    Client,
    GeneratedTask,
    RemoteEpisode,
    RetryPolicy,
    ServiceError,
    wire,
)
from verigym.client.retrying import Tries
from verigym.client.wire import BatchRun, encode, line

FAST = RetryPolicy(patience_s=300, first_s=0.01, longest_s=0.05)
SCORE = {"reward": 1.0, "status": "correct"}


def arguments(**more: Any) -> dict[str, Any]:
    item = math_item(**more)
    return {name: item[name] for name in ("environment", "prompt", "reference", "completion")}


def test_both_clients_have_the_same_methods() -> None:
    for one, other in ((Client, AsyncClient), (RemoteEpisode, AsyncRemoteEpisode)):
        mine, theirs = (
            {name: value for name, value in vars(kind).items() if not name.startswith("_")} for kind in (one, other)
        )
        assert mine.keys() == theirs.keys()
        for name in mine:
            if inspect.isfunction(mine[name]):
                assert str(inspect.signature(mine[name])).replace("Iterator", "") == str(
                    inspect.signature(theirs[name])
                ).replace("AsyncIterator", "").replace("AsyncRemote", "Remote"), name


def test_scores_batches_and_environments(service: Running) -> None:
    with Client(service.url) as client:
        assert client.score(**arguments()).reward == 1.0
        assert client.score("math", Completion(text="\\boxed{5}"), prompt="?", reference={"answer": "4"}).reward == 0.0
        assert client.score("arithmetic", "?", task=GeneratedTask(index=1)).reward == 0.0
        items = [client.item(**math_item(n, n, id=str(n))) for n in range(45)]
        answers = list(client.score_batch(items, size=20))
        assert {answer.index: answer.id for answer in answers} == {n: str(n) for n in range(45)}
        assert all(answer.score is not None and answer.score.reward == 1.0 for answer in answers)
        assert "math" in {one.name for one in client.environments()} and client.ready()
        half = client.score("counting", "\ud800 said", prompt="?", reference={})
        assert half.answer == "\ud800 said"
        with pytest.raises(ServiceError, match=r"invalid \(422\): environment 'maths' is not served here; did you mean"):
            client.score("maths", "4", prompt="?")


def test_without_blocking(service: Running) -> None:
    async def play() -> None:
        async with AsyncClient(service.url) as client:
            scores = await asyncio.gather(*[client.score(**arguments(number=n, said=4)) for n in (4, 5, 6)])
            assert [score.reward for score in scores] == [1.0, 0.0, 0.0]
            found = [answer.index async for answer in client.score_batch([client.item(**math_item())] * 3, size=2)]
            assert sorted(found) == [0, 1, 2]
            assert await client.ready() and len(await client.environments()) == 4
            async with await client.episode("number_guessing", task=GeneratedTask(index=3)) as episode:
                assert (await episode.turn("hm")).turn == 0
                assert (await episode.end("length")).completion.finish_reason == "length"
            with pytest.raises(ServiceError, match="not_found"):
                await episode.end()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Client("127.0.0.1:8642"), "expected an address such as"),
        (lambda: Client.item("math", "4"), "either prompt, with reference, or task"),
        (lambda: Client.item("math", "4", prompt="?", key="no spaces"), "key"),
        (lambda: Client.item("math", "4", prompt=[{"role": "nobody", "content": ""}]), "role"),
        (lambda: Client("http://localhost", token="two\nlines"), "the token holds"),
        (lambda: Client("http://localhost", token="ünicode"), "the token holds"),
        (lambda: Client("http://localhost").score("math", "4", prompt="?", key="no spaces"), "key 'no spaces': expected"),
        (lambda: Client("http://localhost").score("math", "4", prompt="?", key=""), "key '': expected"),
        (
            lambda: Tries(RetryPolicy()).pause_s(httpx.LocalProtocolError("Illegal header")),
            "cannot be sent: LocalProtocolError",
        ),
        (lambda: RetryPolicy(patience_s=-1), "expected patience_s"),
        (lambda: list(Client("http://localhost").score_batch([], size=0)), "size is 0"),
    ],
)
def test_mistakes_in_the_call(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made = make()
        made.close()


class Unsteady(ThreadingHTTPServer):
    """A service that fails as it is told to, and notes what it was asked."""

    daemon_threads = True

    def __init__(self, script: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.keys: list[list[str]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Unsteady

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        items = [json.loads(line) for line in body.splitlines()] if self.path.endswith("batch") else [{}]
        self.server.keys.append([one.get("key") or self.headers["Idempotency-Key"] for one in items])
        what = self.server.script.pop(0) if self.server.script else "ok"
        if what.isdigit():
            self._answer(int(what), b'{"error": "overloaded", "message": "later"}', {"Retry-After": "0"})
        elif what == "html":
            self._answer(502, b"<html>a proxy</html>", {})
        elif what == "cut":
            self.close_connection = True
        elif what == "half":  # one line of the answer, then nothing
            line = json.dumps({"index": 0, "score": SCORE}).encode() + b"\n"
            self.send_response(200)
            self.send_header("Content-Length", str(10 * len(line)))
            self.end_headers()
            self.wfile.write(line)
            self.close_connection = True
        elif self.path.endswith("batch"):
            self._answer(
                200, b"".join(json.dumps({"index": n, "score": SCORE}).encode() + b"\n" for n in range(len(items))), {}
            )
        else:
            self._answer(200, json.dumps(SCORE).encode(), {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def unsteady(request: pytest.FixtureRequest) -> Iterator[Unsteady]:
    with Unsteady(list(request.param)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("unsteady", [["429", "cut", "503", "html", "cut", "504", "ok"]], indirect=True)
def test_what_passes_is_tried_again_with_the_same_key(unsteady: Unsteady) -> None:
    with Client(f"http://127.0.0.1:{unsteady.server_port}", retries=FAST) as client:
        assert client.score(**arguments()).reward == 1.0
        assert len(unsteady.keys) == 7 and len({key for keys in unsteady.keys for key in keys}) == 1
        client.score(**arguments())
        assert unsteady.keys[-1] != unsteady.keys[0]


@pytest.mark.parametrize("unsteady", [["429", "half", "cut", "half", "ok"]], indirect=True)
def test_only_what_has_no_answer_is_sent_again(unsteady: Unsteady) -> None:
    with Client(f"http://127.0.0.1:{unsteady.server_port}", retries=FAST) as client:
        answers = list(client.score_batch([client.item(**math_item(id=str(n))) for n in range(5)]))
    assert [answer.index for answer in answers] == [0, 1, 2, 3, 4]
    assert [len(keys) for keys in unsteady.keys] == [5, 5, 4, 4, 3]
    first = unsteady.keys[0]
    assert unsteady.keys[2] == first[1:] and unsteady.keys[4] == first[2:]


@pytest.mark.parametrize("unsteady", [["404"], ["422"], ["500"]], indirect=True)
def test_what_does_not_pass_is_raised_at_once(unsteady: Unsteady) -> None:
    with Client(f"http://127.0.0.1:{unsteady.server_port}", retries=FAST) as client:
        with pytest.raises(ServiceError, match="overloaded"):
            client.score(**arguments())
    assert len(unsteady.keys) == 1


def test_parts_of_a_batch_end_at_their_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Client.item(**math_item(completion="x" * length)) for length in (10, 10, 5000, 10, 10, 10)]
    monkeypatch.setattr(wire, "PART_BYTES", 1000)
    parts = [[json.loads(line) for line in run.body().splitlines()] for run in wire.runs(items, 2)]
    assert [[len(one["completion"]) for one in part] for part in parts] == [[10, 10], [5000], [10, 10], [10]]


@pytest.mark.slow
def test_keys_of_the_user_are_kept() -> None:
    run = BatchRun([line(Client.item(**math_item(key="mine"))), line(Client.item(**math_item()))], 10)
    sent = [json.loads(line)["key"] for line in run.body().splitlines()]
    assert sent[0] == "mine" and len(sent[1]) == 32
    taken = [run.take(json.dumps({"index": 1, "score": SCORE})) for _ in range(2)]
    assert taken[0] is not None and taken[0].index == 11 and taken[1] is None and not run.done
    assert b"\\ud800" in encode(Client.item("math", "\ud800", prompt="?"))
