"""The vLLM servers of a run: which of them get requests, and one thread per server that gives it weights and checks it.

During sampling, a server gets no requests while it fails or loads weights; the other servers go on. The server's thread checks
a failing server until it works again. The run ends when every server has failed for `wait_s` seconds, or when a server cannot
be used for the policy, for example because its model has another shape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.vllm.client import RequestFailed
from verigym.trainer.engines.vllm.server import Server, Weights

logger = logging.getLogger("verigym.trainer")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""Between two looks at a server that fails; the pause doubles."""
CHECK_S = 0.25
"""Seconds after which a waiting thread checks again whether the run can go on."""


class Fleet:
    """Gives the vLLM servers of a run their weights, and keeps track of the servers that fail. Its methods are thread-safe."""

    def __init__(self, servers: Sequence[Server], wait_s: float) -> None:
        """Make a fleet of servers; nothing is sent to them before the first `push`.

        Args:
            servers: all servers of the run.
            wait_s: when all servers have been failing for this many seconds, an error ends the run. During the first push, a
                single server that fails for so long is enough.
        """
        self.servers = servers
        self.wait_s = wait_s
        self._watchers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._target: Weights | None = None
        self._beside = False
        self._running = [0] * len(servers)
        self._in_a_row = [0] * len(servers)
        """Failed requests of each server since its last answer."""
        self._next_look = [0.0] * len(servers)
        """For each server, the monotonic time before which it is not checked again after a failure."""
        self._reading: dict[int, Weights] = {}
        """Server -> weights whose files its keeper may be reading."""
        self._out: set[int] = set(range(len(servers)))
        self._suspected: set[int] = set()
        """Servers that failed a request or a push, and have not been seen working since."""
        self._failing: dict[int, float] = {}
        """Server -> monotonic time of its first failed check or push since it was last seen working."""
        self._overdue: dict[int, str] = {}
        """Server that still failed after `wait_s` seconds -> message of its last failure."""
        self._loading = threading.Semaphore(max(1, len(servers) // 2))
        self._failure: BaseException | None = None
        self._complete = False
        """Whether all servers had the weights once."""
        self._closed = False
        self._keepers: list[threading.Thread] = []

    def push(self, weights: Weights) -> None:
        """Give `weights` to all servers at the same time, and wait until each server has them or fails.

        Nothing may be sampled meanwhile. At the first push all servers must get the weights, later at least one of them.

        Raises:
            UsageError: the servers stay unreachable for `wait_s` seconds, or a server does not fit the policy.
        """
        self._aim(weights, beside=False)
        self.settle()

    def publish(self, weights: Weights) -> None:
        """Begin to give `weights` to the servers while they sample, at most half of them at a time; do not wait for them.

        Before a server loads the weights, it gets no new requests and finishes those that it has. A server that is still
        loading older weights loads the newest ones next. `push` must have been called before.
        """
        self._aim(weights, beside=True)

    def settle(self) -> None:
        """Wait until each server has the newest weights or fails, and at least one has them.

        Raises:
            UsageError: as for `push`.
        """
        with self._lock:
            while True:
                self._raise_failure()
                known = [server.weights is self._target for server in self.servers]
                unknown = [number for number, done in enumerate(known) if not done and number not in self._failing]
                if not unknown and (all(known) or (self._complete and any(known))):
                    self._complete = True
                    return
                self._changed.wait(CHECK_S)

    def check(self) -> None:
        """Raise the error that ends the run, if there is one.

        Raises:
            UsageError: as for `push`.
        """
        with self._lock:
            self._raise_failure()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a server stops or resumes taking requests, until `unwatch`."""
        self._watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        """Stop calling `changed`, which was given to `watch`."""
        self._watchers.remove(changed)

    @property
    def out(self) -> frozenset[int]:
        """The numbers of the servers that get no requests now."""
        with self._lock:
            return frozenset(self._out)

    @property
    def failing(self) -> int:
        """Number of servers that fail now."""
        return len(self._failing)

    def in_use(self, weights: Weights) -> bool:
        """Return True if the files of `weights` may still be needed, to send them to a server or to load them there."""
        with self._lock:
            return weights is self._target or weights in self._reading.values()

    def begin(self, number: int) -> Weights | None:
        """Count a request to the server numbered `number` as begun, and return the server's weights.

        Return None if the server gets no requests now. Otherwise `end` must be called after the request.
        """
        with self._lock:
            if number in self._out:
                return None
            self._running[number] += 1
            return self.servers[number].weights

    def end(self, number: int, failed: RequestFailed | None = None) -> None:
        """Count a request to the server numbered `number` as ended.

        If the request `failed`, the server gets no requests until it is known to work again.
        """
        with self._lock:
            self._running[number] -= 1
            if failed is None:
                self._in_a_row[number] = 0
            elif number not in self._out:
                # A server may look well and fail each request: asked at once again, it would use up the tries of all of them.
                self._in_a_row[number] += 1
                self._wait(number, self._in_a_row[number] - 1)
                self._out.add(number)
                self._suspected.add(number)
            if failed is not None or not self._running[number]:
                self._changed.notify_all()
        if failed is not None:
            self._tell()

    def close(self) -> None:
        """End the keepers."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
        for keeper in self._keepers:
            keeper.join(timeout=LONGEST_PAUSE_S)

    def _aim(self, weights: Weights, *, beside: bool) -> None:
        with self._lock:
            if beside:
                self._raise_failure()
            if self._failure is not None:  # whoever pushes again tries anew
                self._failure = None
                self._failing.clear()
                self._overdue.clear()
            self._target, self._beside = weights, beside
            if not self._keepers:
                self._keepers = [
                    threading.Thread(target=self._keep, args=(number,), name=f"verigym-server-{number}", daemon=True)
                    for number in range(len(self.servers))
                ]
                for keeper in self._keepers:
                    keeper.start()
            self._changed.notify_all()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _tell(self) -> None:
        for changed in list(self._watchers):
            changed()

    def _wait(self, number: int, failures: int) -> None:
        """Set the time of the keeper's next look at a server. The pause doubles with each failure; without any it is 0."""
        pause_s = min(FIRST_PAUSE_S * 2 ** min(failures - 1, 10), LONGEST_PAUSE_S) if failures else 0.0
        self._next_look[number] = time.monotonic() + pause_s

    def _keep(self, number: int) -> None:
        """Give one server the newest weights whenever it lacks them, and look after it when it fails."""
        server, failures = self.servers[number], 0
        while (weights := self._work(number)) is not None:
            try:
                server.update(weights, lambda: self._taken_out(number))
            except RequestFailed as error:
                failures += 1
                if failures == 1:
                    logger.warning("%s; waiting for it for up to %g s", error, self.wait_s)
                self._failed(number, error, failures)
            except BaseException as error:
                self._end(number, error)
            else:
                if failures:
                    logger.warning("%s is back and has the current weights", server.client.url)
                failures = 0
                self._well(number)

    def _work(self, number: int) -> Weights | None:
        """Wait until a server needs its keeper, and return the weights that it should have; None when the fleet is closed."""
        with self._lock:
            while not self._closed:
                has_weights = self.servers[number].weights is self._target
                idle = self._failure is not None or (has_weights and number not in self._suspected)
                left = self._next_look[number] - time.monotonic()
                if not idle and left <= 0:
                    assert self._target is not None
                    self._reading[number] = self._target
                    return self._target
                self._changed.wait(None if idle else left)
            return None

    @contextmanager
    def _taken_out(self, number: int) -> Iterator[None]:
        """Return the context in which a server loads weights while others sample.

        It begins when the server's running requests have ended. The server gets no new requests.
        """
        if not self._beside:
            yield
            return
        with self._loading:
            with self._lock:
                self._out.add(number)
            self._tell()
            with self._lock:
                while self._running[number] and not self._closed:
                    self._changed.wait()
            yield

    def _failed(self, number: int, error: RequestFailed, failures: int) -> None:
        with self._lock:
            self._reading.pop(number, None)
            self._out.add(number)
            self._suspected.add(number)
            self._wait(number, failures)
            now = time.monotonic()
            # Measured from the first failure: a single answer may take longer than `wait_s`.
            if now - self._failing.setdefault(number, now) > self.wait_s:
                self._overdue[number] = str(error)
            if len(self._overdue) >= (len(self.servers) if self._complete else 1):
                every = "; ".join(self._overdue[one] for one in sorted(self._overdue))
                self._failure = UsageError(
                    f"{every}; waited {self.wait_s:g} s (vllm_wait_s). Start the server again; the run goes on from its "
                    "newest checkpoint"
                )
            self._changed.notify_all()
        self._tell()

    def _end(self, number: int, error: BaseException) -> None:
        with self._lock:
            self._reading.pop(number, None)
            self._failure = self._failure or error
            self._changed.notify_all()
        self._tell()

    def _well(self, number: int) -> None:
        with self._lock:
            self._reading.pop(number, None)
            self._suspected.discard(number)
            self._failing.pop(number, None)
            self._overdue.pop(number, None)
            self._out.discard(number)
            self._changed.notify_all()
        self._tell()
