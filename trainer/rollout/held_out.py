"""Evaluation on held-out prompts, apart from the training reward: same prompts, same randomness, every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from verigym.envs.contract.schema import Status
from verigym.envs.grading import Grader
from verigym.envs.metrics import pass_at_k
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.engines.base import Engine
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group, collect
from verigym.trainer.tasks.mixture import Source, shares_of
from verigym.trainer.tasks.too_long import fitting


def evaluate(
    engine: Engine,
    codec: Codec,
    sources: Sequence[Source],
    graders: Mapping[str, Grader],
    config: TrainConfig,
    world: World = SOLO,
    give_up: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, float], list[Group]]:
    """Answer every source's held-out prompts and return the metrics and the completions.

    Args:
        engine: samples from the policy.
        codec: the policy's tokenizer.
        sources: the mixture.
        graders: by source.
        config: for the sampler's settings in evaluation.
        world: the processes, which share the prompts out.
        give_up: see `collect`.

    Raises:
        Dropped: `give_up` said so.
        UsageError: more held-out prompts are too long than max_left_out allows.
    """
    tasks, left_out = fitting(sources, codec, config.max_prompt_tokens, config.max_left_out)
    groups = collect(
        engine,
        codec,
        lambda source: graders[source.label],
        tasks,
        samples=config.eval_samples,
        key=("eval",),
        max_new_tokens=config.max_new_tokens,
        temperature=config.eval_temperature,
        world=world,
        give_up=give_up,
    )
    metrics = evaluation_metrics(groups, sources, config.eval_samples)
    return metrics | {f"{label}/prompts_left_out": float(count) for label, count in left_out.items() if count}, groups


def evaluation_metrics(groups: Sequence[Group], sources: Sequence[Source], samples: int) -> dict[str, float]:
    """Return accuracy (share of CORRECT among scored completions), unscored counts and pass@k, for each source.

    `accuracy` without a source's name is the mean over sources, by their shares of the training prompts.
    """
    metrics: dict[str, float] = {}
    total, weights = 0.0, 0.0
    for source, share in zip(sources, shares_of(sources), strict=True):
        mine = [group for group in groups if group.source == source.label]
        scored = [score for group in mine for score in group.scores if score.scored]
        metrics[f"{source.label}/unscored"] = sum(len(group.scores) for group in mine) - len(scored)
        if not scored:
            continue
        accuracy = sum(score.status is Status.CORRECT for score in scored) / len(scored)
        metrics[f"{source.label}/accuracy"] = accuracy
        metrics[f"{source.label}/completion_tokens"] = sum(done.length for group in mine for done in group.generated) / sum(
            len(group.generated) for group in mine
        )
        total, weights = total + share * accuracy, weights + share
        if samples > 1:
            whole = [group for group in mine if all(score.scored for score in group.scores)]
            right = [sum(score.status is Status.CORRECT for score in group.scores) for group in whole]
            if whole:
                values = [pass_at_k(samples, count, samples) for count in right]
                metrics[f"{source.label}/pass@{samples}"] = sum(values) / len(values)
    if weights:
        metrics["accuracy"] = total / weights
    return metrics
