"""Client of isolated comparisons: requests to separate processes that can be killed (`worker.py`).

A request frame is a header (sizes and limits) and a JSON payload. A reply frame is a status byte, the CPU time used and, if the
status is OK, JSON that is checked strictly. Each kind of comparison has its own processes, started at the first request:

- `trees`: formulas compared by SymPy; see `math/symbolic/client.py`.
- `gym`: answers scored by reasoning-gym; see `reasoning_gym/`.
- `texts`: LaTeX compared by Math-Verify; see `compare` below. The payload is `{"gold": text, "answer": text}`. The reply is
  `{"gold": bool, "answer": bool, "equal": bool}`: which texts were parsed, and whether the answer equals the gold.

All functions are safe in any thread. A forked process starts its own workers. No signals are used here.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, get_args

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.isolated.worker import CRASH, MAX_REPLY, MEMORY, OK, REPLY, REQUEST, START, TIME, WALL, Kind
from verigym.sandbox.cores import THREAD_VARIABLES, usable_cores

START_S = 120.0
GRACE_S = 10.0
SLEEP_S = 10.0
MAX_PAYLOAD = 48 * 1024  # below a pipe's buffer, so that a write never blocks on a worker that does not read
POOL_SIZE = min(4, usable_cores())

_WHY = {TIME: "ran out of time", WALL: "ran out of time", MEMORY: "ran out of memory", CRASH: "crashed"}


class MathVerifyResult(NamedTuple):
    """The result of Math-Verify. `equal` is true only if both texts were parsed."""

    gold_parsed: bool
    answer_parsed: bool
    equal: bool


class SymbolicLimit(Exception):
    """The comparison exceeded a limit of time or memory, or crashed.

    This does not say whether the answer or the grader is to blame. The caller can find out by comparing a control, which is an
    answer known to be valid.
    """


class _WorkerLost(Exception):
    """The zygote itself is gone or sends invalid frames."""


class _Worker:
    """One zygote process and the pipe to it."""

    def __init__(self, kind: Kind) -> None:
        self.title = f"the {'reasoning-gym' if kind == 'gym' else 'math'} worker"
        # A fixed hash seed makes SymPy's orderings, and so its verdicts, equal in every process. No other variable is passed
        # on, so that no keys leak. The worker notices our death by the end of its stdin; a parent-death signal would already
        # come when the thread that started it ends.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "verigym.envs.isolated.worker", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={
                **dict.fromkeys(THREAD_VARIABLES, "1"),
                "PYTHONHASHSEED": "0",
                "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
            },
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdin and self.process.stdout
        self.requests, self.replies = self.process.stdin.fileno(), self.process.stdout.fileno()
        try:
            status, message, _ = self._receive(START_S)
        except _WorkerLost as lost:
            self.close()
            raise EnvironmentFailure("unavailable", f"{self.title} did not start: {lost}", retryable=True) from None
        if status != OK:
            self.close()
            raise EnvironmentFailure("unavailable", f"{self.title} did not start: {message.decode(errors='replace')}")

    def ask(self, payload: bytes, timeout_s: float, memory_bytes: int) -> tuple[bytes, bytes, float]:
        """Send one request and wait for its reply."""
        # The budget is CPU time, so that a busy machine changes no verdict; the wall-clock limit only stops sleeping children.
        wall_s = 3 * timeout_s + SLEEP_S
        frame = REQUEST.pack(len(payload), timeout_s, wall_s, memory_bytes) + payload
        try:
            os.write(self.requests, frame)
        except OSError as error:
            raise _WorkerLost(str(error)) from None
        return self._receive(wall_s + GRACE_S)

    def _receive(self, timeout_s: float) -> tuple[bytes, bytes, float]:
        deadline = time.monotonic() + timeout_s
        status, size, cpu_s = REPLY.unpack(self._read(REPLY.size, deadline))
        if status not in (OK, TIME, WALL, MEMORY, CRASH, START) or size > MAX_REPLY:
            raise _WorkerLost("it sent no valid frame")
        return status, self._read(size, deadline), cpu_s

    def _read(self, size: int, deadline: float) -> bytes:
        data = b""
        poll = select.poll()
        poll.register(self.replies, select.POLLIN)
        while len(data) < size:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise _WorkerLost("it does not answer")
            chunk = os.read(self.replies, size - len(data))
            if not chunk:
                raise _WorkerLost("it has ended")
            data += chunk
        return data

    def close(self) -> None:
        """End the process; its children die with it."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.kill()
        self.process.wait()

    def disown(self) -> None:
        """In a forked process, release a worker of the parent: close the pipes without a signal."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.returncode = 0


class _Pool:
    """Up to `POOL_SIZE` workers of a kind, started on demand, each serving one comparison at a time."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.slots = threading.BoundedSemaphore(POOL_SIZE)
        self.lock = threading.Lock()
        self.idle: list[_Worker] = []
        self.all: set[_Worker] = set()

    def ask(self, payload: bytes, timeout_s: float, memory_bytes: int) -> tuple[bytes, bytes, float]:
        """Send a request to an idle worker or a new one; a lost worker is replaced once."""
        with self.slots:
            for attempt in range(2):
                worker = self._take()
                try:
                    reply = worker.ask(payload, timeout_s, memory_bytes)
                except _WorkerLost as lost:
                    self._drop(worker)
                    if attempt:
                        why = f"{worker.title} failed twice: {lost}"
                        raise EnvironmentFailure("crashed", why, retryable=True) from None
                    continue
                except BaseException:
                    self._drop(worker)  # interrupted between request and reply: the pipe is out of step
                    raise
                self._give_back(worker)
                return reply
        raise AssertionError("unreachable")

    def warm_up(self) -> None:
        """Start a worker unless one is idle."""
        with self.slots:
            self._give_back(self._take())

    def _take(self) -> _Worker:
        with self.lock:
            if self.idle:
                return self.idle.pop()
        worker = _Worker(self.kind)
        with self.lock:
            self.all.add(worker)
        return worker

    def _give_back(self, worker: _Worker) -> None:
        with self.lock:
            kept = worker in self.all
            if kept:
                self.idle.append(worker)
        if not kept:  # the pool was closed meanwhile
            worker.close()

    def _drop(self, worker: _Worker) -> None:
        with self.lock:
            self.all.discard(worker)
        worker.close()

    def close(self) -> None:
        """End all workers."""
        with self.lock:
            workers, idle, self.all, self.idle = self.all, self.idle, set(), []
        for worker in workers:
            if worker in idle:
                worker.close()
            else:  # a thread still uses its descriptors and will close them; closed here, they could be reused for other files
                worker.process.kill()


