"""Selects the held-out prompts that fit, together with a completion, into a model's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.models.codec import Codec
from verigym.trainer.tasks.mixture import Source
from verigym.trainer.tasks.too_long import fitting

Tasks = list[tuple[Source, Prompt]]


def fitting_model(
    config: EvalConfig, label: str, sources: Sequence[Source], codec: Codec, positions: int | None, completion: int
) -> tuple[Tasks, dict[str, int]]:
    """Return the held-out prompts that are short enough, with their sources, and each source's number of prompts left out.

    A prompt is left out if it is longer than max_prompt_tokens, or if the prompt and a completion exceed `positions`.

    Args:
        config: the evaluation.
        label: the model's name in the tables.
        sources: sources with their held-out prompts.
        codec: counts the model's tokens.
        positions: most tokens of prompt and completion together that the model can process; None for no limit.
        completion: most tokens of a completion, including the tokens that a thinking budget inserts.

    Raises:
        UsageError: more prompts of a source are left out than max_left_out allows, or all of them.
    """
    tasks, left_out = fitting(sources, codec, config.max_prompt_tokens, config.max_left_out)
    if positions is not None:
        lengths = {one.label: sorted((len(codec.encode(p)) for p in one.held_out), reverse=True) for one in sources}
        _refuse_many(config, label, lengths, positions, completion)
        room = positions - completion
        tasks = [(source, prompt) for source, prompt in tasks if len(codec.encode(prompt)) <= room]
        limit = min(config.max_prompt_tokens, room)
        left_out = {name: sum(length > limit for length in own) for name, own in lengths.items()}
    for source in sources:
        if left_out[source.label] == len(source.held_out):
            raise UsageError(
                f"model {label!r}: all prompts of source {source.label!r} are too long: longer than max_prompt_tokens "
                f"({config.max_prompt_tokens:,}), or than its positions leave room for; raise max_prompt_tokens, lower "
                "max_new_tokens or leave the source out"
            )
    return tasks, left_out


def _refuse_many(config: EvalConfig, label: str, lengths: Mapping[str, Sequence[int]], positions: int, completion: int) -> None:
    """Check that the positions suffice for all but a small share of each source's prompts.

    Args:
        config: the evaluation.
        label: the model's name.
        lengths: by source, the prompts' lengths in tokens, the longest first.
        positions: most tokens that the model takes.
        completion: most tokens of a completion.
    """
    limit = min(config.max_prompt_tokens, positions - completion)
    counts = {name: sum(length > limit for length in own) for name, own in lengths.items()}
    many = [name for name, count in counts.items() if count > config.max_left_out * len(lengths[name])]
    if not many:
        return
    # The longest prompts that must fit if as many are left out as may be.
    longest = max(lengths[name][int(config.max_left_out * len(lengths[name]))] for name in many)
    excess = longest + completion - positions
    tokens = "thinking_budgets and max_new_tokens" if config.thinking_budgets else "max_new_tokens"
    advice = []
    if config.thinking_budgets and excess < completion:
        advice.append(f"lower the largest of thinking_budgets, or max_new_tokens, by {excess:,}")
    elif excess < config.max_new_tokens:
        advice.append(f"max_new_tokens can be {config.max_new_tokens - excess:,} here")
    if all(counts[name] < len(lengths[name]) for name in many):
        share = max(ceil(1000 * counts[name] / len(lengths[name])) / 1000 for name in many)
        advice.append(f"set max_left_out to {share:g} or more to go on without those that do not fit")
    how_many = ", ".join(f"{counts[name]} of {len(lengths[name])} prompts of source {name!r}" for name in many)
    raise UsageError(
        f"model {label!r} has {positions:,} positions, and a prompt of {longest:,} tokens with {tokens} ({completion:,}) takes "
        f"more. {how_many} do not fit, more than a share of {config.max_left_out:g} (max_left_out): "
        + (", or ".join(advice) or "evaluate a model with more positions, or ask for less in a prompt (shots, template)")
    )
