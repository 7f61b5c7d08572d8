"""Measures the bytes that a forward pass keeps for the backward pass, on a few short rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.trainer.dry_run.formulas import Kept
from verigym.trainer.logprobs.forward import ForwardOptions, checkpointing
from verigym.trainer.logprobs.shared_prefix import micro_batch_passes, shareable

PROMPT, COMPLETION, ROWS = 29, 17, 4
"""Sizes of the batch that is run: rows of one prompt. Odd numbers, which are rarely those of a weight; see `SavedBytes`."""
BUDGET = 2**20
"""Token budget with which all rows are in one micro-batch."""


class SavedBytes:
    """Autograd hooks that count the bytes kept for the backward pass.

    Weights do not count, nor does any tensor with the shape of a weight. Such tensors are autocast's copies and gradients of
    weights: they do not grow with the number of tokens, and in a large model they exceed the activations of a few tokens.
    """

    def __init__(self, *models: Any) -> None:
        parameters = [parameter for model in models for parameter in model.parameters()]
        self._weights = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._shapes = {tuple(parameter.shape) for parameter in parameters if parameter.dim() > 1}
        self._kept: dict[int, int] = {}
        self._backward = False
        self.peak = 0

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count `tensor`, which autograd keeps, and return it; views of one storage count once."""
        if self._backward:  # the next micro-batch: what the last one kept is gone
            self._kept, self._backward = {}, False
        storage = tensor.untyped_storage()
        of_weight = tuple(tensor.shape) in self._shapes or tuple(tensor.shape[::-1]) in self._shapes
        if storage.data_ptr() not in self._weights and not of_weight:
            self._kept[storage.data_ptr()] = storage.nbytes()
            self.peak = max(self.peak, sum(self._kept.values()))
        return tensor

    def unpack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record that the backward pass has begun, and return `tensor`."""
        self._backward = True
        return tensor


def measure_kept(models: Sequence[Any], how: ForwardOptions, positions: int) -> Kept:
    """Return the bytes that the largest of `models` keeps. They run one after the other, each on a few rows.

    Args:
        models: the policy, and the critic if there is one.
        how: options of the run's forward pass.
        positions: most tokens of a row.
    """
    prompt = min(PROMPT, max(1, positions // 2))
    completion = max(1, min(COMPLETION, positions - prompt))
    texts = [[number + 1 for number in range(completion)]] * ROWS
    prompts = [[number + 2 for number in range(prompt)]] * ROWS
    apart = replace(how, token_budget=BUDGET, shared_prefix=False)

    def kept(model: Any, how: ForwardOptions, again: bool = False) -> int:
        vocabulary = model.config.get_text_config().vocab_size
        prompt_ids, text_ids = ([[token % vocabulary for token in row] for row in rows] for rows in (prompts, texts))
        saved = SavedBytes(model)
        with checkpointing(model, again), torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            passes = [run(None) for _, run in micro_batch_passes(model, prompt_ids, text_ids, range(ROWS), how)]
        del passes  # kept until here, so that no bytes are counted twice at one address
        return saved.peak

    rows = ROWS * (prompt + completion - 1)
    token = max(kept(model, apart) for model in models) / rows
    try:
        checkpointed = max(kept(model, apart, True) for model in models) / rows
    except UsageError:
        checkpointed = token
    copied = 0.0
    if all(shareable(model) for model in models):
        whole = max(kept(model, replace(apart, shared_prefix=True)) for model in models)
        copied = max(0.0, whole - token * (prompt + ROWS * (completion - 1))) / (ROWS * prompt)
    return Kept(token, checkpointed, copied)
