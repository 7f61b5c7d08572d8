"""Stage `sft`: supervised fine-tuning on completions, with packing, a held-out loss and bit-exact resume."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.trainer.checkpoints.store import locked
from verigym.trainer.logprobs.chunked import ExpectedGradient
from verigym.trainer.logprobs.forward import ForwardOptions
from verigym.trainer.models.codec import Codec
from verigym.trainer.rng import keyed_int, keyed_random
from verigym.trainer.stages.config import ExampleFields, SftConfig
from verigym.trainer.stages.examples import Example, Pair, demonstrations, read_examples, to_pairs
from verigym.trainer.stages.packing import packed_passes
from verigym.trainer.stages.step_run import PolicyRun, Target, prepare_stage
from verigym.trainer.tasks.too_long import refuse_many
from verigym.trainer.threads import own_threads

logger = logging.getLogger("verigym.trainer")

T = TypeVar("T")


@own_threads()
def sft(config: SftConfig) -> Path:
    """Fine-tune a model on completions, and return the final model's folder.

    If `config.output` has a checkpoint, training resumes from the newest.

    Raises:
        UsageError: the model, the examples or a checkpoint do not fit.
        Interrupted: Ctrl-C; the same call resumes.
    """
    prepare_stage(config)
    with locked(config.output):
        examples, held_out = gather_examples(config)
        run = PolicyRun(config, {"examples": examples_digest(examples)}, "SFT")
        train, test = tokenized(config, run.codec, examples, held_out)
        batches = Batches(train, config.batch_size, config.seed)

        def gradient(step: int) -> dict[str, float]:
            run.model.train()
            batch = batches.of(step)
            loss = nll_gradient(run.model, batch, run.how, config.pack_tokens)
            return {"loss": loss, "tokens": float(sum(len(pair.token_ids) for pair in batch))}

        def evaluate() -> dict[str, float]:
            return held_out_metrics(run.model, test, run.how, config.pack_tokens)

        return run.run(total_steps(config, len(train)), gradient, evaluate if test else None, target_of(config, test))


def gather_examples(config: ExampleFields) -> tuple[list[Example], list[Example]]:
    """Return (training examples, held-out examples) from the files and sources that `config` names."""
    examples = [example for path in config.data for example in read_examples(path)]
    held = [one for one in examples if int(one.key[:8], 16) < config.held_out_share * 2**32]
    train = [one for one in examples if int(one.key[:8], 16) >= config.held_out_share * 2**32]
    if config.data and not train:
        raise UsageError(f"held_out_share {config.held_out_share} leaves none of {len(examples)} examples to learn; lower it")
    held = sorted(held, key=lambda one: sha256_hex(one.key + one.completion))[: config.held_out_count]
    if config.demonstrations:
        seed = keyed_int("demonstrations", config.seed)
        train += demonstrations(config.demonstrations, "train", config.demonstration_count, seed)
        held += demonstrations(config.demonstrations, "test", config.held_out_count, 0)
    return train, held


def examples_digest(examples: Sequence[Example]) -> str:
    """Return a hash of `examples`, which depends on their order."""
    return sha256_hex(canonical_json([[one.key, sha256_hex(one.completion)] for one in examples]))


def tokenized(
    config: ExampleFields, codec: Codec, examples: Sequence[Example], held_out: Sequence[Example]
) -> tuple[list[Pair], list[Pair]]:
    """Return (training, held-out) examples in tokens, without those that are too long.

    Raises:
        UsageError: more are too long than max_left_out allows, or no training example is left.
    """
    train, test = (_short_enough(config, codec, some, what) for some, what in ((examples, "examples"), (held_out, "held-out")))
    if not train:
        raise UsageError(f"max_tokens is {config.max_tokens}, and all {len(examples)} examples are longer; raise it")
    return train, test


def _short_enough(config: ExampleFields, codec: Codec, examples: Sequence[Example], what: str) -> list[Pair]:
    pairs = to_pairs(examples, codec)
    if len(pairs) < len(examples):
        logger.warning("%s: %d of %d have no prompt tokens and are left out", what, len(examples) - len(pairs), len(examples))
    kept = [pair for pair in pairs if pair.length <= config.max_tokens]
    left_out = len(pairs) - len(kept)
    if left_out:
        longest = max(pair.length for pair in pairs)
        bounds: dict[str, Any] = {"field": "max_tokens", "limit": config.max_tokens, "share": config.max_left_out}
        if kept:
            refuse_many(what, left_out, len(pairs), longest, **bounds)
        logger.warning("%s: %d of %d are longer than max_tokens (%d)", what, left_out, len(pairs), config.max_tokens)
    return kept


def total_steps(config: ExampleFields, examples: int) -> int:
    """Return the number of updates for `examples` training examples."""
    return config.steps or max(1, math.ceil(config.epochs * examples / config.batch_size))


def target_of(config: ExampleFields, held_out: Sequence[Pair]) -> Target | None:
    """Return the target of `held_out_metrics` that `config` sets.

    Raises:
        UsageError: there are no held-out examples to measure it on.
    """
    if config.target_probability is None:
        return None
    if not held_out:
        raise UsageError("target_probability: no example is held out to measure it on; raise held_out_share, or leave it out")
    return Target("probability", config.target_probability)


class Batches(Generic[T]):
    """The examples of each step. Examples are shuffled anew in each epoch, and their order depends on the seed alone."""

    def __init__(self, pairs: Sequence[T], size: int, seed: int) -> None:
        self.pairs, self.size = pairs, size

        @lru_cache(maxsize=2)
        def order(epoch: int) -> list[int]:
            numbers = list(range(len(pairs)))
            keyed_random(seed, "examples", epoch).shuffle(numbers)
            return numbers

        self._order = order

    def of(self, step: int) -> list[T]:
        """Return the batch of step `step`, counted from 0."""
        places = (divmod(step * self.size + place, len(self.pairs)) for place in range(self.size))
        return [self.pairs[self._order(epoch)[number]] for epoch, number in places]


def nll_gradient(model: Any, pairs: Sequence[Pair], how: ForwardOptions, capacity: int | None = None) -> float:
    """Add the gradient of the mean negative log-likelihood of the completions' tokens, and return that mean in nats.

    Prompts are context only and have no loss. The mean is over the tokens of the whole batch, so packing and micro-batches
    change results by rounding only.
    """
    total = sum(len(pair.token_ids) for pair in pairs)

    def expect(zeros_BT: Any, mask_BT: Any) -> ExpectedGradient:
        # The gradient at each log-probability is known, so the logits are computed only once.
        known = zeros_BT[mask_BT]
        return ExpectedGradient((known - 1) / total, known)

    loss = 0.0
    prompts, completions = [pair.prompt_ids for pair in pairs], [pair.token_ids for pair in pairs]
    for _, run in packed_passes(model, prompts, completions, how, capacity):
        scored = run(expect)
        part = -scored.logp_BT.sum() / total
        part.backward()  # type: ignore[no-untyped-call]
        loss += float(part.detach())
    return loss


def held_out_metrics(model: Any, pairs: Sequence[Pair], how: ForwardOptions, capacity: int | None = None) -> dict[str, float]:
    """Return how well `model` predicts held-out completions; call it under `torch.no_grad()`.

    `loss` is the mean negative log-likelihood of the completions' tokens, in nats. `probability` is the mean probability of a
    whole completion, its end included: the share of prompts for which a sample at temperature 1 would be that very completion.
    """
    prompts, completions = [pair.prompt_ids for pair in pairs], [pair.token_ids for pair in pairs]
    total = probability = 0.0
    for _, run in packed_passes(model, prompts, completions, how, capacity):
        logp_B = run(None).logp_BT.sum(1)
        total += float(logp_B.sum())
        probability += float(logp_B.exp().sum())
    return {"loss": -total / sum(map(len, completions)), "probability": probability / len(pairs)}