_pools: dict[Kind, _Pool] = {kind: _Pool(kind) for kind in get_args(Kind)}


def _after_fork() -> None:
    for kind, pool in list(_pools.items()):
        for worker in pool.all:
            worker.disown()
        _pools[kind] = _Pool(kind)


def warm_up(kind: Kind = "trees") -> None:
    """Start a worker of `kind` now, so that the first comparison does not wait for it.

    Raises:
        EnvironmentFailure: no worker can be started.
    """
    _pools[kind].warm_up()


def close() -> None:
    """End this process's workers now instead of at exit. The next comparison starts new ones."""
    for pool in _pools.values():
        pool.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close)


def compare(
    gold: str,
    answer: str,
    *,
    timeout_s: float = 5.0,
    memory_bytes: int = 1 << 30,
    spend: Callable[[float], None] | None = None,
) -> MathVerifyResult:
    """Return Math-Verify's result on whether `answer` equals `gold`, both in LaTeX.

    Args:
        gold: the reference answer, in LaTeX without delimiters.
        answer: the answer to compare, in LaTeX too.
        timeout_s: CPU seconds for the comparison.
        memory_bytes: limit of the address space in bytes.
        spend: function that is called with the CPU seconds used.

    Raises:
        SymbolicLimit: the comparison ran out of time or memory, or crashed twice.
        EnvironmentFailure: the worker cannot be started (Math-Verify is not installed) or is lost.
    """
    payload = json.dumps({"gold": gold, "answer": answer}).encode()
    return _checked(request("texts", payload, timeout_s=timeout_s, memory_bytes=memory_bytes, spend=spend))


def request(
    kind: Kind, payload: bytes, *, timeout_s: float, memory_bytes: int, spend: Callable[[float], None] | None = None
) -> bytes:
    """Send `payload` to a worker of `kind` and return its reply, which the caller has to check.

    Args:
        kind: the kind of comparison.
        payload: bytes to send to the worker.
        timeout_s: CPU seconds, including those of a second attempt.
        memory_bytes: limit of the address space in bytes.
        spend: function that is called with the CPU seconds used.

    Raises:
        SymbolicLimit: the comparison ran out of time or memory, or crashed twice.
        EnvironmentFailure: the worker cannot be started or is lost.
    """
    if len(payload) > MAX_PAYLOAD:
        raise SymbolicLimit(f"the comparison is longer than {MAX_PAYLOAD} bytes")
    used_s = 0.0
    for attempt in range(2):
        status, data, cpu_s = _pools[kind].ask(payload, timeout_s - used_s, memory_bytes)
        used_s += cpu_s
        # CPU time and memory depend on the child alone; a crash or a wall-clock stop may be due to the machine, so try again.
        if status not in (CRASH, WALL) or attempt or used_s >= timeout_s:
            break
    if spend is not None:
        spend(used_s)
    if status != OK:
        raise SymbolicLimit(f"the comparison {_WHY.get(status, 'failed')}")
    return data


def _checked(data: bytes) -> MathVerifyResult:
    try:
        reply = json.loads(data)
        gold, answer, equal = reply["gold"], reply["answer"], reply["equal"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EnvironmentFailure("protocol", "the math worker's reply is not what was agreed", retryable=True) from None
    if not all(isinstance(flag, bool) for flag in (gold, answer, equal)) or (equal and not (gold and answer)):
        raise EnvironmentFailure("protocol", "the math worker's reply is not what was agreed", retryable=True)
    return MathVerifyResult(gold, answer, equal)
