"""The worker process: loads reasoning-gym once, then makes each item and scores each answer in a separate fork.

A request is `{"op": "make" | "score", "task", "config", "seed"}`. For `score` it also has `answer`, and in `question` the hash
of the question (see `digest`). The reply to `make` is `{"question", "answer"}` and that to `score` is `{"score": number}`, or
`{"changed": true}` if the library now makes a different question from this seed. The reply to both is `{"refused": reason}` if
the library rejects this config.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from verigym.envs.contract.schema import sha256_hex
from verigym.envs.extras import install
from verigym.envs.reasoning_gym.golds import gold_of
from verigym.envs.reasoning_gym.strict import STRICT

DIGEST = 16


def digest(question: str) -> str:
    """Return by what a question is known again."""
    return sha256_hex(question)[:DIGEST]


def load() -> Callable[[bytes], bytes]:
    """Import the library and return the function that answers requests to it.

    Raises:
        ImportError: reasoning-gym is not installed; the message says what to install.
    """
    try:
        import reasoning_gym
    except ModuleNotFoundError as error:
        raise ImportError(f"reasoning-gym is not installed ({error}): {install('reasoning_gym')}") from error

    def answer(payload: bytes) -> bytes:
        request = json.loads(payload)
        try:
            dataset = reasoning_gym.create_dataset(request["task"], **{**request["config"], "seed": request["seed"]})
            item = dataset[0]
        except MemoryError:
            raise
        except Exception as error:
            return json.dumps({"refused": f"{type(error).__name__}: {error}"[:500]}).encode()
        if request["op"] == "make":
            return json.dumps({"question": item["question"], "answer": gold_of(request["task"], item)}).encode()
        if digest(item["question"]) != request["question"]:
            return json.dumps({"changed": True}).encode()
        return json.dumps({"score": _score(request["task"], dataset, item, request["answer"])}).encode()

    return answer


def _score(task: str, dataset: Any, item: dict[str, Any], answer: str) -> float:
    """Return what the library pays for an answer; an answer that it stumbles over is worth nothing."""
    try:
        paid = float(dataset.score_answer(answer, item))
        also = STRICT.get(task)
        return paid if also is None or also(item, answer) else 0.0
    except MemoryError:
        raise
    except Exception:
        return 0.0
