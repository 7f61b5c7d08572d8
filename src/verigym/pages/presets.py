"""Where every setting of a preset comes from, for docs/presets.md.

The first word of an entry says how reliable the entry is. `read`: we read it in a public copy of the paper or of its authors'
code. `quoted`: public code or documentation, such as TRL's paper index, attributes the setting to that paper and section.
`remembered`: not looked up. `ours`: the paper does not give the setting; the entry says why we chose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from verigym.pages.markdown import table
from verigym.trainer.config.presets import PRESETS

PPO_CLIP = "ours: the paper has a clip and no number for it that we know; PPO's"
NO_NUMBER = "ours: the paper gives no number; "
AI2 = "in the code of Tulu 3's authors"

SOURCES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "grpo": {
            "advantage": "read 4.1.2: (r - mean) / std over the group",
            "loss": "read equation 3: PPO's clipped objective",
            "clip_low": "ours: equation 3 has one epsilon and the text no number for it; PPO's",
            "clip_high": "ours: as clip_low",
            "aggregation": "read equation 3: 1 / |o|, then the mean over the group",
            "kl_coef": "read 4.2: the KL coefficient is 0.04",
            "kl_estimator": "read equation 4",
            "kl_place": "read 4.1.1: in the loss, not in the reward",
        },
        "ppo": {
            "advantage": "read section 5, equations 11 and 12",
            "gae_lambda": f"read tables 3 to 5; and {AI2}",
            "loss": "read equation 7",
            "clip_low": f"read section 3 and table 1, where 0.2 is best; and {AI2}",
            "clip_high": "as clip_low",
            "value_clip": f"ours: equation 9 is a plain square; OpenAI's code has it, and we read it {AI2}",
            "aggregation": "read equation 7: a mean over time steps",
            "kl_estimator": f"ours: the paper has no reference model; read {AI2}",
            "kl_place": "ours: as kl_estimator",
        },
        "dr_grpo": {
            "advantage": "read 3.2: no division by the standard deviation",
            "loss": "read equation 3: PPO's clipped objective",
            "clip_low": "read table 6",
            "clip_high": "read table 6",
            "aggregation": "read 3.2 and listing 1: by a constant, the most tokens, in place of the length",
            "kl_coef": "read table 6: both coefficients are 0",
        },
        "dapo": {
            "advantage": "read equation 9",
            "loss": "read equation 8",
            "clip_low": "read 4.1",
            "clip_high": "read 4.1",
            "aggregation": "read 3.3, equation 12: over all tokens of the group",
            "kl_coef": "read 2.3: the KL is left out",
            "dynamic_sampling": "read 3.2, equation 11",
        },
        "bnpo": {
            "advantage": "quoted: TRL's documentation of loss types",
            "loss": "read in TRL's code",
            "clip_low": "read in TRL's code: its default",
            "clip_high": "read in TRL's code: its default",
            "aggregation": "read in TRL's code; there over a micro-batch, here over the optimizer's batch",
            "kl_coef": "read in TRL's code: its default",
        },
        "gspo": {
            "advantage": "read equation 6: as GRPO",
            "loss": "read equations 5 and 7",
            "clip_low": "read 5.1",
            "clip_high": "read 5.1",
            "aggregation": "read equation 5: a mean over completions",
            "kl_coef": "ours: section 2 leaves the KL out of its equations for brevity, with no number; TRL's index has 0",
        },
        "cispo": {
            "advantage": "read equations 2 and 4: as GRPO",
            "loss": "read equations 4 and 5",
            "clip_low": 'read 3.1: "we did not impose a lower bound"',
            "clip_high": f"{NO_NUMBER}a ratio of at most 5 is what TRL takes for ScaleRL and 2602.04879 (appendix E) for CISPO",
            "aggregation": "read equation 4: over all tokens of the group",
            "kl_coef": "read 3.1: there is no KL penalty",
        },
        "sapo": {
            "advantage": "quoted: normalised by group",
            "loss": "quoted equation 6: the gate 4 / tau sigmoid(tau (r - 1)) in place of r",
            "loss_options": "quoted: TRL's index and ms-swift's page give both as the paper's setting",
            "aggregation": "quoted: 1 / |y|, then 1 / G",
            "kl_coef": "quoted: the objective has none",
        },
        "gmpo": {
            "advantage": "read in the authors' code: as GRPO",
            "loss": "read in the authors' code",
            "clip_low": "read in the authors' code; quoted section 4: (e^-0.4, e^0.4)",
            "clip_high": "read in the authors' code; quoted section 4: (e^-0.4, e^0.4)",
            "aggregation": "quoted: 1 / G over completions",
            "kl_coef": "read in the authors' command: beta 0",
        },
        "rloo": {
            "advantage": "quoted 2.3: the others' mean as the baseline",
            "loss": "quoted 2.3: REINFORCE on whole completions, without a clip",
            "aggregation": "quoted 2.3: a completion is one action",
            "kl_coef": "quoted appendix C: 0.03 for TL;DR; 0.1 for Anthropic-HH",
            "kl_estimator": "quoted 2.2, equation 3: the log-ratio",
            "kl_place": "quoted 2.2, equation 3: in the reward",
        },
        "maxrl": {
            "advantage": "read in the authors' code: (r - mean) / mean",
            "loss": "read in the authors' code: a clip of 0.2, which one update on a batch never meets",
            "aggregation": "read in the authors' code: verl's default",
            "kl_coef": "read in the authors' command",
        },
        "passk": {
            "advantage": "quoted: the best of a group by its lead over the second",
            "loss": "ours: the paper's estimator is REINFORCE's (quoted), which PPO's is for one update on a batch",
            "aggregation": "ours: not found; DAPO's",
            "kl_coef": "ours: not found",
        },
        "opo": {
            "advantage": "quoted: the mean of the rewards weighted with lengths, no division by the standard deviation",
            "loss": "quoted: exactly on-policy, so without a ratio",
            "aggregation": "ours: verl's default, which the quoted configuration leaves",
            "kl_coef": "quoted: no KL",
            "updates_per_step": "quoted: a mini-batch is the whole batch",
            "epochs_per_step": "quoted: exactly on-policy",
        },
        "reinforce++": {
            "advantage": "quoted equations 4 and 5 (v9): the reward less the KL to come, normalised over the whole batch",
            "loss": "quoted equation 1 (v9): with PPO's clip",
            "clip_low": "quoted table 1 of v1; read in the authors' code: its default",
            "clip_high": "quoted table 1 of v1; read in the authors' code: its default",
            "aggregation": "read in the authors' code: its default; equation 1 has 1 / |o|",
            "kl_estimator": "quoted equation 4 (v9): k1, token by token",
            "kl_place": "quoted equation 4 (v9): in the reward",
        },
        "reinforce++_baseline": {
            "advantage": "quoted equations 6 and 7 (v9): centred by group, whitened over the batch",
            "loss": "quoted equation 8 (v9): with PPO's clip",
            "clip_low": "quoted table 1 of v1; read in the authors' code: its default",
            "clip_high": "quoted table 1 of v1; read in the authors' code: its default",
            "aggregation": "read in the authors' code: its default; equation 1 has 1 / |o|",
            "kl_estimator": "quoted equation 8 (v9); read in the authors' command: k2",
            "kl_place": "quoted equation 8 (v9): in the loss",
        },
        "lite": {
            "advantage": "quoted: divided by the standard deviation of the whole batch",
            "loss": 'quoted: "vanilla PPO loss"',
            "clip_low": PPO_CLIP,
            "clip_high": PPO_CLIP,
            "aggregation": "quoted: over all tokens",
            "kl_coef": "quoted: init_kl_coef 0 in the paper",
        },
        "dppo": {
            "advantage": "read appendix C.1: GRPO's without the standard deviation",
            "loss": "read appendix C.1: the ratio times a mask by total variation; E bounds the ratio at 5",
            "delta": "read appendix E; 0.15 in C.1 and with LoRA",
            "aggregation": "quoted: the authors' example in verl; equation 23 is a sum over tokens",
            "kl_coef": "read equation 23: none",
        },
        "two_sided": {
            "advantage": "remembered: as GRPO",
            "loss": "quoted 4.1",
            "clip_low": "quoted 4.1: epsilon 0.2",
            "clip_high": "quoted 4.1: epsilon 0.2",
            "delta": "quoted 4.1: delta 4",
            "aggregation": "remembered: over tokens",
            "kl_coef": "quoted 4.1: 0.001",
        },
        "deepseek_v3.2": {
            "advantage": "read 3.1: the group's mean alone is subtracted",
            "loss": "read 3.1, equation 8",
            "clip_low": PPO_CLIP,
            "clip_high": PPO_CLIP,
            "aggregation": "read equation 8: 1 / |o|, then 1 / G",
            "correction": "read equation 9",
            "correction_options": f"{NO_NUMBER}a tenth of a nat a token; TRL's index suggests 0.5",
            "kl_estimator": "read equation 7: k3 with a ratio",
            "kl_unbiased": "read equation 7; the paper's ratio is to the policy that sampled, ours to the current one",
        },
    }
)
"""By preset and field of its settings."""


def blocks() -> tuple[str, ...]:
    """Return a table with one row for each setting of each preset."""
    rows = (
        (f"`{name}`", preset.source, f"`{field}`", f"`{value}`", SOURCES[name][field])
        for name, preset in PRESETS.items()
        for field, value in preset.settings.items()
    )
    return (table(("preset", "source", "field", "value", "from"), rows),)
