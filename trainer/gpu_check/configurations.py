"""Settings of runs, each of which executes other parts of the trainer on the GPU. The tests use them on simulated CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "transformers": {"engine": "transformers"},
    "evaluated": {"eval_every": 1, "eval_prompts": 2},
    "kl": {"kl_coef": 0.1, "kl_estimator": "k3"},
    "kl_in_reward": {"kl_coef": 0.1, "kl_place": "reward"},
    "new_reference": {"kl_coef": 0.1, "reference_every": 1},
    "entropy": {"entropy_coef": 0.01},
    "epochs": {"updates_per_step": 2, "epochs_per_step": 2},
    "gspo": {"loss": "gspo", "aggregation": "sequence_mean", "epochs_per_step": 2},
    "cispo": {"loss": "cispo", "epochs_per_step": 2},
    "correction": {"correction": "token_truncated"},
    "opsm": {"correction": "opsm", "correction_options": {"delta": 0.1}, "epochs_per_step": 2},
    "gae": {"advantage": "gae", "kl_coef": 0.1, "kl_place": "reward"},
    "lora": {"lora_rank": 2},
    "lora_kl": {"lora_rank": 2, "kl_coef": 0.1, "reference_every": 1},
    "checkpointing": {"gradient_checkpointing": True},
    "own_prompts": {"shared_prefix": False},
    "chunks": {"logprob_chunk": 7},
    "micro_batches": {"micro_batch_tokens": 64},
    "dynamic": {"dynamic_sampling": True, "replay_share": 0.25, "curriculum": True},
    "overlong": {"overlong_cache": 4},
}
"""By name, settings that replace or extend those of `task.settings`. Code that a CPU cannot run is checked elsewhere
(`checks`)."""

FIGURES = (
    "loss",
    "grad_norm",
    "reward",
    "completion_tokens",
    "sampled_nll",
    "kl",
    "clip_fraction",
    "value_loss",
    "correction",
)
"""Metrics of a step that are compared between devices."""
