"""`SnapshotEngine`: an engine that samples from a copy of the policy, which changes only with `sync`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from verigym.trainer.engines.base import Engine, Generated, OnFinished


class SnapshotEngine:
    """Lets the policy be updated while completions are sampled from it as it was.

    Args:
        policy: the model that is trained. Weights that are not trained, such as those below an adapter, are shared.
        build: makes the engine for the copy.
    """

    def __init__(self, policy: Any, build: Callable[[Any], Engine]) -> None:
        self._policy = policy
        # The copy's weights keep `requires_grad`, by which torch chooses kernels, even where nothing is differentiated.
        shared = {id(weight): weight for weight in policy.parameters() if not weight.requires_grad}
        self._copy = copy.deepcopy(policy, dict(shared))
        self._engine = build(self._copy)

    @property
    def positions(self) -> int | None:
        """As the engine's."""
        return self._engine.positions

    def sync(self) -> None:
        """Copy the policy's weights."""
        with torch.no_grad():
            for kept, weight in zip(self._copy.parameters(), self._policy.parameters(), strict=True):
                if kept is not weight:
                    kept.copy_(weight)
            for kept, buffer in zip(self._copy.buffers(), self._policy.buffers(), strict=True):
                kept.copy_(buffer)
        self._engine.sync()

    def rest(self) -> None:
        """As the engine's."""
        self._engine.rest()

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample from the copy; see `Engine.generate`."""
        return self._engine.generate(
            prompts, row_keys, max_new_tokens=max_new_tokens, temperature=temperature, on_finished=on_finished
        )

    def close(self) -> None:
        """As the engine's."""
        self._engine.close()
