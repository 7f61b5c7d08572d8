"""Idle threads leave requests alone while their server is away."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from patience import HANG_S

from verigym.trainer.engines.base import Generated, Request
from verigym.trainer.engines.vllm.client import Client, ServerStatus, ServerUnreachable
from verigym.trainer.engines.vllm.fleet import Fleet
from verigym.trainer.engines.vllm.request_queue import OpenRequest, RequestQueue
from verigym.trainer.engines.vllm.server import Server, Weights

WEIGHTS = Weights("run-1", (), True, ("small",))


class Restarting:
    """A server that is down until it was asked for its status so many times."""

    url = "http://stub"

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.asked = 0

    def status(self) -> ServerStatus:
        self.looks -= 1
        if self.looks >= 0:
            raise ServerUnreachable("down")
        return ServerStatus("boot", WEIGHTS.version, 64, WEIGHTS.shape, "processed_logprobs")

    def complete(self, prompt: Sequence[int], parameters: Mapping[str, Any], version: str) -> Generated:
        self.asked += 1
        if self.looks >= 0:
            raise ServerUnreachable("down")
        return Generated(tuple(prompt), (0.0,) * len(prompt), "stop")


def test_an_outage_costs_each_request_one_try_however_many_threads_idle() -> None:
    client = Restarting(looks=3)
    fleet = Fleet([Server(cast(Client, client))], wait_s=60.0)
    client.looks, looks = 0, client.looks
    fleet.push(WEIGHTS)
    client.looks = looks
    requests = RequestQueue(fleet, retries=2)
    threads = [threading.Thread(target=requests.ask, args=(0,), daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    requests.put([OpenRequest(Request((0, number), (number,), ("key", number), 8), {}, 0) for number in range(2)])
    found = [requests.answers.get(timeout=HANG_S).result for _ in range(2)]
    requests.close()
    for thread in threads:
        thread.join(timeout=HANG_S)
    fleet.close()
    assert sorted(one.token_ids for one in found if isinstance(one, Generated)) == [(0,), (1,)], found
    assert client.asked <= 4
