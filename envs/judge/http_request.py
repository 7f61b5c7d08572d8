"""One HTTP request with a deadline for the whole exchange. Standard library only.

HTTP libraries restart their timeout with each byte, so a server that sends bytes slowly could hold a worker for ever. Besides,
no HTTP library is sure to be installed: different versions of our dependencies install different ones.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_BODY_BYTES = 4 * 2**20
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Response:
    """What a server answered. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Dropped(ConnectionError):
    """The server closed the connection before the response was complete, or its response is not HTTP."""


def request(method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float) -> Response:
    """Return the response to one request over a new connection. Redirects are not followed, so no other host sees the headers.

    Raises:
        TimeoutError: no complete response came within `timeout_s`.
        OSError: there is no connection, or it broke (`Dropped`).
    """
    parts = urlsplit(url)
    deadline = time.monotonic() + timeout_s
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    late = threading.Event()

    def cut(sock: socket.socket) -> None:
        late.set()
        with suppress(OSError):  # the method of the base class: a TLS socket's own one would change it under the reader
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer: threading.Timer | None = None
    try:
        connection.connect()
        # Taken now: the connection forgets its socket once an answer without keep-alive has begun.
        timer = threading.Timer(max(deadline - time.monotonic(), 0.001), cut, (connection.sock,))
        timer.daemon = True
        timer.start()
        connection.request(method, parts.path or "/", body=body, headers=dict(headers))
        response = connection.getresponse()
        content = _content(response)
        if late.is_set():
            raise TimeoutError
        return Response(response.status, {name.lower(): value for name, value in response.getheaders()}, content)
    except TimeoutError:
        raise TimeoutError(f"no answer within {timeout_s:.3g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if late.is_set():
            raise TimeoutError(f"no answer within {timeout_s:.3g} s") from None
        if isinstance(error, OSError) and not isinstance(error, http.client.HTTPException):
            raise
        raise Dropped(f"the connection broke ({type(error).__name__})") from None
    finally:
        if timer is not None:
            timer.cancel()
        connection.close()


def _content(response: http.client.HTTPResponse) -> bytes:
    content = bytearray()
    while chunk := response.read(_CHUNK_BYTES):
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise Dropped(f"the answer is longer than {MAX_BODY_BYTES} bytes")
    if response.length:  # what was announced and never came
        raise Dropped("the connection broke in the middle of the answer")
    return bytes(content)
