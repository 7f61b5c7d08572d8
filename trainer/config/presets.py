"""Presets: a paper's choice of advantage, loss, aggregation and KL, by the paper's name.

A preset gives defaults, and fields of the configuration win. If the configuration names another loss than the preset, the
preset's options for its own loss are dropped; likewise for the correction. Learning rates, batch sizes and lengths depend on
the model and the machine, so no preset sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from verigym.envs.contract.errors import did_you_mean
from verigym.trainer.config.update import SHARED_OPTIONS


@dataclass(frozen=True)
class Preset:
    """The settings that one paper chose."""

    source: str
    """arXiv number, or the library that coined the name."""
    what: str
    """One sentence."""
    settings: Mapping[str, object]
    """Fields of `TrainConfig`."""


_PPO: Mapping[str, object] = {"loss": "clipped", "clip_low": 0.2, "clip_high": 0.2}

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "grpo": Preset(
            "2402.03300",
            "Rewards normalised in their group, PPO's clip, each completion counts the same, k3 in the loss.",
            {
                "advantage": "grpo",
                **_PPO,
                "aggregation": "sequence_mean",
                "kl_coef": 0.04,
                "kl_estimator": "k3",
                "kl_place": "loss",
            },
        ),
        "ppo": Preset(
            "1707.06347",
            "Advantages from a critic instead of a group, both clipped; a KL, where kl_coef asks for one, is k1 in the reward.",
            {
                "advantage": "gae",
                "gae_lambda": 0.95,
                **_PPO,
                "value_clip": 0.2,
                "aggregation": "token_mean",
                "kl_estimator": "k1",
                "kl_place": "reward",
            },
        ),
        "dr_grpo": Preset(
            "2503.20783",
            "GRPO without its two biases: no division by the standard deviation, and by a constant instead of the length.",
            {"advantage": "centred", **_PPO, "aggregation": "fixed_length", "kl_coef": 0.0},
        ),
        "dapo": Preset(
            "2503.14476",
            "Clip-higher, mean over tokens, groups without a signal drawn again; overlong_cache is for you to set.",
            {
                "advantage": "grpo",
                "loss": "clipped",
                "clip_low": 0.2,
                "clip_high": 0.28,
                "aggregation": "token_mean",
                "kl_coef": 0.0,
                "dynamic_sampling": True,
            },
        ),
        "bnpo": Preset(
            "TRL",
            "GRPO with the mean over the tokens of the batch; here the whole optimizer batch, not the micro-batch.",
            {"advantage": "grpo", **_PPO, "aggregation": "token_mean", "kl_coef": 0.0},
        ),
        "gspo": Preset(
            "2507.18071",
            "One ratio a completion, the geometric mean of its tokens', with a narrow clip.",
            {
                "advantage": "grpo",
                "loss": "gspo",
                "clip_low": 3e-4,
                "clip_high": 4e-4,
                "aggregation": "sequence_mean",
                "kl_coef": 0.0,
            },
        ),
        "cispo": Preset(
            "2506.13585",
            "REINFORCE weighted with a ratio of at most 5, so that no token loses its gradient.",
            {
                "advantage": "grpo",
                "loss": "cispo",
                "clip_low": 1.0,
                "clip_high": 4.0,
                "aggregation": "token_mean",
                "kl_coef": 0.0,
            },
        ),
        "sapo": Preset(
            "2511.20347",
            "A smooth gate around a ratio of 1 in place of the clip, narrower where the advantage is negative.",
            {
                "advantage": "grpo",
                "loss": "sapo",
                "loss_options": {"tau_positive": 1.0, "tau_negative": 1.05},
                "aggregation": "sequence_mean",
                "kl_coef": 0.0,
            },
        ),
        "gmpo": Preset(
            "2507.20673",
            "The geometric mean of a completion's ratios, each clipped in the logarithm, on one side.",
            {
                "advantage": "grpo",
                "loss": "gmpo",
                "clip_low": 0.4,
                "clip_high": 0.4,
                "aggregation": "sequence_mean",
                "kl_coef": 0.0,
            },
        ),
        "rloo": Preset(
            "2402.14740",
            "REINFORCE on whole completions with the others' mean as the baseline, and the KL in the reward.",
            {
                "advantage": "rloo",
                "loss": "reinforce",
                "aggregation": "sequence_sum_mean",
                "kl_coef": 0.03,
                "kl_estimator": "k1",
                "kl_place": "reward",
            },
        ),
        "maxrl": Preset(
            "2602.02710",
            "Centred rewards divided by the group's mean: for rewards of 0 and 1, towards the log of the pass rate.",
            {"advantage": "maxrl", "loss": "reinforce", "aggregation": "token_mean", "kl_coef": 0.0},
        ),
        "passk": Preset(
            "2503.19595",
            "Only the best of a group is paid, by its lead over the second: for pass@k instead of pass@1.",
            {"advantage": "passk", "loss": "clipped", "aggregation": "token_mean", "kl_coef": 0.0},
        ),
        "opo": Preset(
            "2505.23585",
            "Strictly on-policy REINFORCE whose baseline weights rewards with lengths, to have the least variance.",
            {
                "advantage": "opo",
                "loss": "reinforce",
                "aggregation": "token_mean",
                "kl_coef": 0.0,
                "updates_per_step": 1,
                "epochs_per_step": 1,
            },
        ),
        "reinforce++": Preset(
            "2501.03262",
            "Rewards whitened over the batch, without groups; a KL, where kl_coef asks for one, is k1 in the reward.",
            {"advantage": "reinforce++", **_PPO, "aggregation": "token_mean", "kl_estimator": "k1", "kl_place": "reward"},
        ),
        "reinforce++_baseline": Preset(
            "2501.03262",
            "Centred by group, whitened over the batch; a KL, where kl_coef asks for one, is k2 in the loss.",
            {
                "advantage": "reinforce++_baseline",
                **_PPO,
                "aggregation": "token_mean",
                "kl_estimator": "k2",
                "kl_place": "loss",
            },
        ),
        "lite": Preset(
            "2508.08221",
            "Centred by group and divided by the batch's standard deviation, with a mean over tokens and PPO's plain clip.",
            {"advantage": "batch_std", **_PPO, "aggregation": "token_mean", "kl_coef": 0.0},
        ),
        "dppo": Preset(
            "2602.04879",
            "A trust region on the change of a token's probability in place of its ratio; rewards centred alone, as Dr. GRPO.",
            {"advantage": "centred", "loss": "dppo_tv", "delta": 0.2, "aggregation": "fixed_length", "kl_coef": 0.0},
        ),
        "two_sided": Preset(
            "2505.07291",
            "PPO's clip with a bound of 4 on the ratio of bad completions too (INTELLECT-2).",
            {"advantage": "grpo", **_PPO, "delta": 4.0, "aggregation": "token_mean", "kl_coef": 0.001},
        ),
        "deepseek_v3.2": Preset(
            "2512.02556",
            "Centred rewards, bad completions that the policy has left are dropped; a KL has its unbiased on-policy gradient.",
            {
                "advantage": "centred",
                **_PPO,
                "aggregation": "sequence_mean",
                "correction": "opsm",
                "correction_options": {"delta": 0.1},
                "kl_estimator": "k3",
                "kl_unbiased": True,
            },
        ),
    }
)
"""Every preset by name."""


def preset(name: str) -> Mapping[str, object]:
    """Return the settings of the paper `name`, as fields of `TrainConfig`.

    Raises:
        ValueError: there is no such preset; the message suggests the nearest name.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}{did_you_mean(name, PRESETS)}")
    return PRESETS[name].settings


def with_preset(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the preset that `fields` names, overridden by `fields`.

    If `fields` name a different loss than the preset does, the options that the preset gives its own loss are dropped. The same
    holds for the correction and its options.

    Raises:
        ValueError: there is no such preset.
    """
    settings = dict(preset(fields["preset"]))
    for choice, options in (("loss", (*SHARED_OPTIONS, "loss_options")), ("correction", ("correction_options",))):
        if choice in fields and fields[choice] != settings.get(choice):
            for option in options:
                settings.pop(option, None)
    return {**settings, **fields}


def table() -> str:
    """Return the presets as a Markdown table, for docs/training.md."""
    rows = [f"| `{name}` | {found.source} | {found.what} |" for name, found in PRESETS.items()]
    return "\n".join(["| preset | source | what |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table())
