"""Open requests of several servers, and their answers.

The turns of an episode go to one server, whose prefix cache has the earlier ones. Others take them while it does not answer.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.base import Generated, Request
from verigym.trainer.engines.sampling import Parameter
from verigym.trainer.engines.vllm.client import RequestFailed
from verigym.trainer.engines.vllm.server import FIRST_PAUSE_S, LONGEST_PAUSE_S, Server


class Homes:
    """Which server each episode that goes on belongs to, by number."""

    def __init__(self, servers: int) -> None:
        self._of: dict[Hashable, int] = {}
        self._counts = Counter({number: 0 for number in range(servers)})

    def of(self, episode: Hashable) -> int:
        """Return an episode's server; a new episode gets the one with the fewest, the first of several."""
        if episode not in self._of:
            self.move(episode, min(self._counts, key=lambda number: (self._counts[number], number)))
        return self._of[episode]

    def move(self, episode: Hashable, server: int) -> None:
        """Have the next turns of an episode go to this server."""
        self.forget([episode])
        self._of[episode] = server
        self._counts[server] += 1

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop episodes that are over."""
        for episode in episodes:
            if (server := self._of.pop(episode, None)) is not None:
                self._counts[server] -= 1


@dataclass
class OpenRequest:
    """A request that has no answer yet."""

    request: Request
    parameters: Mapping[str, Parameter]
    home: int | None
    """Number of its server; None for any."""
    tries: int = 0


@dataclass(frozen=True)
class ServerAnswer:
    """What came of a request."""

    request: Request
    result: Generated | BaseException
    server: int


class RequestQueue:
    """Open requests and received answers; shared by the threads that ask servers."""

    def __init__(self, servers: Sequence[Server], retries: int) -> None:
        self.servers, self.retries = servers, retries
        self.answers: queue.SimpleQueue[ServerAnswer] = queue.SimpleQueue()
        self.stop = threading.Event()
        lock = threading.Lock()
        self._changed = [threading.Condition(lock) for _ in servers]
        """By server, all with one lock: there may be a request for it."""
        self._open: deque[OpenRequest] = deque()
        self._away: set[int] = set()
        """Servers that failed and are not back yet."""

    def put(self, requests: Sequence[OpenRequest]) -> None:
        """Add requests."""
        with self._changed[0]:
            for one in requests:
                self._open.append(one)
                anywhere = one.home is None or one.home in self._away
                for number, changed in enumerate(self._changed):
                    if anywhere or number == one.home:
                        changed.notify()

    def close(self) -> None:
        """Have the threads end once their requests are answered."""
        self.stop.set()
        self._wake_all()

    def ask(self, number: int) -> None:
        """Send a server one request after another until the queue is closed."""
        server = self.servers[number]
        while (one := self._take(number)) is not None:
            try:
                result = server.client.complete(one.request.prompt, one.parameters, server.version)
                self.answers.put(ServerAnswer(one.request, result, number))
                continue
            except RequestFailed as error:
                one.tries += 1
                if one.tries >= self.retries:
                    failure = UsageError(f"{error}; tried {one.tries} times (vllm_retries)")
                    self.answers.put(ServerAnswer(one.request, failure, number))
                    return
                self.stop.wait(min(FIRST_PAUSE_S * 2**one.tries, LONGEST_PAUSE_S))
            except BaseException as error:  # the calling thread raises it
                self.answers.put(ServerAnswer(one.request, error, number))
                return
            self._set_away(number, True)
            self.put([one])
            try:
                server.recover(self.stop)
            except BaseException as error:
                self.answers.put(ServerAnswer(one.request, error, number))
                return
            self._set_away(number, False)

    def _take(self, number: int) -> OpenRequest | None:
        """Remove and return the first request that this server may answer; None when the queue is closed."""
        changed = self._changed[number]
        with changed:
            while not self.stop.is_set():
                # A server that is away would only fail, and each failure counts against the request's tries.
                for place, one in enumerate(self._open if number not in self._away else ()):
                    if one.home is None or one.home == number or one.home in self._away:
                        del self._open[place]
                        return one
                changed.wait()
        return None

    def _set_away(self, number: int, away: bool) -> None:
        with self._changed[0]:
            (self._away.add if away else self._away.discard)(number)
        self._wake_all()

    def _wake_all(self) -> None:
        with self._changed[0]:
            for changed in self._changed:
                changed.notify_all()
