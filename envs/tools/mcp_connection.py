"""A running MCP server and the connection to it: blocking calls, answered by an event loop in a thread of its own.

A process has one such thread, which lives as long as any connection. The server ends with the process, even if the process is
killed: see `mcp_supervisor`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import JsonValue

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import ErrorKind, canonical_json
from verigym.envs.tools.function import ToolError

T = TypeVar("T")
LONGEST_LINE = 16 * 2**20
"""Bytes of a message of the server."""
MOST_PAGES = 100
GRACE_S = 1.0
"""Seconds that a server has to exit by itself after its input was closed."""
_KILL_S = 3.0
_SAID_BYTES = 2000
_SUPERVISOR = Path(__file__).with_name("mcp_supervisor.py")


class Launch(NamedTuple):
    """How a server is started."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    timeout_s: float
    """Until it has said which tools it has."""
    mode: str
    """How client and server agree on the protocol version, a mode of `mcp.Client`: `legacy` (the handshake) or `auto`."""


class ListedTool(NamedTuple):
    """A tool as the server describes it."""

    name: str
    description: str
    schema_json: str
    """The JSON schema of its arguments, as `canonical_json` writes it."""


class Trouble(NamedTuple):
    """Why a connection can no longer be used."""

    kind: ErrorKind
    why: str
    retryable: bool


class _LoopThread:
    """The event loop of this process: started for the first connection, and ended with the last."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked process has to: threads do not come along."""
        self._lock = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def borrow(self) -> asyncio.AbstractEventLoop:
        """Return the running loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="verigym-mcp", daemon=True)
                self._thread.start()
            self._users += 1
            return self._loop

    def give_back(self) -> None:
        """End the thread if nobody else needs it."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop = self._thread = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


_LOOP = _LoopThread()
os.register_at_fork(after_in_child=_LOOP.forget)


