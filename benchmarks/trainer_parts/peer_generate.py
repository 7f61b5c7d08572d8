"""What TRL generates with on a CPU: transformers' `generate`, the prompt repeated for each completion."""

from __future__ import annotations

from typing import Any

import torch
from transformers import GenerationConfig

from trainer_parts.setting import Shape, codec, prompt_text


def transformers_generate(model: Any, shape: Shape, step: int) -> int:
    """Sample a step's completions with transformers' `generate` and return the number of tokens, padding left out."""
    text = codec()
    numbers = [step * shape.prompts + place for place in range(shape.prompts) for _ in range(shape.group)]
    ids = torch.tensor([text.encode_text(prompt_text(number, shape.prompt_tokens) + "\n") for number in numbers])
    torch.manual_seed(step)
    end = text.tokenizer.eos_token_id
    settings = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=shape.new_tokens,
        eos_token_id=end,
        pad_token_id=text.pad_id,
        disable_compile=True,
    )
    with torch.no_grad():
        found = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    ended = (found[:, shape.prompt_tokens :] == end).cumsum(1)
    return int((ended == 0).sum() + (ended[:, -1] > 0).sum())
