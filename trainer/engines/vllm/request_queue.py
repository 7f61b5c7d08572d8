"""Open requests to several servers, and their answers.

All turns of an episode go to the same server, because its prefix cache has the earlier turns. Other servers take them only
while that server gets no requests, or after the request failed on it.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.base import Generated, Request
from verigym.trainer.engines.sampling import Parameter
from verigym.trainer.engines.vllm.client import RequestFailed
from verigym.trainer.engines.vllm.fleet import Fleet
from verigym.trainer.engines.vllm.server import Weights


class Homes:
    """Records which server each unfinished episode is played on, by the server's number.

    Only one thread may use it at a time.
    """

    def __init__(self, servers: int) -> None:
        self._of: dict[Hashable, int] = {}
        self._tokens: dict[Hashable, int] = {}
        self._load = Counter({number: 0 for number in range(servers)})

    def of(self, episode: Hashable, tokens: int) -> int:
        """Return the number of the server that an episode is played on.

        A new episode gets the server whose episodes have the fewest tokens in total; of several such servers, the first.

        Args:
            episode: key of the episode.
            tokens: number of tokens of the episode so far.
        """
        server = self._of.get(episode)
        self.forget([episode])
        if server is None:
            server = min(self._load, key=lambda number: (self._load[number], number))
        self._of[episode], self._tokens[episode] = server, tokens
        self._load[server] += tokens
        return server

    def move(self, episode: Hashable, server: int) -> None:
        """Have the next turns of an episode go to `server`."""
        before = self._of[episode]
        self._of[episode] = server
        self._load[before] -= self._tokens[episode]
        self._load[server] += self._tokens[episode]

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop episodes that are over; unknown ones are ignored."""
        for episode in episodes:
            if (server := self._of.pop(episode, None)) is not None:
                self._load[server] -= self._tokens.pop(episode)


@dataclass
class OpenRequest:
    """A request that has no answer yet."""

    request: Request
    parameters: Mapping[str, Parameter]
    home: int | None
    """Number of its server; None for any."""
    tries: int = 0
    failed_on: set[int] = field(default_factory=set)
    """Servers on which it failed."""


@dataclass(frozen=True)
class ServerAnswer:
    """The completion, or the error, with which a request ended."""

    request: Request
    result: Generated | BaseException
    server: int


class RequestQueue:
    """Queue of open requests and received answers, shared by the threads that send requests to the servers."""

    def __init__(self, fleet: Fleet, retries: int) -> None:
        self.fleet, self.retries = fleet, retries
        self.answers: queue.SimpleQueue[ServerAnswer] = queue.SimpleQueue()
        self._closed = False
        lock = threading.Lock()
        self._changed = [threading.Condition(lock) for _ in fleet.servers]
        """By server, all with one lock: there may be a request for it."""
        self._open: deque[OpenRequest] = deque()
        fleet.watch(self._wake_all)

    def put(self, requests: Sequence[OpenRequest]) -> None:
        """Add requests."""
        out = self.fleet.out
        with self._changed[0]:
            for one in requests:
                self._open.append(one)
                for number, changed in enumerate(self._changed):
                    if self._may_take(number, one, out):
                        changed.notify()

    def close(self) -> None:
        """Have the threads end once their requests are answered."""
        self._closed = True
        self._wake_all()
        self.fleet.unwatch(self._wake_all)

    def ask(self, number: int) -> None:
        """Send requests to the server numbered `number`, one after another, until the queue is closed."""
        client = self.fleet.servers[number].client
        while (taken := self._take(number)) is not None:
            one, weights = taken
            try:
                result = client.complete(one.request.prompt, one.parameters, weights.version)
            except RequestFailed as error:
                self.fleet.end(number, error)
                one.tries += 1
                one.failed_on.add(number)
                if one.tries >= self.retries:
                    failure = UsageError(f"{error}; tried {one.tries} times (vllm_retries)")
                    self.answers.put(ServerAnswer(one.request, failure, number))
                    return
                self.put([one])
            except BaseException as error:  # the calling thread raises it
                self.fleet.end(number)
                self.answers.put(ServerAnswer(one.request, error, number))
                return
            else:
                self.fleet.end(number)
                self.answers.put(ServerAnswer(one.request, replace(result, policy_step=weights.step), number))

    def _take(self, number: int) -> tuple[OpenRequest, Weights] | None:
        """Remove the first request that server `number` may answer, and return it with the server's weights.

        Return None when the queue is closed.
        """
        changed = self._changed[number]
        with changed:
            while not self._closed:
                # A server that is out would only fail, and each failure counts against the request's tries.
                out = self.fleet.out
                if number not in out:
                    for place, one in enumerate(self._open):
                        if self._may_take(number, one, out) and (weights := self.fleet.begin(number)) is not None:
                            del self._open[place]
                            return one, weights
                changed.wait()
        return None

    def _may_take(self, number: int, one: OpenRequest, out: frozenset[int]) -> bool:
        """Return True if server `number` may take the request: it is the request's home, or stands in for it.

        Servers on which it failed come last, so that a server that fails each request does not use up its tries.
        """
        if number in out:
            return False
        if number in one.failed_on:
            return all(other in out or other in one.failed_on for other in range(len(self._changed)))
        return one.home in (None, number) or one.home in out or one.home in one.failed_on

    def _wake_all(self) -> None:
        with self._changed[0]:
            for changed in self._changed:
                changed.notify_all()
