"""A typed client of `verigym serve`, for programs with and without an event loop.

`Client` and `AsyncClient` have the same methods. Failed requests are sent again where this is safe: every item has an
idempotency key and every turn a number, so a lost answer is fetched again, and nothing is graded or played twice. `wire` makes
requests and reads answers; `retrying` decides which requests are tried again, and when.
"""

from verigym.envs.extras import need

need("httpx", "verigym.client")

from verigym.client.asynchronous import AsyncClient, AsyncRemoteEpisode  # noqa: E402
from verigym.client.blocking import Client, RemoteEpisode  # noqa: E402
from verigym.client.retrying import RetryPolicy, ServiceError, ServiceUnreachable  # noqa: E402
from verigym.serve.schemas import (  # noqa: E402
    BatchAnswer,
    BatchItem,
    ChatMessage,
    EndedEpisode,
    GeneratedTask,
    ServedEnvironment,
    TurnReply,
)

__all__ = [
    "AsyncClient",
    "AsyncRemoteEpisode",
    "BatchAnswer",
    "BatchItem",
    "ChatMessage",
    "Client",
    "EndedEpisode",
    "GeneratedTask",
    "RemoteEpisode",
    "RetryPolicy",
    "ServedEnvironment",
    "ServiceError",
    "ServiceUnreachable",
    "TurnReply",
]
