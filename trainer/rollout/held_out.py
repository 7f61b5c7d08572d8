"""Evaluation on held-out prompts during a run, with the same prompts and the same randomness each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from verigym.envs.contract.schema import Status
from verigym.envs.grading import Grader
from verigym.envs.metrics import pass_at_k
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.engines.base import Engine
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group, collect
from verigym.trainer.rollout.episode_metrics import episode_metrics
from verigym.trainer.rollout.episodes import Episodes
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
    episodes: Episodes | None = None,
    sampling: Callable[[], AbstractContextManager[None]] = nullcontext,
    tell: Callable[[Callable[[], str]], None] | None = None,
) -> tuple[dict[str, float], list[Group]]:
    """Sample and grade completions of every source's held-out prompts; return their metrics and groups.

    Args:
        engine: samples from the policy.
        codec: the policy's tokenizer.
        sources: the mixture.
        graders: grader of each source, by label.
        config: the run, for its sampling settings in evaluation.
        world: the processes that train together; each takes its share of the prompts.
        give_up: see `collect`.
        episodes: see `collect`.
        sampling: see `collect`.
        tell: see `collect`.

    Raises:
        Dropped: `give_up` returned True.
        UsageError: more held-out prompts are too long than max_left_out allows.
    """
    tasks, too_long = fitting(sources, codec, config.max_prompt_tokens, config.max_left_out)
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
        episodes=episodes,
        sampling=sampling,
        tell=tell,
    )
    metrics = evaluation_metrics(groups, sources, config.eval_samples) | episode_metrics(groups)
    return metrics | {f"{label}/prompts_left_out": float(count) for label, count in too_long.items() if count}, groups


def evaluation_metrics(groups: Sequence[Group], sources: Sequence[Source], samples: int) -> dict[str, float]:
    """Return each source's accuracy (share of CORRECT among scored completions) and pass@k.

    Beside them are the numbers of unscored completions and of those on which `judge` raised.

    The metric `accuracy` without a source's name is the mean of the sources' accuracies, weighted by their shares of the
    training prompts.
    """
    metrics: dict[str, float] = {}
    total, weights = 0.0, 0.0
    for source, share in zip(sources, shares_of(sources), strict=True):
        members = [group for group in groups if group.source == source.label]
        scored = [score for group in members for score in group.scores if score.scored]
        metrics[f"{source.label}/unscored"] = sum(len(group.scores) for group in members) - len(scored)
        raised = sum(score.raised is not None for group in members for score in group.scores)
        metrics[f"{source.label}/judge_exceptions"] = raised
        if not scored:
            continue
        accuracy = sum(score.status is Status.CORRECT for score in scored) / len(scored)
        metrics[f"{source.label}/accuracy"] = accuracy
        lengths = [done.length for group in members for done in group.generated]
        metrics[f"{source.label}/completion_tokens"] = sum(lengths) / len(lengths)
        total, weights = total + share * accuracy, weights + share
        if samples > 1:
            whole = [group for group in members if all(score.scored for score in group.scores)]
            correct = [sum(score.status is Status.CORRECT for score in group.scores) for group in whole]
            if whole:
                values = [pass_at_k(samples, count, samples) for count in correct]
                metrics[f"{source.label}/pass@{samples}"] = sum(values) / len(values)
    if weights:
        metrics["accuracy"] = total / weights
    return metrics
