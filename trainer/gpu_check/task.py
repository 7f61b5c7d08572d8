"""Model and task of the checks: a small model with random weights, and a task whose reward rises within a few steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verigym.envs import BaseEnvironment, Completion, Options, Prompt, Reference, Score

RIGHT_FROM = 0.9
"""Share of digits from which a completion counts as right."""


class Nothing(Reference):
    """The reference of `DigitShare`'s tasks. It has no fields, because the reward depends on the text alone."""


class DigitShare(BaseEnvironment[Nothing, Options]):
    """An environment whose reward is the share of the completion's characters that are digits."""

    name = "digit-share"
    version = "1"
    reference_type = Nothing

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return prompt number `index`. It gives no instruction, because an untrained model could not follow one."""
        return self.prompt(f"{split} {seed} {index}")

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        """Score `completion` by the share of its characters that are digits."""
        share = sum(map(str.isdecimal, completion.text)) / max(1, len(completion.text))
        return Score.correct() if share >= RIGHT_FROM else Score.partial(share)

    def gold(self, prompt: Prompt) -> str:
        """Return a correct completion of `prompt`."""
        return "0"


ENVIRONMENTS: Mapping[str, Any] = {"digit-share": DigitShare()}


def write_model(
    folder: Path,
    *,
    hidden_size: int = 64,
    layers: int = 2,
    heads: int = 4,
    intermediate_size: int = 128,
    vocabulary_size: int | None = None,
    max_positions: int = 256,
) -> Path:
    """Write a randomly initialised model with its tokenizer to `folder`, and return `folder`."""
    from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer

    tokenizer = scratch_tokenizer([f"train {n} plus {n * 7} is {n * 8}" for n in range(300)], 320)
    model = scratch_qwen3(
        tokenizer,
        hidden_size=hidden_size,
        layers=layers,
        heads=heads,
        intermediate_size=intermediate_size,
        max_positions=max_positions,
        vocabulary_size=vocabulary_size,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def settings(model: Path, output: Path, **more: Any) -> dict[str, Any]:
    """Return the settings of a short run of `model` that writes to `output`, with `more` replacing single settings."""
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "digit-share"}],
        "steps": 2,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 10,
        "learning_rate": 1e-2,
        "warmup_steps": 0,
        "eval_every": 0,
        "workers": 0,
        "samples_per_step": 16,
    }
    return fields | more
