"""Who is refused: no token, too much, too slow, too many, malformed. Most of it with plain sockets."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cases import cases
from processes import eventually
from service_process import HEADERS, Running, math_item

from verigym import UsageError
from verigym.serve.tokens import Tokens, is_local_name, is_loopback, read_tokens, refuse_open_service

TOKEN = "a-token-of-the-tests-0123"
Serve = Callable[..., Running]
BODY = json.dumps(math_item()).encode()


def exchange(port: int, *parts: bytes, until: float = 300, pause: float = 0.0) -> bytes:
    """Send parts one after the other, and return all that comes until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=until) as sock:
        for part in parts:
            try:
                sock.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(pause)
        found = b""
        try:
            while chunk := sock.recv(65536):
                found += chunk
        except ConnectionResetError:
            pass
        return found


def head(path: str = "/score", *lines: str, method: str = "POST", host: str = "localhost") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer.split(b" ")[1])


def get(service: Running, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{service.url}{path}", headers=headers, trust_env=False)


def test_a_token_is_demanded_of_everything_but_health(serve: Serve) -> None:
    service = serve("--env", "math", VERIGYM_TOKEN=TOKEN)
    for path in ("/score", "/metrics", "/environments", "/openapi.json", "/nothing"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}):
            answer = get(service, path, **headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (path, headers)
            assert answer.json()["error"] == "unauthorized" and TOKEN not in answer.text
    assert [get(service, path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert get(service, "/environments", **right).status_code == 200
    answer = httpx.post(f"{service.url}/score", content=BODY, headers={**HEADERS, **right}, timeout=600, trust_env=False)
    assert answer.json()["reward"] == 1.0
    assert get(service, "/environments", **right, Host="elsewhere.example").status_code == 200
    assert TOKEN not in Path(f"/proc/{service.process.pid}/cmdline").read_text()


def test_an_unauthenticated_body_is_not_waited_for(serve: Serve) -> None:
    service = serve("--env", "math", VERIGYM_TOKEN=TOKEN)
    answer = exchange(service.port, head("/score", "Content-Length: 1000", "Connection: close"))
    assert status(answer) == 401
    assert service.metric("verigym_held_bytes", Authorization=f"Bearer {TOKEN}") == 0


@pytest.mark.parametrize("body", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_no_body_is_held_for_a_path_without_a_token(service: Running, path: str, body: str) -> None:
    answer = exchange(service.port, head(path, body, method="GET"), until=300)
    assert status(answer) == 413 and b"connection: close" in answer.lower()
    assert status(exchange(service.port, head(path, "Content-Length: 0", "Connection: close", method="GET"))) == 200


def test_several_tokens_of_a_file(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n\n{TOKEN}-new\n")
    service = serve("--env", "math", "--token-file", str(file), "--host", "0.0.0.0", ready=False)
    assert "a token is demanded" in service.line
    url = f"http://127.0.0.1:{service.port}/environments"
    for token, expected in ((TOKEN, 200), (f"{TOKEN}-new", 200), (f"{TOKEN}-old", 401)):
        answer = httpx.get(url, headers={"Authorization": f"bearer {token}"}, trust_env=False)
        assert answer.status_code == expected


def test_without_a_token_other_hosts_are_refused(service: Running) -> None:
    for host, expected in (
        ("localhost", 200),
        ("127.0.0.1:99", 200),
        ("[::1]:9", 200),
        ("evil.example", 403),
        ("10.0.0.1", 403),
    ):
        assert get(service, "/environments", Host=host).status_code == expected, host


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    import os

    clean = {name: value for name, value in os.environ.items() if name != "VERIGYM_TOKEN"}
    command = [sys.executable, "-m", "verigym", "serve", *arguments]
    return subprocess.run(command, env={**clean, **variables}, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_it_refuses_to_start_off_loopback_without_a_token() -> None:
    done = run("--env", "math", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2 and "which needs a token: set VERIGYM_TOKEN or --token-file" in done.stderr


def test_hosts_and_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.1.1.1", "no-such-host.invalid")] == [False] * 4
    assert [is_local_name(host) for host in (b"LOCALHOST:1", b"[::1]", b"127.0.0.1")] == [True] * 3
    assert [is_local_name(host) for host in (None, b"", b"localhost.evil.example", b"[::2]", b"\xff", b"::1:80")] == [False] * 6
    assert [is_local_name(host) for host in (b"[::1]:8642", b"[::1].evil.example", b"[::1]evil", b"[::1]:x")] == [True] + [
        False
    ] * 3
    refuse_open_service("0.0.0.0", Tokens([TOKEN]))
    refuse_open_service("127.0.0.1", Tokens([]))
    for bad, message in (("short", "has 5 characters"), ("a token with spaces", "spaces"), ("ünïcode-" * 3, "beyond ASCII")):
        with pytest.raises(UsageError, match=message):
            Tokens([bad])
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        read_tokens(str(empty))
    with pytest.raises(UsageError, match="No such file"):
        read_tokens(str(tmp_path / "none"))
    monkeypatch.setenv("VERIGYM_TOKEN", TOKEN)
    assert read_tokens(None).accept(f"Bearer {TOKEN}".encode())
    with pytest.raises(UsageError, match="given twice"):
        read_tokens(str(empty))


LIMITS = [
    *("--limit", "body_bytes=4096", "--limit", "bodies_bytes=4096", "--limit", "head_s=3", "--limit", "body_s=3"),
    *("--limit", "batch_items=6", "--limit", "pending_items=8"),
]


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with small limits."""
    errors = tmp_path_factory.mktemp("tight") / "errors.txt"
    served = ["--env", "math", "--env", "counting_env:Counting", "--port", "0", "--workers", "1"]
    running = Running([*served, *LIMITS], {}, errors)
    try:
        running.wait_until_ready()
        yield running
        assert running.stop() == 0
        assert "Traceback" not in errors.read_text(), errors.read_text()
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.ended()


def alive(service: Running) -> None:
    answer = httpx.post(f"{service.url}/score", content=BODY, headers=HEADERS, timeout=600, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert service.metric("verigym_held_bytes") == 0
    assert service.metric("verigym_items_pending") == 0
    assert service.metric("verigym_requests_active") == 1  # the one that asks


def test_a_body_that_is_too_large(tight: Running) -> None:
    for much in (4097, 200_000):
        answer = httpx.post(f"{tight.url}/score", content=b" " * much, headers=HEADERS, trust_env=False)
        assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    chunked = httpx.post(f"{tight.url}/score", content=iter([b" " * 3000] * 3), headers=HEADERS, trust_env=False)
    assert (chunked.status_code, chunked.json()["error"]) == (413, "too_large")
    assert status(exchange(tight.port, head("/score", "Content-Length: 99999999999999999999", "Connection: close"))) == 413
    with socket.create_connection(("127.0.0.1", tight.port), timeout=300) as sock:
        sock.sendall(head("/score", "Content-Length: 20000000", "Connection: close"))
        sock.sendall(b" " * 20_000_000)  # can be sent to its end, so that every client reads the answer
        assert status(sock.recv(65536)) == 413
    expecting = head("/score", "Content-Length: 9999", "Expect: 100-continue", "Connection: close")
    assert status(exchange(tight.port, expecting)) == 413
    alive(tight)


@cases(
    "parts, expected",
    [
        ([b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "], 408),  # a head that never ends
        ([b""], 408),  # nothing at all
        ([head("/score", "Content-Type: application/json", "Content-Length: 50"), b"{"], 408),  # a body that never comes
        ([head("/score", "Transfer-Encoding: chunked"), b"5\r\nab"], 408),
    ],
)
def test_what_never_becomes_a_request_is_ended(tight: Running, parts: list[bytes], expected: int) -> None:
    begun = time.monotonic()
    assert status(exchange(tight.port, *parts)) == expected
    assert time.monotonic() - begun > 2.9


def test_a_byte_now_and_then_does_not_keep_a_connection(tight: Running) -> None:
    # All parts take ten seconds, and then it is a request, if they are read.
    drop = [b"GET / HTTP/1.1\r\nHost: localhost\r\n", *[f"X-{number}: 1\r\n".encode() for number in range(200)], b"\r\n"]
    assert status(exchange(tight.port, *drop, pause=0.05)) == 408
    body = [head("/score", "Content-Type: application/json", "Content-Length: 200"), *[b" "] * 200]
    assert status(exchange(tight.port, *body, pause=0.05)) == 408
    alive(tight)


@cases(
    "raw",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,  # TLS
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        head("/score", "Content-Length: -1"),
        head("/score", "Content-Length: 1", "Content-Length: 2"),
        head("/score", "Transfer-Encoding: chunked", "Content-Length: 1") + b"x",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000,
        head("/score", "Transfer-Encoding: chunked", "Content-Type: application/json") + b"zz\r\n",
    ],
)
def test_what_is_not_http_is_refused(tight: Running, raw: bytes) -> None:
    answer = exchange(tight.port, raw)
    assert 400 <= status(answer) < 500 and b"connection: close" in answer.lower(), answer


def test_what_is_refused_is_counted_and_it_still_works(tight: Running) -> None:
    exchange(tight.port, b"hello\r\n\r\n")
    assert tight.metric('verigym_refused_total{reason="malformed"}') >= 1
    alive(tight)


def test_bodies_together_are_limited(tight: Running) -> None:
    opening = head("/score", "Content-Type: application/json", f"Content-Length: {3000 + len(BODY)}")
    with socket.create_connection(("127.0.0.1", tight.port), timeout=300) as first:
        first.sendall(opening + b" " * 3000)
        # Until it holds the body, or has given it up already.
        while tight.metric("verigym_held_bytes") < 3000 and not select.select([first], [], [], 0)[0]:
            pass
        answer = httpx.post(f"{tight.url}/score", content=b" " * 1500 + BODY, headers=HEADERS, trust_env=False)
    assert answer.status_code in (408, 429, 200)  # the first may have been given up meanwhile, which frees what it held
    if answer.status_code == 429:
        assert answer.headers["retry-after"] == "1"


def slow_items(count: int, seconds: float) -> list[dict[str, Any]]:
    fields = {"environment": "counting", "prompt": "?", "reference": {"seconds": seconds}}
    return [{**fields, "completion": f"{seconds} {number}"} for number in range(count)]


def test_too_many_items_get_429_and_when_to_come_again(tight: Running) -> None:
    with httpx.Client(trust_env=False, timeout=600) as client:
        body = json.dumps([*slow_items(1, 4.0), *slow_items(5, 0.1)]).encode()
        with client.stream("POST", f"{tight.url}/score/batch", content=body, headers=HEADERS) as first:
            assert first.status_code == 200  # accepted: six of eight
            answer = client.post(f"{tight.url}/score/batch", content=json.dumps([math_item()] * 3).encode(), headers=HEADERS)
            assert (answer.status_code, answer.json()["error"]) == (429, "overloaded")
            assert 1 <= int(answer.headers["retry-after"]) <= 30
            assert client.post(f"{tight.url}/score", content=BODY, headers=HEADERS).status_code == 200
            assert len(list(first.iter_lines())) == 6
    alive(tight)


def test_a_client_that_leaves_frees_its_place(tight: Running) -> None:
    body = json.dumps(slow_items(6, 0.4)).encode()
    with httpx.Client(trust_env=False, timeout=600) as client:
        with client.stream("POST", f"{tight.url}/score/batch", content=body, headers=HEADERS) as first:
            assert first.status_code == 200
        end = time.monotonic() + 300
        while tight.metric("verigym_items_pending"):
            assert time.monotonic() < end
            time.sleep(0.05)
    alive(tight)


@pytest.mark.slow
def test_connections_are_limited_and_the_longest_waiting_makes_room(serve: Serve) -> None:
    service = serve("--env", "math", "--limit", "connections=20", "--limit", "waiting_connections=5")
    sockets = [socket.create_connection(("127.0.0.1", service.port), timeout=300) for _ in range(12)]
    try:
        ended = 0
        for sock in sockets[:6]:
            try:
                ended += not sock.recv(1)
            except ConnectionResetError:
                ended += 1
        assert ended == 6  # twelve wait, five may
        alive(service)  # though others hold connections
        kept = [httpx.Client(base_url=service.url, trust_env=False) for _ in range(30)]
        found = [client.get("/healthz").status_code for client in kept]
        assert found.count(200) >= 10 and set(found) <= {200, 503} and 503 in found
        for client in kept:
            client.close()
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.slow
def test_answers_that_nobody_reads_are_given_up(serve: Serve) -> None:
    service = serve("--env", "counting_env:Counting", "--limit", "write_s=0.5")
    text = "x" * 40_000  # comes back as the answer, more than the buffers of two sockets take
    items = [{**one, "completion": text + one["completion"], "key": f"k{n}"} for n, one in enumerate(slow_items(600, 0.0))]
    body = json.dumps(items).encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(600)
        sock.connect(("127.0.0.1", service.port))
        sock.sendall(head("/score/batch", "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        assert eventually(lambda: service.metrics('verigym_refused_total{reason="slow_reader"}') == [1])
    assert service.metric("verigym_answers_kept") > 0
