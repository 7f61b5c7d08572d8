"""Rollout of one step: completions are sampled in groups and graded while others are still being generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

import torch

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, Status, canonical_json
from verigym.envs.grading import Grader, grades_groups
from verigym.trainer.advantages.group import centred
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.engines.base import Engine, Generated
from verigym.trainer.models.codec import Codec
from verigym.trainer.stopwatch import Stopwatch
from verigym.trainer.tasks.mixture import Source


@dataclass(frozen=True)
class Group:
    """A prompt's completions, all sampled from the same policy."""

    source: str
    prompt: Prompt
    prompt_ids: tuple[int, ...]
    generated: tuple[Generated, ...]
    texts: tuple[str, ...]
    scores: tuple[Score, ...]
    off_policy: bool = False
    """Whether the policy of an earlier step sampled them: a group left over from the last step, or a replayed one."""

    @property
    def canary(self) -> bool:
        """Whether no answer to this prompt is right. Canaries test the verifier and are never trained on."""
        return self.prompt.metadata.get("canary") == "reject"

    @property
    def pass_rate(self) -> float | None:
        """Share of correct completions among the scored ones; None where none is scored."""
        scored = [score for score in self.scores if score.scored]
        return sum(score.status is Status.CORRECT for score in scored) / len(scored) if scored else None

    @property
    def truncated(self) -> list[bool]:
        """Which completions were cut off by the token limit."""
        return [completion.finish_reason == "length" for completion in self.generated]


GOLD_SHOWN = 300
"""Characters of a gold that logs show: tests of programs have megabytes."""
UNREAD = (Status.NO_ANSWER, Status.TRUNCATED)
"""Verdicts on completions in which no answer was found."""


class Dropped(Exception):
    """The generation was abandoned because the run is to stop; repeated, it gives the same completions."""


def collect(
    engine: Engine,
    codec: Codec,
    graders: Callable[[Source], Grader],
    tasks: Sequence[tuple[Source, Prompt]],
    *,
    samples: int,
    key: tuple[object, ...],
    max_new_tokens: int,
    temperature: float,
    first: int = 0,
    names: Sequence[object] | None = None,
    clock: Stopwatch | None = None,
    world: World = SOLO,
    give_up: Callable[[], bool] = lambda: False,
) -> list[Group]:
    """Generate completions number `first` to `samples` - 1 of each task and grade each as soon as it ends.

    Where an environment grades groups, a task's completions are graded once the last of them has ended. With several processes,
    each handles its share of the tasks, and all return all groups.

    Args:
        engine: samples from the policy.
        codec: the policy's tokenizer.
        graders: returns the grader of a source.
        tasks: sources and prompts.
        samples: completions a prompt, those before `first` among them.
        key: randomness key; the prompt's number and key and the sample's number are appended.
        max_new_tokens: most tokens a completion.
        temperature: 0 is greedy.
        first: number of the first completion to generate; an environment that grades groups sees those from it on.
        names: stand in the randomness keys instead of the prompts' numbers, so that they do not depend on the other tasks.
        clock: records the time of generation and of the wait for verdicts after it.
        world: the processes that train together.
        give_up: whether to stop; called whenever a completion ends, and twice a second during the wait for verdicts.

    Raises:
        Dropped: `give_up` returned True.
    """
    if not tasks:
        return []
    clock = clock or Stopwatch()
    ids = [codec.encode(prompt) for _, prompt in tasks]
    named = range(len(tasks)) if names is None else names
    count = samples - first
    local = world.share(len(tasks))
    texts: dict[tuple[int, int], str] = {}
    futures: dict[tuple[int, int], Future[Score]] = {}
    ended: dict[int, dict[int, Completion]] = {}

    def grade(i: int, g: int, done: Generated) -> None:
        if give_up():
            raise Dropped
        source, prompt = tasks[local[i]]
        texts[i, g] = codec.decode(done.token_ids)
        completion = Completion(text=texts[i, g], token_ids=done.token_ids, finish_reason=done.finish_reason)
        if not grades_groups(source.environment):
            futures[i, g] = graders(source).submit(prompt, completion)
            return
        ended.setdefault(i, {})[g] = completion
        if len(ended[i]) == count:
            group = [ended[i][sample] for sample in range(count)]
            verdicts = graders(source).submit_group(prompt, group)
            futures.update({(i, sample): future for sample, future in enumerate(verdicts)})

    with clock("generate"):
        generated = engine.generate(
            [ids[number] for number in local],
            [[(*key, named[number], tasks[number][1].key, g) for g in range(first, samples)] for number in local],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            on_finished=grade,
        )
    with clock("grade_wait"):
        waiting = set(futures.values())
        while waiting:
            if give_up():
                raise Dropped
            waiting = wait(waiting, timeout=0.5).not_done
        scores = {index: future.result() for index, future in futures.items()}
    graded = [
        (tuple(generated[i]), tuple(texts[i, g] for g in range(count)), tuple(scores[i, g] for g in range(count)))
        for i in range(len(local))
    ]
    with clock("gather"):
        everywhere = world.merge(graded, len(tasks))
    return [
        Group(source.label, prompt, ids[number], generated=completions, texts=decoded, scores=verdicts)
        for number, ((source, prompt), (completions, decoded, verdicts)) in enumerate(zip(tasks, everywhere, strict=True))
    ]


