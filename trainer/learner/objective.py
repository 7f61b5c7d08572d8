"""Builds the objective from settings: looks up loss, KL and correction by name, and checks their options."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.lookup import bind
from verigym.trainer.config.update import SHARED_OPTIONS, UpdateFields
from verigym.trainer.learner.update import Correction, Objective
from verigym.trainer.losses.common import LossAndMetrics
from verigym.trainer.losses.corrections import CORRECTIONS, opsm, sampler_weights
from verigym.trainer.losses.kl import KL_ESTIMATORS, on_policy
from verigym.trainer.losses.table import LOSSES

logger = logging.getLogger("verigym.trainer")

K1_IN_THE_LOSS = (
    "kl_estimator k1 with kl_place loss: at each token its gradient is kl_coef times that of the token's log-probability, "
    "whatever the reference says. Over tokens that the policy itself sampled its mean is 0 (where a completion's weight "
    "depends on its length, as in sequence_mean, a pull on lengths), so it adds noise and does not hold the policy near the "
    "reference; k2, k3, kl_unbiased or kl_place reward do"
)
"""Warning against the KL estimator k1 as a term of the loss. Some texts recommend this use of k1."""


def choose_loss(config: UpdateFields) -> Callable[..., LossAndMetrics]:
    """Return the loss that the settings name, with its options bound.

    Raises:
        UsageError: the loss or an option is unknown, an option's value is refused, or a loss of whole completions is combined
            with an aggregation over tokens.
    """
    given = {name: getattr(config, name) for name in SHARED_OPTIONS if getattr(config, name) is not None}
    loss = bind("loss", config.loss, {name: loss.function for name, loss in LOSSES.items()}, {**given, **config.loss_options})
    token = torch.zeros(1, 1)
    try:
        loss(token, token, torch.zeros(1), mask_BT=torch.ones(1, 1, dtype=torch.bool))
    except (TypeError, ValueError) as error:
        raise UsageError(f"field 'loss': {config.loss}: {error}") from None
    if LOSSES[config.loss].whole_completions and config.aggregation != "sequence_mean":
        raise UsageError(
            f"field 'aggregation': {config.loss} is a loss of whole completions, which {config.aggregation} would weight by "
            "their length; use sequence_mean"
        )
    return loss


def choose_correction(config: UpdateFields) -> Correction | None:
    """Return the correction for the sampler's probabilities, with its bounds; None if `config.correction` is None.

    Raises:
        UsageError: the correction or a bound is unknown, or a bound's value is refused.
    """
    if config.correction is None:
        return None
    options = dict(config.correction_options)
    kinds = {kind: partial(_weights, kind) for kind in CORRECTIONS} | {"opsm": _opsm}
    correction = bind("correction", config.correction, kinds, options)
    token = torch.zeros(1, 1)
    try:
        correction(token, token, token, token, token == 0)
    except (TypeError, ValueError) as error:
        raise UsageError(f"field 'correction': {config.correction}: {error}") from None
    return correction


def _weights(
    kind: str,
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    sampler_logp_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    low: float | None = None,
    high: float | None = None,
) -> torch.Tensor:
    return sampler_weights(old_logp_BT, sampler_logp_BT, mask_BT, kind=kind, low=low, high=high)


def _opsm(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    sampler_logp_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    delta: float,
) -> torch.Tensor:
    return opsm(logp_BT, sampler_logp_BT, advantages_BT, mask_BT, delta=delta)


def build_objective(config: UpdateFields, reference: Any, *, max_new_tokens: int, temperature: float) -> Objective:
    """Return the objective that the settings describe.

    Args:
        config: the settings.
        reference: a frozen model; None if kl_coef is 0.
        max_new_tokens: most tokens of a completion.
        temperature: temperature of the sampler.

    Raises:
        UsageError: a loss, a correction or an option is unknown or refused.
    """
    if config.kl_coef > 0 and config.kl_place == "loss" and config.kl_estimator == "k1" and not config.kl_unbiased:
        logger.warning("%s", K1_IN_THE_LOSS)
    kl: Any = KL_ESTIMATORS[config.kl_estimator]

    def unbiased(logp_BT: torch.Tensor, ref_logp_BT: torch.Tensor) -> torch.Tensor:
        return on_policy(kl(logp_BT, ref_logp_BT), logp_BT)

    return Objective(
        loss=choose_loss(config),
        aggregation=config.aggregation,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        kl_coef=config.kl_coef if config.kl_place == "loss" else 0.0,
        kl=unbiased if config.kl_unbiased else kl,
        reference=reference,
        correction=choose_correction(config),
        entropy_coef=config.entropy_coef,
    )
