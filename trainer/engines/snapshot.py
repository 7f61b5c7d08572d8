"""`Snapshot`: a copy of the policy to sample from, which changes only when its method `take` is called."""

from __future__ import annotations

import copy
from typing import Any

import torch


class Snapshot:
    """Copy of the policy to sample from while the policy itself is updated; `take` copies the present weights.

    Args:
        policy: the model that is trained. Weights that are not trained, such as the base of an adapter, are shared, not copied.
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        # The copy's weights keep `requires_grad`, by which torch chooses kernels, even where nothing is differentiated.
        shared = {id(weight): weight for weight in policy.parameters() if not weight.requires_grad}
        self.model = copy.deepcopy(policy, dict(shared))

    def take(self) -> None:
        """Copy the policy's present weights into the snapshot."""
        with torch.no_grad():
            for kept, weight in zip(self.model.parameters(), self._policy.parameters(), strict=True):
                if kept is not weight:
                    kept.copy_(weight)
            for kept, buffer in zip(self.model.buffers(), self._policy.buffers(), strict=True):
                kept.copy_(buffer)