class Connection:
    """A connection to a running MCP server, with the list of its tools.

    Raises:
        EnvironmentFailure: the server cannot be started, ends, takes too long, or breaks the protocol.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._closed = False
        self._trouble: Trouble | None = None
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._said = b""
        self._client: Any = None
        self.tools: tuple[ListedTool, ...] = ()
        self.server_info = ""
        """Name and version, as the server gives them."""
        self._loop = _LOOP.borrow()
        _open.add(self)
        try:
            self._wait(self._start())
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return not self._closed and self._trouble is None and self._pid == os.getpid()

    def call(self, name: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> Any:
        """Call the tool `name` and return its result, an `mcp.types.CallToolResult`.

        Raises:
            ToolError: the server refuses the arguments.
            EnvironmentFailure: the server ended, took too long, broke the protocol or changed its tools; it has been stopped.
        """
        if self._trouble is not None:
            raise self._failure(self._trouble)
        if self._closed or self._pid != os.getpid():
            raise EnvironmentFailure("internal", f"{self}: the connection is closed, or of another process")
        return self._wait(self._call(name, dict(arguments), timeout_s))

    def close(self) -> None:
        """End the server and all that it has started. Idempotent."""
        with self._closing:
            if self._closed or self._pid != os.getpid():
                return
            self._closed = True
            try:
                self._wait(self._end())
            finally:
                _open.discard(self)
                _LOOP.give_back()

    def __str__(self) -> str:
        return f"MCP server {' '.join(self._launch.command)!r:.100}"

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    # What follows runs in the loop's thread.

    async def _start(self) -> None:
        self._ending = asyncio.Event()
        self._ready = asyncio.Event()
        self._task = asyncio.create_task(self._live())
        async with self._at_most(self._launch.timeout_s, "it did not say which tools it has"):
            await self._ready.wait()
        if self._trouble is not None:
            raise self._failure(self._trouble)

    async def _live(self) -> None:
        """Hold the connection open. The library's contexts must be left by the task that entered them."""
        import mcp

        try:
            async with mcp.Client(
                self._streams(), mode=self._launch.mode, message_handler=self._hear, cache=None
            ) as self._client:
                self.tools = await self._listed()
                info = self._client.server_info
                self.server_info = f"{info.name} {info.version}" if info is not None else ""
                self._ready.set()
                await self._ending.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            inner = _innermost(error)
            ours = isinstance(inner, OSError)
            self._break_off("unavailable" if ours else "protocol", describe(inner), retryable=ours)
        finally:
            self._ready.set()

    async def _listed(self) -> tuple[ListedTool, ...]:
        found: list[ListedTool] = []
        cursor = None
        for _ in range(MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            for tool in page.tools:
                described = tool.description or tool.title or tool.name
                found.append(ListedTool(tool.name, described, canonical_json(tool.input_schema)))
            cursor = page.next_cursor
            if cursor is None:
                return tuple(sorted(found))
        raise ValueError(f"its list of tools has more than {MOST_PAGES} pages")

    async def _call(self, name: str, arguments: dict[str, JsonValue], timeout_s: float) -> Any:
        import mcp

        if self._trouble is None:
            try:
                async with self._at_most(timeout_s, f"{name} gave no result"):
                    result = await self._client.call_tool(name, arguments)
                if self._trouble is None:
                    return result
            except mcp.MCPError as error:
                if self._trouble is None and error.code == mcp.types.INVALID_PARAMS:
                    raise ToolError(error.message) from None
                self._break_off("protocol", f"{name} gave error {error.code}: {error.message}")
            except Exception as error:
                self._break_off("protocol", f"{name}: {describe(error)}")
        assert self._trouble is not None
        raise self._failure(self._trouble)

    async def _hear(self, message: Any) -> None:
        import mcp

        if isinstance(message, mcp.types.ToolListChangedNotification):
            self._break_off("protocol", "it has changed its tools")

    async def _end(self) -> None:
        if not hasattr(self, "_task"):
            return
        if not self._ready.is_set():
            self._break_off("crashed", "it was stopped while it started")
        self._ending.set()
        await asyncio.wait({self._task}, timeout=2 * _KILL_S)
        self._task.cancel()
        await asyncio.wait({self._task})

    @asynccontextmanager
    async def _at_most(self, most_s: float, what: str) -> AsyncIterator[None]:
        """Stop the server if the block takes longer: whatever waits for it then learns that it has ended."""
        why = f"{what} within {most_s:g} s"
        timer = self._loop.call_later(most_s, lambda: self._break_off("timeout", why, retryable=True))
        try:
            async with asyncio.timeout(most_s + 2 * _KILL_S):
                yield
        finally:
            timer.cancel()

    def _break_off(self, kind: ErrorKind, why: str, *, retryable: bool = False) -> None:
        """Give the connection up, for the first reason there is, and stop the server at once."""
        if self._trouble is None and not self._ending.is_set():
            self._trouble = Trouble(kind, why, retryable)
            self._signal(signal.SIGTERM)

    def _failure(self, trouble: Trouble) -> EnvironmentFailure:
        lines = [line for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        words = "".join(char if char.isprintable() else " " for char in lines[-1])[:200].strip() if lines else ""
        said = f"; its last words on standard error: {words}" if words and trouble.kind in ("crashed", "timeout") else ""
        return EnvironmentFailure(trouble.kind, f"{self}: {trouble.why}{said}", retryable=trouble.retryable)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        """Start the server and yield streams of its messages, as `mcp.client.stdio` does.

        That one buffers lines of any length, logs what is no message and goes on, and cannot be told to stop at once.
        """
        import anyio

        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_SUPERVISOR), str(self._pid), *self._launch.command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self._launch.env),
            cwd=self._launch.cwd or None,
            start_new_session=True,  # or an interrupt from the terminal would end it under the episode
            limit=LONGEST_LINE,
        )
        heard, messages = anyio.create_memory_object_stream[Any](0)
        answers, to_send = anyio.create_memory_object_stream[Any](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, heard)
            tasks.start_soon(self._write, process, to_send)
            tasks.start_soon(self._read_errors, process)
            try:
                yield messages, answers
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop(process)
                tasks.cancel_scope.cancel()
                for stream in (heard, messages, answers, to_send):
                    stream.close()

    async def _read(self, process: asyncio.subprocess.Process, heard: Any) -> None:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        assert process.stdout is not None
        async with heard:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._break_off("protocol", f"it wrote a line of more than {LONGEST_LINE} bytes")
                    return
                if not line:
                    break
                try:
                    if line.strip():
                        await heard.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return
                except ValueError:
                    self._break_off("protocol", f"it wrote what is no message: {line[:100].decode('utf-8', 'replace')!r}")
                    return
            if self._stopping:
                return
            await _ended(process, _KILL_S)
            self._break_off("crashed", f"it ended with exit code {process.returncode}", retryable=True)

    async def _write(self, process: asyncio.subprocess.Process, to_send: Any) -> None:
        assert process.stdin is not None
        async with to_send:
            with suppress(OSError):  # it has ended, which `_read` finds out
                async for message in to_send:
                    process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await process.stdin.drain()

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(1 << 16):
            self._said = (self._said + chunk)[-_SAID_BYTES:]

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        """End the server: its input ends, then a signal, then one that nothing survives."""
        assert process.stdin is not None
        self._stopping = True
        if self._trouble is None:
            process.stdin.close()
            await _ended(process, GRACE_S)
        self._signal(signal.SIGTERM)
        await _ended(process, _KILL_S)
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await _ended(process, _KILL_S)


async def _ended(process: asyncio.subprocess.Process, most_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await process.wait()


def _innermost(error: BaseException) -> BaseException:
    """Return the first error inside groups of one, which task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_open: weakref.WeakSet[Connection] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for connection in list(_open):
        connection.close()
