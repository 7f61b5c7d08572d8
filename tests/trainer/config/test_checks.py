"""No setting is without effect in silence: each field is read somewhere, and one that another leaves idle is refused."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from verigym.trainer.config.checks import ENGINE_RULES, RUN_RULES, Rule
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.evaluation.config import EVAL_RULES, LOCAL_FIELDS, EvalConfig
from verigym.trainer.pipelines.plan import PipelineFields
from verigym.trainer.pipelines.stage_kinds import KINDS
from verigym.trainer.stages.config import EXAMPLE_RULES, FIT_RULES, LogitConfig, OnPolicyConfig, SampleConfig, SftConfig

ROOT = Path(__file__).resolve().parents[3]
SOURCE: dict[str, Any] = {"environment": "arithmetic"}
RUN: dict[str, Any] = {"model": "m", "output": "o", "sources": [SOURCE]}
SAMPLE: dict[str, Any] = {**RUN, "prompts": 1}
EVAL: dict[str, Any] = {"models": {"m": "m"}, "output": "o", "sources": [SOURCE]}
SERVED: dict[str, Any] = {**EVAL, "models": {"m": {"base_url": "http://localhost:1/v1", "model": "m"}}}
FIT: dict[str, Any] = {"model": "m", "output": "o"}
TAUGHT: dict[str, Any] = {**FIT, "demonstrations": [SOURCE]}

VALUES: dict[str, Any] = {
    "cuda_graphs": True,
    "vllm_dtype": "bf16",
    "vllm_max_model_len": 99,
    "vllm_gpu_memory_utilization": 0.5,
    "vllm_tensor_parallel_size": 2,
    "vllm_enforce_eager": True,
    "vllm_sleep": False,
    "vllm_api_key_env": "KEY",
    "vllm_weights_dir": "w",
    "vllm_requests": 3,
    "vllm_timeout_s": 3,
    "vllm_wait_s": 3,
    "vllm_retries": 3,
    "episode_order": "free",
    "episode_cache_mb": 5,
    "hard_share": 0.5,
    "easy_share": 0.5,
    "hard_below": 0.5,
    "easy_above": 0.5,
    "max_staleness": 3,
    "max_oversampling": 5,
    "replay_size": 3,
    "replay_below": 0.5,
    "replay_max_age": 3,
    "kl_estimator": "k1",
    "kl_place": "reward",
    "kl_unbiased": True,
    "eval_samples": 3,
    "eval_temperature": 0.5,
    "log_project": "mine",
    "gae_lambda": 0.5,
    "gae_gamma": 0.5,
    "critic_learning_rate": 1e-3,
    "value_clip": 0.5,
    "whiten_advantages": False,
    "demonstration_count": 3,
    "held_out_share": 0.5,
    "target_probability": 0.5,
    "epochs": 3,
    "ngram": 3,
    "train_data_dirs": {"gsm8k": "d"},
    "chat_template_kwargs": {"enable_thinking": False},
    "max_prompt_tokens": 9,
    "max_left_out": 0.5,
    "generation_rows": 3,
    "prompts_at_a_time": 3,
    "device": "cpu",
    "dtype": "bf16",
    "threads": 1,
    "engine": "transformers",
}
"""A value for each field that some rule is about, which is not its default."""
WITH: dict[str, dict[str, Any]] = {
    "cuda_graphs": {"engine": "transformers"},
    "episode_order": {"engine": "transformers"},
    "episode_cache_mb": {"engine": "transformers"},
    "eval_samples": {"eval_every": 0, "eval_temperature": 1.0},
    "eval_temperature": {"eval_every": 0},
    "epochs": {"steps": 3},
    "target_probability": {"eval_every": 0},
}
"""What the others say, where their defaults would leave the field an effect."""


def refused(kind: type[BaseModel], base: dict[str, Any], rules: tuple[Rule, ...]) -> list[Any]:
    return [pytest.param(kind, base, name, id=f"{kind.__name__}-{name}") for names, _, _ in rules for name in names]


@pytest.mark.parametrize(
    ("kind", "base", "name"),
    [
        *refused(TrainConfig, RUN, RUN_RULES),
        *refused(SampleConfig, SAMPLE, ENGINE_RULES),
        *refused(EvalConfig, EVAL, (*ENGINE_RULES, *(rule for rule in EVAL_RULES if rule[0] != LOCAL_FIELDS))),
        *refused(EvalConfig, SERVED, tuple(rule for rule in EVAL_RULES if rule[0] == LOCAL_FIELDS)),
        *refused(SftConfig, TAUGHT, (*FIT_RULES, *(rule for rule in EXAMPLE_RULES if rule[0] != ("demonstration_count",)))),
        *refused(LogitConfig, {**FIT, "teacher": "t", "data": ["d"]}, EXAMPLE_RULES[:1]),
        *refused(OnPolicyConfig, {**RUN, "teacher": "t"}, FIT_RULES),
    ],
)
def test_what_another_setting_leaves_idle_is_refused(kind: type[BaseModel], base: dict[str, Any], name: str) -> None:
    default = kind.model_fields[name].default
    assert VALUES[name] != default
    with pytest.raises(ValueError, match=rf"{name} .*, or leave it out"):
        kind(**{**base, **WITH.get(name, {}), name: VALUES[name]})
    kind(**{**base, name: default})


def test_a_folder_of_data_needs_a_data_set() -> None:
    with pytest.raises(ValueError, match="data_dir is the folder of a data set's files"):
        SourceConfig(environment="arithmetic", data_dir="d")  # type: ignore[arg-type]


CONFIGS = [*(kind.config_type() for kind in KINDS.values()), PipelineFields, SourceConfig]


@cache
def read_names() -> set[str]:
    """Return every attribute that the trainer, the data sets or the command line read, and every text that could name one."""
    found: set[str] = set()
    for path in [
        *(ROOT / "trainer").rglob("*.py"),
        *(ROOT / "datasets_cfg").rglob("*.py"),
        *(ROOT / "src/verigym").glob("*.py"),
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_every_field_is_read(kind: type[BaseModel]) -> None:
    assert kind.model_fields, kind
    unread = set(kind.model_fields) - read_names() - {"shared"}  # a place for YAML anchors, which says so
    assert not unread, "nothing reads these fields, so they have no effect"
