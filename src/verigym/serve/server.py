"""The process of the service: it listens, starts the workers, and on SIGTERM answers all accepted items before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import Coroutine
from types import FrameType
from typing import Any

import uvicorn

from verigym.envs.contract.errors import UsageError
from verigym.envs.sessions.child import allow_files
from verigym.exit_codes import ExitCode
from verigym.serve.app import Service
from verigym.serve.catalog import load_served, spellings
from verigym.serve.protocol import guarded_protocol
from verigym.serve.settings import ServiceSettings
from verigym.serve.tokens import read_tokens, refuse_open_service

HEAD_BYTES = 16 * 1024
BACKLOG = 2048
SWITCH_S = 0.0005
"""Python's thread switch interval in seconds. It is short, so that threads that read or write items do not hold up the threads
that send tasks to the worker processes."""
LAST_S = 5.0
"""Time limit in seconds for writing the last answers after grading has ended, and again for closing the connections."""
_TICK_S = 0.02
_SWEEP_S = 5.0


class ServiceProcess(uvicorn.Server):
    """uvicorn's server, extended so that it drains: before it shuts down, it waits until all accepted items are answered.

    Args:
        config: uvicorn's configuration.
        service: the service to run.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self.failure: UsageError | None = None
        """Why the workers cannot be started."""
        self.unfinished = 0
        """Number of accepted items that were not graded within the time limit `drain_s` of the shutdown."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the sockets, and start the workers in the background."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._do(self._warm_up())
        self._do(self._sweep())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the connections, then end the workers."""
        await super().shutdown(sockets)
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self.service.close)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain on the first signal; exit at once on the second."""
        if self.service.desk.draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self.service.desk.draining = True
        self._loop.call_soon_threadsafe(lambda: self._do(self._drain()))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _warm_up(self) -> None:
        try:
            await asyncio.to_thread(self.service.start)
        except UsageError as error:
            if not self.service.desk.draining:
                self.failure, self.should_exit = error, True

    async def _sweep(self) -> None:
        episodes = self.service.episodes
        while episodes is not None:
            await asyncio.sleep(min(_SWEEP_S, self.service.limits.episode_idle_s / 4))
            episodes.drop_idle()

    async def _drain(self) -> None:
        """Wait until what was accepted is answered, for a time; then have the clients of the rest ask again."""
        print("draining: nothing more is accepted, what was is answered", file=sys.stderr, flush=True)
        if not await self._idle(self.service.limits.drain_s):
            self.unfinished = self.service.desk.pending
            await asyncio.to_thread(self.service.close)
            await self._idle(LAST_S)
        self.should_exit = True

    async def _idle(self, seconds: float) -> bool:
        """Return whether everything was answered within so many seconds."""
        end = time.monotonic() + seconds
        while self.service.desk.pending or self.service.app.active:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_TICK_S)
        return True


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket on `host` and `port`.

    Raises:
        UsageError: the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"host {host!r}, port {port}: {error.strerror or error}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise UsageError(f"host {host!r}, port {port}: {error.strerror or error}; another port may be free") from None
    return sock


def configured(service: Service) -> uvicorn.Config:
    """Return uvicorn's configuration for `service`."""
    return uvicorn.Config(
        service.app,
        loop="asyncio",
        http=guarded_protocol(service.limits, service.metrics),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=service.limits.idle_s,
        timeout_graceful_shutdown=int(LAST_S),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


def serve(settings: ServiceSettings) -> ExitCode:
    """Run the service until a signal ends it.

    Returns:
        OK if every accepted item was graded, else FAILED.

    Raises:
        UsageError: a setting is invalid, the address is in use, or no worker can be started.
    """
    allow_files()
    sys.setswitchinterval(SWITCH_S)
    tokens = read_tokens(settings.token_file)
    refuse_open_service(settings.host, tokens)
    environments = load_served(settings.environments)
    service = Service(
        environments,
        tokens=tokens,
        limits=settings.limits,
        workers=settings.workers,
        cluster=settings.cluster,
        timeout_s=settings.timeout_s,
        cache=settings.cache,
        concurrency=_concurrency(settings, list(environments)),
        aliases=spellings(settings.environments, list(environments)),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # anyone can send what is not HTTP, and would fill the log
    with contextlib.closing(service), contextlib.closing(listen(settings.host, settings.port)) as sock:
        host, port = sock.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        asked = "a token is demanded" if tokens else "no token is demanded"
        print(f"serving {', '.join(environments)} on http://{shown}:{port}; {asked}", flush=True)
        process = ServiceProcess(configured(service), service)
        process.run([sock])
    if process.failure is not None:
        raise process.failure
    if process.unfinished:
        print(
            f"{process.unfinished} accepted items were not graded, and their clients told to ask again: drain_s was over",
            file=sys.stderr,
        )
        return ExitCode.FAILED
    return ExitCode.OK


def _concurrency(settings: ServiceSettings, names: list[str]) -> dict[str, int]:
    return {
        name: one.concurrency for name, one in zip(names, settings.environments, strict=True) if one.concurrency is not None
    }