def gold_text(prompt: Prompt) -> str | None:
    """Return a prompt's gold for logs: the field `answer` of its reference, or the whole reference as JSON."""
    parts = [reference.model_dump(mode="json", exclude_defaults=True) for reference in prompt.references.values()]
    golds = [part["answer"] if isinstance(part.get("answer"), str) else canonical_json(part) for part in parts if part]
    text = "; ".join(dict.fromkeys(golds))
    return (text if len(text) <= GOLD_SHOWN else f"{text[:GOLD_SHOWN]}...") or None


def reward_tensors(groups: Sequence[Group]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rewards_PG, scored_PG). An unscored completion has nan and False; no mean and no loss includes it."""
    rewards = [[float("nan") if s.reward is None else s.reward for s in group.scores] for group in groups]
    rewards_PG = torch.tensor(rewards, dtype=torch.float64)
    return rewards_PG, ~rewards_PG.isnan()


def refuse_accepted_canaries(groups: Sequence[Group]) -> None:
    """Stop the run where a canary was graded correct: its verifier is being hacked, or is broken.

    Raises:
        UsageError: a completion of a prompt with `metadata["canary"] == "reject"` was graded correct.
    """
    for group in groups:
        for text, score in zip(group.texts, group.scores, strict=True):
            if group.canary and score.status is Status.CORRECT:
                raise UsageError(
                    f"source {group.source!r} paid {score.reward} for a canary ({score.grader}: {score.reason}): "
                    f"its verifier cannot be trusted, so training stops; prompt {group.prompt.key}, completion {text[:200]!r}"
                )


def verdict_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return mean reward, accuracy, lengths and counts of failures, over all sources and for each source.

    Means are over scored completions; without any, the metric is absent rather than zero.
    """
    metrics: dict[str, float] = {}
    labels = sorted({group.source for group in groups})
    for label in ["", *(labels if len(labels) > 1 else [])]:
        members = [group for group in groups if not label or group.source == label]
        prefix = f"{label}/" if label else ""
        scores = [score for group in members for score in group.scores]
        scored = [score for score in scores if score.reward is not None]
        metrics[f"{prefix}unscored"] = len(scores) - len(scored)
        metrics[f"{prefix}judge_exceptions"] = sum(score.raised is not None for score in scores)
        if scored:
            metrics[f"{prefix}reward"] = sum(score.reward or 0.0 for score in scored) / len(scored)
            metrics[f"{prefix}accuracy"] = sum(s.status is Status.CORRECT for s in scored) / len(scored)
            metrics[f"{prefix}no_answer"] = sum(s.status in UNREAD for s in scored) / len(scored)
        lengths = [done.length for group in members for done in group.generated]
        metrics[f"{prefix}completion_tokens"] = sum(lengths) / len(lengths)
        metrics[f"{prefix}truncated"] = sum(sum(group.truncated) for group in members) / len(lengths)
        total = sum(logp for group in members for done in group.generated for logp in done.logprobs)
        metrics[f"{prefix}sampled_nll"] = -total / sum(lengths)
        equal = [not bool(centred(*reward_tensors([group])).any()) for group in members]
        metrics[f"{prefix}groups_without_signal"] = sum(equal) / len(equal)
    return metrics
