"""Table of the kinds of stages; a new kind is one entry."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel


@dataclass(frozen=True)
class StageKind:
    """One kind of stage, such as `sft`: the location of its settings class and of its function.

    The modules are imported only when they are needed.
    """

    config: str
    """`module:Class` of its settings."""
    function: str
    """`module:function` that takes the settings and returns the path of the product."""
    makes: Literal["model", "data", "report", "reward model"]
    about: str

    def config_type(self) -> type[BaseModel]:
        """Return the class of the stage's settings."""
        settings: type[BaseModel] = _imported(self.config)
        return settings

    def run(self, config: BaseModel) -> Path:
        """Run or resume the stage, and return the path of its product."""
        function: Callable[[Any], Path] = _imported(self.function)
        return function(config)


KINDS: dict[str, StageKind] = {
    "scratch": StageKind(
        "verigym.trainer.stages.scratch:ScratchConfig",
        "verigym.trainer.stages.scratch:scratch",
        "model",
        "a model with random weights and a tokenizer from the tasks' texts",
    ),
    "sft": StageKind(
        "verigym.trainer.stages.config:SftConfig",
        "verigym.trainer.stages.sft:sft",
        "model",
        "supervised fine-tuning on completions",
    ),
    "grpo": StageKind(
        "verigym.trainer.config.run:TrainConfig",
        "verigym.trainer.stages.grpo:grpo",
        "model",
        "reinforcement learning, the fields of `verigym train`",
    ),
    "sample": StageKind(
        "verigym.trainer.stages.config:SampleConfig",
        "verigym.trainer.stages.rejection_sampling:sample",
        "data",
        "rejection sampling: graded completions that a rule keeps",
    ),
    "distill-logits": StageKind(
        "verigym.trainer.stages.config:LogitConfig",
        "verigym.trainer.stages.distill:distill_logits",
        "model",
        "a teacher's distributions on given examples",
    ),
    "distill-on-policy": StageKind(
        "verigym.trainer.stages.config:OnPolicyConfig",
        "verigym.trainer.stages.distill:distill_on_policy",
        "model",
        "a teacher's distribution at each token that the student writes",
    ),
    "pairs": StageKind(
        "verigym.trainer.reward_models.config:PairsConfig",
        "verigym.trainer.reward_models.pairs:make_pairs",
        "data",
        "preference pairs of graded completions",
    ),
    "reward-model": StageKind(
        "verigym.trainer.reward_models.config:RewardModelConfig",
        "verigym.trainer.reward_models.training:train_reward_model",
        "reward model",
        "a Bradley-Terry model on preference pairs",
    ),
    "step-labels": StageKind(
        "verigym.trainer.reward_models.config:StepLabelsConfig",
        "verigym.trainer.reward_models.step_labelling:label_steps",
        "data",
        "Math-Shepherd's labels: whether a right answer can still be reached from each step",
    ),
    "prm": StageKind(
        "verigym.trainer.reward_models.config:PrmConfig",
        "verigym.trainer.reward_models.process_training:train_prm",
        "reward model",
        "a process reward model on labelled steps",
    ),
    "evaluate": StageKind(
        "verigym.trainer.evaluation.config:EvalConfig",
        "verigym.trainer.evaluation.run:run_evaluation",
        "report",
        "k samples a held-out prompt, the fields of `verigym eval`",
    ),
}


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def figures(kind: str, output: Path) -> dict[str, float]:
    """Return the numbers for the record of a finished stage of the given kind, read from its folder `output`.

    For a stage that trains, they are the number of steps and the last held-out metrics; for an evaluation, avg@k; for a stage
    that makes data, the counts in its summary.
    """
    metrics, summary = output / "metrics.jsonl", output / "summary.json"
    if metrics.exists():
        rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
        evaluations = [row for row in rows if row["kind"] == "eval"]
        last = evaluations[-1] if evaluations else {}
        names = [name for name in sorted(last) if name in ("accuracy", "loss") or name.endswith("/accuracy")]
        named = {f"held_out_{name}": last[name] for name in names}
        return {"steps": float(max((row["step"] for row in rows), default=0)), **named}
    if kind == "evaluate":
        report = json.loads((output / "report.json").read_text(encoding="utf-8"))
        name = f"avg@{report['samples']}"
        return {
            f"{model}/{label}": part["figures"][name]["value"]
            for model, sources in report["models"].items()
            for label, part in sources.items()
            if part["figures"][name]["value"] is not None
        }
    if summary.exists():
        counts: dict[str, float] = json.loads(summary.read_text(encoding="utf-8"))["counts"]["all"]
        return counts
    return {}
