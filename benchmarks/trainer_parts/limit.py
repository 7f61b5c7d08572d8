"""How near the update and the generation come to this machine's matrix products at the model's own shapes.

Only products with weights are counted, which are nearly all of the work. The rest of the time goes to attention over a few
hundred tokens, norms, sampling and the optimizer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from trainer_parts.setting import Shape

Layers = Counter[tuple[int, int]]
"""(inputs, outputs) of a linear layer -> number of such layers."""


def linear_layers(model: Any) -> tuple[Layers, tuple[int, int]]:
    """Return the model's linear layers without its head, and the head's (inputs, outputs)."""
    head = model.get_output_embeddings()
    layers: Layers = Counter()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module is not head:
            layers[module.in_features, module.out_features] += 1
    return layers, (head.in_features, head.out_features)


def update_s(model: Any, shape: Shape, budget: int) -> float:
    """Return the seconds of the products of an update: three of each layer, over prompts run once and all completions."""
    layers, head = linear_layers(model)
    completions = shape.rows * shape.new_tokens
    tokens = shape.prompts * shape.prompt_tokens + completions
    at_once = min(tokens, budget)
    return sum(
        count * passes * products_s(at_once, *sizes, backward=True) / at_once
        for sizes, count, passes in [*((s, n, tokens) for s, n in layers.items()), (head, 1, completions)]
    )


def generation_s(model: Any, shape: Shape) -> float:
    """Return the seconds of the products of a generation: the prompts once, then a row of each completion for each token."""
    layers, head = linear_layers(model)
    prompt = shape.prompts * shape.prompt_tokens
    total = shape.new_tokens * products_s(shape.rows, *head)
    for sizes, count in layers.items():
        total += count * (products_s(prompt, *sizes) + shape.new_tokens * products_s(shape.rows, *sizes))
    return total


def products_s(rows: int, inputs: int, outputs: int, backward: bool = False) -> float:
    """Return the least seconds of the product of `rows` rows with a weight, of three rounds; with `backward`, of all three."""
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    gradient = torch.randn(rows, outputs)

    def work() -> None:
        x @ weight.t()
        if backward:
            gradient @ weight
            gradient.t() @ x

    return min(_timed(work, times=max(1, int(2e9 / (2 * rows * inputs * outputs)))) for _ in range(3))


def _timed(work: Callable[[], None], times: int) -> float:
    work()
    begun = time.process_time() / torch.get_num_threads()
    for _ in range(times):
        work()
    return (time.process_time() / torch.get_num_threads() - begun) / times
