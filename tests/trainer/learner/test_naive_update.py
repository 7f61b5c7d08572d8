"""A whole update against GRPO written a second time: one token at a time, in float64, nothing batched and nothing shared.

The second version takes rewards and tokens and nothing of the trainer's, so it is also a definition to read.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from exact import float64

from verigym.trainer.advantages.group import grpo
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.learner.update import Objective, accumulate
from verigym.trainer.losses.kl import k3
from verigym.trainer.losses.token_level import clipped

CLIP_LOW, CLIP_HIGH = 0.2, 0.28
MAX_NEW_TOKENS = 8
TEMPERATURE = 0.9
EPS = 1e-4
DRIFT = (0.0, 0.4, -0.35, 0.1, -0.05)
"""By how much the policy has moved since sampling, in nats, token after token: some ratios are past a clip bound."""


@dataclass(frozen=True)
class Answer:
    """One completion; a reward of None is a verifier that failed."""

    tokens: tuple[int, ...]
    reward: float | None


GROUPS: list[tuple[tuple[int, ...], list[Answer]]] = [
    ((5, 6, 7), [Answer((20, 21, 22), 1.0), Answer((23,), 0.0), Answer((20, 21, 40, 41, 42), 0.25), Answer((24, 25), 0.0)]),
    ((8, 9), [Answer((30, 31), 1.0), Answer((32,), 1.0), Answer((33, 34, 35), 1.0), Answer((36, 37, 38, 39), 1.0)]),
    ((10, 11, 12, 13), [Answer((26,), None), Answer((27, 28, 29), 0.0), Answer((27, 28), 1.0), Answer((29, 29, 29, 29), None)]),
]
"""An ordinary group with rewards of three kinds; one of equal rewards, which only the KL moves; one with two failures."""


def logp_of(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> list[torch.Tensor]:
    """The log-probability of each token, from the logits of one unpadded row."""
    logits_LV = model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0] / TEMPERATURE
    found = []
    for t, token in enumerate(tokens):
        logits_V = logits_LV[len(prompt) + t - 1]
        found.append(logits_V[token] - logits_V.exp().sum().log())
    return found


def advantages_of(group: Sequence[Answer]) -> list[float]:
    rewards = [answer.reward for answer in group if answer.reward is not None]
    mean = sum(rewards) / len(rewards)
    deviation = (sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)) ** 0.5
    return [0.0 if answer.reward is None else (answer.reward - mean) / (deviation + EPS) for answer in group]


def weight_of(aggregation: str, answer: Answer) -> float:
    trained = [other for _, group in GROUPS for other in group if other.reward is not None]
    return {
        "sequence_mean": 1 / (len(trained) * len(answer.tokens)),
        "token_mean": 1 / sum(len(other.tokens) for other in trained),
        "fixed_length": 1 / (len(trained) * MAX_NEW_TOKENS),
    }[aggregation]


def naive_loss(model: Any, reference: Any, old: Any, aggregation: str, kl_coef: float) -> tuple[torch.Tensor, int]:
    """The loss of the whole batch, and how many tokens had their gradient clipped away."""
    total, cut = torch.zeros((), dtype=torch.float64), 0
    for prompt, group in GROUPS:
        for answer, advantage in zip(group, advantages_of(group), strict=True):
            if answer.reward is None:
                continue
            with torch.no_grad():
                before, anchor = old(prompt, answer), logp_of(reference, prompt, answer.tokens)
            for t, logp in enumerate(logp_of(model, prompt, answer.tokens)):
                ratio = (logp - before[t]).exp()
                within = min(max(float(ratio.detach()), 1 - CLIP_LOW), 1 + CLIP_HIGH)
                if within * advantage < ratio * advantage:
                    loss, cut = torch.tensor(-within * advantage, dtype=torch.float64), cut + 1
                else:
                    loss = -ratio * advantage
                kl = (anchor[t] - logp).exp() - (anchor[t] - logp) - 1
                total = total + weight_of(aggregation, answer) * (loss + kl_coef * kl)
    return total, cut


def gradient(model: Any) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("token_budget", [1000, 12], ids=["one micro-batch", "many"])
@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean", "fixed_length"])
def test_an_update_has_the_gradient_of_the_naive_loss(
    tiny_model: Any, aggregation: str, kl_coef: float, token_budget: int
) -> None:
    model = float64(tiny_model)
    reference = copy.deepcopy(model).requires_grad_(False)
    with torch.no_grad():  # the reference is what the policy once was
        for number, parameter in enumerate(reference.parameters()):
            parameter.mul_(1 + 0.01 * (number % 5))

    def old(prompt: Sequence[int], answer: Answer) -> list[float]:
        logp = logp_of(model, prompt, answer.tokens)
        return [float(value) - DRIFT[(t + len(answer.tokens)) % len(DRIFT)] for t, value in enumerate(logp)]

    loss, cut = naive_loss(model, reference, old, aggregation, kl_coef)
    assert cut >= 2
    loss.backward()  # type: ignore[no-untyped-call]
    expected = gradient(model)
    assert expected.norm() > 1e-2

    rewards = [[float("nan") if answer.reward is None else answer.reward for answer in group] for _, group in GROUPS]
    rewards_PG = torch.tensor(rewards, dtype=torch.float64)
    advantages_PG = grpo(rewards_PG, ~rewards_PG.isnan(), ddof=1, eps=EPS)
    with torch.no_grad():
        rows = [
            TrainingRow(
                prompt_ids=prompt,
                token_ids=answer.tokens,
                advantage=float(advantages_PG[p, g]),
                trained=answer.reward is not None,
                old_logprobs=tuple(old(prompt, answer)),
            )
            for p, (prompt, group) in enumerate(GROUPS)
            for g, answer in enumerate(group)
        ]

    def loss_of(*tensors: torch.Tensor, **options: Any) -> Any:
        return clipped(*tensors, clip_low=CLIP_LOW, clip_high=CLIP_HIGH, **options)

    objective = Objective(
        loss=loss_of,
        aggregation=aggregation,
        max_new_tokens=MAX_NEW_TOKENS,
        temperature=TEMPERATURE,
        kl_coef=kl_coef,
        kl=k3,
        reference=reference if kl_coef else None,
    )
    model.zero_grad(set_to_none=True)
    metrics = accumulate(model, rows, objective, token_budget=token_budget, pad_id=0, dtype="fp32")
    difference = (gradient(model) - expected).norm() / expected.norm()
    assert difference < 1e-9
    assert metrics["loss"] == pytest.approx(float(loss.detach()), rel=1e-6)
