"""What the study compares: two mixtures of tasks, and arms that spend one budget of sampled tokens in different ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Turn = Literal["rl", "ei"]

MIXTURES: dict[str, list[dict[str, Any]]] = {
    # The quickstart's tasks, weights and gates.
    "quickstart": [
        {"environment": "arithmetic", "options": {"digits": 2, "operations": "+"}, "weight": 2.0},
        {"environment": "story", "format": {}, "weight": 2.0},
        {"environment": "units", "format": {}},
        {"environment": "bases"},
    ],
    # Longer derivations, after a cold start that is right on one in ten.
    "hard": [
        {"environment": "arithmetic", "name": "sums", "options": {"digits": 3, "operations": "+-"}},
        {"environment": "arithmetic", "name": "products", "options": {"digits": 3, "operations": "*"}},
    ],
}

EASIER: dict[str, list[dict[str, Any]]] = {
    "hard": [{**source, "options": {**source["options"], "digits": 2}} for source in MIXTURES["hard"]],
}


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    intermediate_size: int = 320
    cold_steps: Mapping[str, int] = field(default_factory=lambda: {"quickstart": 500, "hard": 450})
    """Supervised steps of the cold start by mixture, 32 demonstrations each."""
    cold_learning_rate: float = 3e-3
    steps: int = 80
    """Of the arm `grpo`; what it samples in them is the budget of all arms of a seed."""
    prompts_per_step: int = 24
    group_size: int = 8
    max_new_tokens: int = 48
    held_out: int = 80
    """Most held-out questions a source."""
    samples: int = 4
    """Completions a held-out question."""
    points: int = 4
    """Places of the budget at which an arm is evaluated, the end included."""


@dataclass(frozen=True)
class Arm:
    """A way to spend the budget: turns with equal shares of it, one after the other."""

    turns: tuple[Turn, ...]
    rl: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the stage `grpo` that differ."""
    sample: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the stage `sample` that differ."""
    fit: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the stage `sft` that differ."""
    restart: bool = False
    """Whether fine-tuning begins at the cold start, on what all turns kept; else at the current model, on the last turn's."""
    scale: float = 1.0
    """Multiplies the budget."""
    easier_first: bool = False
    """Whether the first turn trains on the easier tasks of the mixture, EASIER, in place of its own."""


RL: dict[str, Any] = {"learning_rate": 5e-4, "schedule": "linear"}
SAMPLE: dict[str, Any] = {"samples": 8, "keep": "all_correct", "at_most": None, "prompts_at_a_time": 60}
FIT: dict[str, Any] = {
    "learning_rate": 1e-3,
    "epochs": 6.0,
    "batch_size": 32,
    "schedule": "cosine",
    "warmup_steps": 10,
    "weight_decay": 0.01,
}

ARMS: dict[str, Arm] = {
    "grpo": Arm(("rl",)),
    "expert-iteration": Arm(("ei",) * 4),
    "both": Arm(("ei", "rl", "ei", "rl")),
}


# What may change the outcome. The two long arms go together: three times the budget, for both.
ARMS |= {
    "grpo-rate-1e-3": Arm(("rl",), rl={"learning_rate": 1e-3}),
    "grpo-group-4": Arm(("rl",), rl={"prompts_per_step": 48, "group_size": 4}),
    "grpo-group-32": Arm(("rl",), rl={"prompts_per_step": 6, "group_size": 32}),
    "grpo-epochs-4": Arm(("rl",), rl={"epochs_per_step": 4}),
    "grpo-epochs-4-clip-higher": Arm(("rl",), rl={"epochs_per_step": 4, "clip_low": 0.2, "clip_high": 0.28}),
    "grpo-replay": Arm(("rl",), rl={"replay_share": 0.25}),
    "grpo-easier-first": Arm(("rl", "rl"), easier_first=True),
    "grpo-long": Arm(("rl",), scale=3.0),
    "expert-iteration-restart": Arm(("ei",) * 4, restart=True),
    "expert-iteration-1-epoch": Arm(("ei",) * 4, fit={"epochs": 1.0}),
    "expert-iteration-rate-3e-4": Arm(("ei",) * 4, fit={"learning_rate": 3e-4}),
    "expert-iteration-long": Arm(("ei",) * 8, scale=3.0),
}
