"""A model from nothing: a tokenizer from the tasks' own texts and random weights, for recipes that need no download."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pydantic import Field

from verigym.trainer.config.run import SourceConfig
from verigym.trainer.stages.config import StageFields
from verigym.trainer.stages.examples import demonstrated


class ScratchConfig(StageFields):
    """A Qwen3 model with random weights and a byte-level BPE tokenizer."""

    demonstrations: tuple[SourceConfig, ...] = Field(min_length=1)
    """Environments that write worked solutions; the tokenizer is made from their texts."""
    texts: int = Field(default=1200, ge=1)
    """How many of them."""
    vocabulary: int = Field(default=512, ge=300)
    """Tokens of the tokenizer."""
    hidden_size: int = Field(default=256, ge=8)
    """Of the model."""
    layers: int = Field(default=3, ge=1)
    """Of the model."""
    heads: int = Field(default=4, ge=1)
    """Attention heads a layer."""
    intermediate_size: int = Field(default=640, ge=8)
    """Of the feed-forward layers."""
    max_positions: int = Field(default=512, ge=16)
    """Most tokens of a prompt and its completion."""


def scratch(config: ScratchConfig) -> Path:
    """Make the model, unless it is there, and return its folder.

    Raises:
        UsageError: an environment writes no worked solutions.
    """
    from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer

    final = config.output / "final"
    if final.exists():
        return final
    examples = demonstrated(config.demonstrations, "train", config.texts, config.seed)
    tokenizer = scratch_tokenizer([f"{one.prompt.text}\n{one.completion}" for one in examples], config.vocabulary)
    model = scratch_qwen3(
        tokenizer,
        hidden_size=config.hidden_size,
        layers=config.layers,
        heads=config.heads,
        intermediate_size=config.intermediate_size,
        max_positions=config.max_positions,
        seed=config.seed,
    )
    partial = config.output / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    os.replace(partial, final)
    return final
