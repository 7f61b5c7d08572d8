"""The open sessions of one process, which answers requests about them one at a time.

A request has the fields `op` (the operation) and `episode` (a number). The operations are `open` (with `environment`, `prompt`
and `seed`), `turn` (with `text`), `close`, `drop`, which closes a session without returning its outcome, and `ping`, which has
no field `episode`. Each answer is a `wire.Said`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue, TypeAdapter

from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.schema import Turn
from verigym.envs.contract.session import Interactive, Reply, Session
from verigym.envs.grading.channel import encode
from verigym.envs.sessions.wire import Failure

_OUTCOME = TypeAdapter(dict[str, JsonValue])
OUT_OF_MEMORY = "the session ran out of its worker's memory (memory_bytes)"


class Host:
    """Holds the open sessions of a process. Only one thread may use it.

    Args:
        environments: the environments by name, which open the sessions.
        roomy: function that returns whether there is enough memory for more sessions.
    """

    def __init__(self, environments: Mapping[str, Environment], roomy: Callable[[], bool] = lambda: True) -> None:
        self._environments = environments
        self._roomy = roomy
        self._sessions: dict[int, Session] = {}
        self._do: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "open": self._open,
            "turn": self._turn,
            "close": self._close,
            "drop": self._drop,
            "ping": lambda request: {},
        }

    def answer(self, request: Mapping[str, Any]) -> bytes:
        """Return the encoded answer to `request`. A failure of a session is reported in the answer, not raised."""
        said = self._said(request)
        about = {"id": request["id"], "retire": not self._roomy()}
        try:
            return encode({**said, **about})
        except MemoryError:
            return encode({"down": OUT_OF_MEMORY, **about})
        except ValueError as error:
            message = f"what the session said cannot be sent: {describe(error)}"
            failure = Failure(kind="internal", message=message).model_dump(mode="json")
            return encode({"failure": failure, **self._drop(request), **about})

    def close_all(self) -> None:
        """Close all sessions."""
        while self._sessions:
            self._drop({"episode": next(iter(self._sessions))})

    def _said(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._do[request["op"]](request)
        except MemoryError:  # the others in this process have a part in it, so only a fresh one can tell whose fault it is
            return {"down": OUT_OF_MEMORY}
        except BaseException as error:  # as in `blame.guarded`
            return {"failure": _failure(error)}

    def _open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        environment = self._environments[request["environment"]]
        assert isinstance(environment, Interactive)
        self._sessions[request["episode"]] = environment.open(environment.load_prompt(request["prompt"]), request["seed"])
        return {}

    def _turn(self, request: Mapping[str, Any]) -> dict[str, Any]:
        session = self._sessions[request["episode"]]
        try:
            turn = _expected(Turn, session.read(request["text"]), "read")
            reply = _expected(Reply, session.respond(turn), "respond")
            ended = self._close(request) if reply.done else {}
        except MemoryError:
            raise
        except BaseException as error:
            return {"failure": _failure(error), **self._closed_after(request)}
        return {"turn": turn.model_dump(mode="json"), "reply": reply.model_dump(mode="json"), **ended}

    def _close(self, request: Mapping[str, Any]) -> dict[str, Any]:
        session = self._sessions.pop(request["episode"])
        return {"outcome": _OUTCOME.validate_python(dict(session.close()))}

    def _closed_after(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Close a session that has failed; its outcome is worth keeping, but no second failure."""
        if request["episode"] not in self._sessions:  # it failed while it was closed
            return {}
        try:
            return self._close(request)
        except MemoryError:
            raise
        except BaseException as error:
            return {"problem": f"a session that had failed could not be closed: {describe(error)}"}

    def _drop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        session = self._sessions.pop(request["episode"], None)
        try:
            if session is not None:
                session.close()
        except BaseException as error:
            return {"problem": f"a session could not be closed: {describe(error)}"}
        return {}


def _expected(kind: type[Any], given: Any, method: str) -> Any:
    if not isinstance(given, kind):
        raise TypeError(f"{method} of the session returned {type(given).__name__} instead of a {kind.__name__}")
    return given


def _failure(error: BaseException) -> dict[str, Any]:
    return Failure.of(error).model_dump(mode="json")
