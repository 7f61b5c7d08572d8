"""What both sides are given: the model, the prompts, and how long completions get."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import transformers

from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.rng import keyed_random, keyed_uniforms

DEVICE = torch.device("cpu")
"""Of both sides; the command line sets it. On CUDA both compute in bf16 over fp32 weights, else in fp32."""

MODEL: str | None = None
"""Folder of a pretrained model, for the measurements of one; the command line sets it."""

# Every completion's first dimension is made this large at the embedding, and so nearly constant behind the last norm:
# the end-of-sequence token's own weight there is then a bias of its logit, in a model with tied and bias-free weights.
CARRIER = 0.3


@dataclass(frozen=True)
class Shape:
    """How much is generated in a step."""

    prompts: int
    group: int
    prompt_tokens: int
    new_tokens: int
    mean_tokens: float | None
    """Completions end by themselves after about this many tokens, at most `new_tokens`; None: never by themselves."""
    vocabulary: int = 512
    hidden_size: int = 256
    layers: int = 3
    heads: int = 4
    intermediate_size: int = 640

    @property
    def rows(self) -> int:
        """Completions a step."""
        return self.prompts * self.group


STEP = Shape(prompts=4, group=8, prompt_tokens=256, new_tokens=256, mean_tokens=90)
LEAST = Shape(prompts=4, group=2, prompt_tokens=32, new_tokens=128, mean_tokens=None)
LARGE = Shape(
    prompts=8,
    group=8,
    prompt_tokens=256,
    new_tokens=512,
    mean_tokens=180,
    vocabulary=32768,
    hidden_size=896,
    layers=24,
    heads=14,
    intermediate_size=4864,
)
"""Layers of the size of Qwen2.5-0.5B's, for a GPU."""
PRETRAINED = Shape(prompts=4, group=8, prompt_tokens=95, new_tokens=64, mean_tokens=None)
"""Of a pretrained model, whose own are vocabulary, layers and the ends of completions."""
UPDATE = Shape(prompts=2, group=8, prompt_tokens=256, new_tokens=128, mean_tokens=None, vocabulary=32768)


@lru_cache
def codec() -> Codec:
    """A small tokenizer, or the pretrained model's. The small models have more tokens than it; these have no text."""
    if MODEL is not None:
        return Codec(transformers.AutoTokenizer.from_pretrained(MODEL))
    return Codec(scratch_tokenizer([f"{n} plus {n * 7} is {n * 8}" for n in range(500)], 512))


def prompt_text(number: int, tokens: int) -> str:
    """Digits, each a token; the chat template adds the last token, a line break."""
    return "".join(str(keyed_random("prompt", number, place).randrange(10)) for place in range(tokens - 1))


@lru_cache
def _calibrated(shape: Shape) -> Any:
    if MODEL is not None:
        return transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval().to(DEVICE)
    tokenizer = codec().tokenizer
    model = scratch_qwen3(
        tokenizer,
        hidden_size=shape.hidden_size,
        layers=shape.layers,
        heads=shape.heads,
        intermediate_size=shape.intermediate_size,
        max_positions=1024,
        vocabulary_size=shape.vocabulary,
    ).eval()
    model = model.to(DEVICE)
    weight = model.get_input_embeddings().weight
    with torch.no_grad():
        weight[:, 0] = CARRIER
        if shape.mean_tokens is None:
            weight[tokenizer.eos_token_id, 0] = -10.0
            return model
        tokens = [list(codec().encode_text(prompt_text(row, shape.prompt_tokens) + "\n")) for row in range(8)]
        generator = torch.Generator().manual_seed(0)
        answers = torch.randint(
            tokenizer.eos_token_id + 1, shape.vocabulary, (len(tokens), shape.new_tokens), generator=generator
        )
        ids = torch.cat([torch.tensor(tokens), answers], dim=1).to(DEVICE)
        low, high = CARRIER, 2.0
        for _ in range(12):
            weight[tokenizer.eos_token_id, 0] = (low + high) / 2
            logits = model(ids, logits_to_keep=shape.new_tokens + 1).logits[:, :-1]
            p_end = logits.softmax(-1)[..., tokenizer.eos_token_id].double()
            # The length's mean is the sum, over tokens, of the chance that the row has not ended before.
            mean = 1 + float((1 - p_end[:, :-1]).cumprod(1).sum(1).mean())
            low, high = (low, (low + high) / 2) if mean < shape.mean_tokens else ((low + high) / 2, high)
    return model


def make_model(shape: Shape) -> Any:
    """Return a model of its own, whose completions get the shape's lengths; the same weights every time."""
    return copy.deepcopy(_calibrated(shape))


def lengths(rows: int, shape: Shape, *key: object) -> list[int]:
    """Return completion lengths of the shape's distribution, for work that begins with completions."""
    if shape.mean_tokens is None:
        return [shape.new_tokens] * rows
    draws = keyed_uniforms(rows, "lengths", *key).clamp(min=1e-12)
    p_end = 1 / shape.mean_tokens
    natural: Sequence[int] = (1 + draws.log() / torch.log1p(torch.tensor(-p_end))).long().tolist()
    return [min(length, shape.new_tokens) for length in natural]
