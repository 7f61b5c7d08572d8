"""Stage `scratch`: makes a model with random weights, and a tokenizer trained on the tasks' texts; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from verigym.trainer.stages.config import Demonstrations, StageFields
from verigym.trainer.stages.examples import Example, demonstrations


class ScratchConfig(StageFields):
    """Settings of a Qwen3 model with random weights and a byte-level BPE tokenizer."""

    demonstrations: Demonstrations = Field(min_length=1)
    """Environments that write worked solutions; the tokenizer is made from their texts."""
    texts: int = Field(default=1200, ge=1)
    """How many of them."""
    vocabulary: int = Field(default=512, ge=300)
    """Number of tokens of the tokenizer, at least 300. Letters that often occur together become one token; for tasks about
    single letters, put spaces between the letters, or set 300."""
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
    """Run the stage: make the model if it does not exist yet, and return its folder.

    Raises:
        UsageError: an environment writes no worked solutions.
    """
    import transformers

    from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer

    final = config.output / "final"
    if final.exists():
        return final
    transformers.utils.logging.disable_progress_bar()
    examples = demonstrations(config.demonstrations, "train", config.texts, config.seed)
    tokenizer = scratch_tokenizer(tokenizer_texts(examples), config.vocabulary)
    model = scratch_qwen3(
        tokenizer,
        hidden_size=config.hidden_size,
        layers=config.layers,
        heads=config.heads,
        intermediate_size=config.intermediate_size,
        max_positions=config.max_positions,
        seed=config.seed,
    )
    with completed_folder(final) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return final


def tokenizer_texts(examples: Sequence[Example]) -> list[str]:
    """Return the texts that the tokenizer is trained on: for each example, the prompt with its completion."""
    return [f"{example.prompt.text}\n{example.completion}" for example in examples]


@contextmanager
def completed_folder(final: Path) -> Iterator[Path]:
    """Yield an empty folder to write to, and rename it to `final` at the end, so that `final` is complete or does not exist."""
    partial = final.with_name(f".{final.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    os.replace(partial, final)
