"""Settings that another setting leaves without effect: refused, because whoever gave them expects one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from verigym.trainer.config.critic import CriticFields
from verigym.trainer.config.presets import PRESETS

Rule = tuple[tuple[str, ...], Callable[[Any], bool], str]
"""Fields, whether they have an effect, and what they are about with what to set."""

IN_PROCESS = (
    "vllm_max_model_len",
    "vllm_gpu_memory_utilization",
    "vllm_tensor_parallel_size",
    "vllm_enforce_eager",
    "vllm_sleep",
)
SERVERS = ("vllm_api_key_env", "vllm_weights_dir", "vllm_requests", "vllm_timeout_s", "vllm_wait_s", "vllm_retries")

ENGINE_RULES: tuple[Rule, ...] = (
    (("vllm_dtype",), lambda c: c.engine in ("vllm", "vllm-server"), "is about vLLM; set engine to vllm or vllm-server"),
    (IN_PROCESS, lambda c: c.engine == "vllm", "is about vLLM in this process; set engine to vllm"),
    (SERVERS, lambda c: c.engine == "vllm-server", "is about servers of vLLM; set engine to vllm-server"),
)
RUN_RULES: tuple[Rule, ...] = (
    (tuple(CriticFields.model_fields), lambda c: c.advantage == "gae", "is about a critic; set advantage to gae"),
    (("cuda_graphs",), lambda c: c.engine == "native", "is about native decoding; set engine to native"),
    *ENGINE_RULES,
    (
        ("hard_share", "easy_share", "hard_below", "easy_above"),
        lambda c: c.curriculum,
        "is about tasks sorted by their pass rate; set curriculum to true",
    ),
    (
        ("max_oversampling",),
        lambda c: c.dynamic_sampling,
        "is about prompts that are drawn again; set dynamic_sampling to true",
    ),
    (
        ("replay_size", "replay_below", "replay_max_age"),
        lambda c: c.replay_share > 0,
        "is about replayed groups; set replay_share above 0",
    ),
    (
        ("kl_estimator", "kl_place", "kl_unbiased"),
        lambda c: c.kl_coef > 0,
        "is about a KL to the initial model; set kl_coef above 0",
    ),
    (
        ("eval_samples", "eval_temperature"),
        lambda c: c.eval_every > 0,
        "is about evaluations during the run; set eval_every above 0",
    ),
    (
        ("log_project",),
        lambda c: not {"wandb", "trackio"}.isdisjoint(c.loggers),
        "is the project's name for wandb and trackio; name one of them in loggers",
    ),
)
"""What a run's settings need to have an effect; docs/training.md says what each is about."""


def refuse_ineffective(config: BaseModel, rules: Sequence[Rule] = RUN_RULES) -> None:
    """Check that every setting has an effect.

    One that has its default value passes, and so does one that the preset chose: a run's own config.json, which names them all,
    can be given again.

    Args:
        config: a run's or a stage's fields.
        rules: about its fields.

    Raises:
        ValueError: naming the setting and what it goes with.
    """
    preset = getattr(config, "preset", None)
    chosen: Mapping[str, Any] = PRESETS[preset].settings if preset else {}
    for names, used, what in rules:
        for name in () if used(config) else names:
            value = getattr(config, name)
            if value != type(config).model_fields[name].default and value != chosen.get(name):
                raise ValueError(f"{name} {what}, or leave it out")
