"""Names of settings in TRL and verl, and former names, each with the name to use here, for hints on unknown settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from verigym.envs.contract.errors import did_you_mean

FIELDS: Mapping[str, str] = {
    "adam_beta1": "`adam_betas` holds both",
    "adam_beta2": "`adam_betas` holds both",
    "adv_estimator": "`advantage`",
    "beta": "`kl_coef`",
    "bf16": "`dtype: bf16`",
    "clip_ratio": "`clip_low` and `clip_high`",
    "clip_ratio_high": "`clip_high`",
    "clip_ratio_low": "`clip_low`",
    "dataset_name": "`sources`, a list with a `dataset` each",
    "entropy_coeff": "`entropy_coef`",
    "epsilon": "`clip_low` and `clip_high`",
    "epsilon_high": "`clip_high`",
    "eval_steps": "`eval_every`",
    "grad_clip": "`max_grad_norm`",
    "gradient_accumulation_steps": "`micro_batch_tokens` bounds a pass; a batch is `prompts_per_step` times `group_size`",
    "importance_sampling_level": "`loss: gspo` takes one ratio a completion",
    "kl_loss_coef": "`kl_coef`",
    "kl_loss_type": "`kl_estimator`: k1, k2 or k3",
    "learning_rate_scheduler": "`schedule`",
    "load_in_4bit": "`lora_base: 4bit`",
    "logger": "`loggers`",
    "logging_steps": "every step is logged; leave it out",
    "lora_r": "`lora_rank`",
    "loss_agg_mode": "`aggregation`",
    "loss_type": "`loss`, or `preset` for all settings of a paper",
    "lr": "`learning_rate`",
    "lr_scheduler_type": "`schedule`: constant, linear or cosine",
    "mask_truncated_completions": "`truncated: mask`",
    "max_completion_length": "`max_new_tokens`",
    "max_length": "`max_prompt_tokens` and `max_new_tokens`",
    "max_prompt_length": "`max_prompt_tokens`",
    "max_response_length": "`max_new_tokens`",
    "max_steps": "`steps`",
    "max_tokens": "`max_new_tokens`",
    "micro_batch_size": "`micro_batch_tokens` bounds a pass in tokens",
    "model_name": "`model`",
    "model_name_or_path": "`model`",
    "num_generations": "`group_size`",
    "num_iterations": "`epochs_per_step`",
    "num_train_epochs": "`steps` counts optimizer batches; a data set begins again when it is through",
    "optim": "`optimizer`",
    "output_dir": "`output`",
    "per_device_train_batch_size": "`prompts_per_step`, which counts prompts and not completions, over all devices",
    "ppo_epochs": "`epochs_per_step`",
    "ppo_mini_batch_size": "`updates_per_step`: how many updates share a step's prompts",
    "project_name": "`log_project`",
    "ref_model_sync_steps": "`reference_every`",
    "report_to": "`loggers`",
    "reward_funcs": "`sources`, each with the `environment` that grades it",
    "rollout_n": "`group_size`",
    "save_freq": "`checkpoint_every`",
    "save_steps": "`checkpoint_every`",
    "save_total_limit": "`keep_checkpoints`",
    "scale_rewards": "`advantage: centred` does not divide by the deviation, `grpo` does",
    "steps_per_generation": "`updates_per_step`",
    "test_freq": "`eval_every`",
    "total_training_steps": "`steps`",
    "train_batch_size": "`prompts_per_step`, which counts prompts",
    "train_files": "`sources`, a list with a `dataset` each",
    "use_kl_in_reward": "`kl_place: reward`",
    "use_kl_loss": "`kl_place: loss`, with `kl_coef` above 0",
    "use_liger_kernel": "`liger`",
    "use_peft": "`lora_rank` above 0",
    "use_vllm": "`engine: vllm`, or `vllm-server`",
    "val_files": "`sources`, each with its `eval_split`",
    "vllm_mode": "`engine: vllm`, or `vllm-server`",
    "vllm_server_base_url": "`vllm_urls`",
    "warmup_ratio": "`warmup_steps`",
    **dict.fromkeys(
        ("actor_rollout_ref", "algorithm", "trainer"),
        "no groups: fields such as `group_size` and `loss` stand at the top level",
    ),
}
"""Name of a field in TRL or verl -> what it is here."""

FORMER: Mapping[str, str] = {
    "sampler_gap_limit": "logprob_mismatch_limit",
    "surprise_ceiling": "sampled_nll_ceiling",
    "surprise_floor": "sampled_nll_floor",
}
"""Name of a field in earlier versions of verigym -> its name now."""

VALUES: Mapping[str, Mapping[str, str]] = {
    "loss": {
        "ppo": "`clipped`, PPO's clip; `preset: ppo` brings the critic too",
        "ppo_clip": "`clipped`, PPO's clip; `preset: ppo` brings the critic too",
        "vanilla": "`clipped`, PPO's clip",
        "grpo": "`clipped`; `preset: grpo` has all of the paper's settings",
        "dapo": "`clipped` with clip_high 0.28; `preset: dapo` has all of the paper's settings",
        "dr_grpo": "`clipped` with aggregation fixed_length; `preset: dr_grpo` has all of the paper's settings",
        "bnpo": "`clipped` with aggregation token_mean; `preset: bnpo` has all of the settings",
        "clip": "`clipped`",
        "pg": "`reinforce`",
        "policy_gradient": "`reinforce`",
        "rloo": "`reinforce`; `preset: rloo` has all of the paper's settings",
        "reinforce++": "`clipped`; `preset: reinforce++` has all of the paper's settings",
        "dppo": "`dppo_tv`; `preset: dppo` has all of the paper's settings",
    },
    "advantage": {
        "group": "`grpo` divides by the group's deviation, `centred` does not",
        "dr_grpo": "`centred`; `preset: dr_grpo` has all of the paper's settings",
        "dapo": "`grpo`; `preset: dapo` has all of the paper's settings",
        "gspo": "`grpo`; `preset: gspo` has all of the paper's settings",
        "none": "`centred` takes off the group's mean alone",
        "ppo": "`gae`, with a critic; `preset: ppo` has all of the settings",
        "reinforce_plus_plus": "`reinforce++`",
        "reinforce_plus_plus_baseline": "`reinforce++_baseline`",
        "batch": "`batch_std`",
    },
}
"""By field: name of a value in TRL or verl -> what it is here."""

STAGE_FIELDS: Mapping[str, str] = {
    "batch": "`batch_size`",
    "learning_rate_schedule": "`schedule`",
    "lr_schedule": "`schedule`",
    "max_length": "`max_tokens`",
    "max_seq_len": "`max_tokens`",
    "max_seq_length": "`max_tokens`",
    "n_epochs": "`epochs`",
    "num_epochs": "`epochs`",
    "num_samples": "`samples`",
    "num_train_epochs": "`epochs`",
    "packing": "`pack_tokens`; examples are always packed",
    "per_device_train_batch_size": "`batch_size`, examples an update over all devices",
    "save_total_limit": "`keep_checkpoints`",
    "train_batch_size": "`batch_size`",
    "train_file": "`data`, a list of files",
    "train_files": "`data`, a list of files",
}
"""Name of a field in TRL or verl -> what it is here, as `FIELDS`, for the stages other than grpo. In these stages, batch sizes
count examples, not prompts."""
_TARGET = re.compile(r"`([a-z_]+)")


def elsewhere(name: str, known: Collection[str]) -> str:
    """Return a hint about the field `name`: `; here: ...` for another trainer's name, `; now called: ...` for a former name.

    Return an empty string if there is no hint.

    Args:
        name: the unknown field.
        known: the existing fields; only these are suggested.
    """
    if FORMER.get(name) in known:
        return f"; now called: `{FORMER[name]}`"
    for names in (STAGE_FIELDS, FIELDS):
        if name in names and ((target := _TARGET.search(names[name])) is None or target[1] in known):
            return f"; here: {names[name]}"
    return ""


def refuse_foreign(fields: Mapping[str, object], known: Collection[str]) -> None:
    """Refuse fields that have another name in this trainer.

    Args:
        fields: the given settings.
        known: the existing fields.

    Raises:
        ValueError: the message begins with the field and says which one to use.
    """
    for name in fields:
        if name not in known and (hint := elsewhere(name, known)):
            raise ValueError(f"{name}: unknown field{hint}")


def suggestion(field: str, value: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown value: this trainer's name for another trainer's term, else the nearest spelling.

    Args:
        field: name of the setting, such as `loss`.
        value: the unknown value.
        known: the valid values.
    """
    here = VALUES.get(field, {}).get(value.lower())
    return f"; here: {here}" if here else did_you_mean(value, known)


def table() -> str:
    """Return the synonyms as a Markdown table, for docs/training.md."""
    rows = [f"| `{name}` | {here} |" for name, here in FIELDS.items()]
    rows += [f"| `{field}: {value}` | {here} |" for field, values in VALUES.items() for value, here in values.items()]
    return "\n".join(["| elsewhere | here |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table())
