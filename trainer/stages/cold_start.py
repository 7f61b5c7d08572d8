"""A short supervised start on worked demonstrations, so that reinforcement learning finds rewards to reinforce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from verigym.envs.contract.schema import Prompt
from verigym.trainer.learner.update import learning_rate
from verigym.trainer.logprobs.forward import completion_logprobs
from verigym.trainer.models.codec import Codec

WARMUP_STEPS = 30


def cold_start(
    model: Any,
    codec: Codec,
    demonstration: Callable[[int], tuple[Prompt, str]],
    *,
    steps: int,
    batch_size: int,
    peak_learning_rate: float,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Minimise the mean negative log-likelihood of the demonstrations' completion tokens, in place.

    Args:
        model: a transformers causal language model.
        codec: its tokenizer; each completion ends with the end-of-sequence token.
        demonstration: returns (prompt, completion) number `index`.
        steps: optimizer updates.
        batch_size: demonstrations an update.
        peak_learning_rate: reached after the warm-up, then constant.
        on_step: called with the number of finished steps and the loss in nats a token.
    """
    end = min(codec.eos_ids)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step in range(steps):
        pairs = [demonstration(step * batch_size + row) for row in range(batch_size)]
        logp_BT, mask_BT = completion_logprobs(
            model,
            [codec.encode(prompt) for prompt, _ in pairs],
            [(*codec.encode_text(text), end) for _, text in pairs],
            temperature=1.0,
            pad_id=codec.pad_id,
        )
        loss = -logp_BT.sum() / mask_BT.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = learning_rate(step, peak=peak_learning_rate, warmup=WARMUP_STEPS, total=steps, schedule="constant")
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate
        optimizer.step()
        on_step(step + 1, loss.item())
    model.eval()
