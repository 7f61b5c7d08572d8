"""Sampling parameters for vLLM, such that it samples from the distribution that training assumes."""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.contract.errors import UsageError
from verigym.trainer.rng import keyed_int

Parameter = int | float | bool | list[int]


def sampling_parameters(
    prompt: Sequence[int],
    key: Sequence[object],
    *,
    max_new_tokens: int,
    max_model_len: int,
    temperature: float,
    eos_ids: frozenset[int],
) -> dict[str, Parameter]:
    """Return the sampling parameters of one completion, by the names that vLLM and its server share.

    Every parameter that a model's own `generation_config` could set is included, so that the model's values never apply.

    Args:
        prompt: the prompt's tokens.
        key: the row's randomness key; the seed is its hash.
        max_new_tokens: most tokens of the completion.
        max_model_len: most tokens of prompt and completion in the engine; limits the completion.
        temperature: 0 samples greedily.
        eos_ids: tokens that end the completion.

    Raises:
        UsageError: the prompt leaves no room for a completion.
    """
    room = max_model_len - len(prompt)
    if room < 1:
        raise UsageError(
            f"a prompt of {len(prompt)} tokens leaves no room for a completion within {max_model_len}; lower "
            "max_prompt_tokens, or raise vllm_max_model_len (of a server: its --max-model-len)"
        )
    return {
        "seed": keyed_int(*key),
        "max_tokens": min(max_new_tokens, room),
        "temperature": temperature,
        "stop_token_ids": sorted(eos_ids),
        "ignore_eos": True,  # the policy's own ends are in stop_token_ids
        "logprobs": 0,  # of the sampled token alone
        "n": 1,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "min_tokens": 0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "skip_special_tokens": False,
    }
