"""Rollout of one step: completions are sampled in groups and graded while others are still being generated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypedDict, cast

import torch

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, Status, canonical_json
from verigym.envs.contract.session import opens_sessions
from verigym.envs.grading import Grader, grades_groups
from verigym.envs.progress import duration
from verigym.trainer.advantages.group import centred
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.engines.base import Engine, EpisodeEngine, Generated, Request, requests_of, tokens_reported
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.episodes import EpisodeRow, Episodes
from verigym.trainer.rollout.turn_order import FreeReplies, abandon, play_turns, plays, settle_all
from verigym.trainer.stopwatch import Stopwatch
from verigym.trainer.tasks.chat_prompts import refuse_opened_twice
from verigym.trainer.tasks.mixture import Source


@dataclass(frozen=True)
class Group:
    """A prompt with its completions and their verdicts.

    All completions were sampled from one policy. With the setting `overlap: free`, which updates the weights while the engine
    samples, they may be from several consecutive policies.
    """

    source: str
    prompt: Prompt
    prompt_ids: tuple[int, ...]
    generated: tuple[Generated, ...]
    texts: tuple[str, ...]
    """Of the completions, as graders read them; see `Codec.completion`."""
    scores: tuple[Score, ...]
    off_policy: bool = False
    """Whether the policy of an earlier step sampled the completions: the group is left over from the last step or replayed."""
    episodes: tuple[Completion, ...] = ()
    """The completions with all their turns, if the environment has episodes; `texts` are then the last turns. Else empty."""
    reply_s: tuple[float, ...] = ()
    """In episodes: the seconds that each reply of the environment took. Not saved in checkpoints."""

    @property
    def canary(self) -> bool:
        """Return True if this prompt is a canary, a task to which no answer is right.

        Canaries test the verifier and are never trained on.
        """
        return self.prompt.metadata.get("canary") == "reject"

    @property
    def pass_rate(self) -> float | None:
        """Return the share of correct completions among the scored ones; None if none is scored."""
        scored = [score for score in self.scores if score.scored]
        return sum(score.status is Status.CORRECT for score in scored) / len(scored) if scored else None

    @property
    def truncated(self) -> list[bool]:
        """Return, for each completion, True if the token limit cut it off."""
        return [completion.finish_reason == "length" for completion in self.generated]


GOLD_SHOWN = 300
"""Most characters of a gold answer that logs show; a gold that consists of program tests may have megabytes."""
UNREAD = (Status.NO_ANSWER, Status.TRUNCATED)
"""Verdicts on completions in which no answer was found."""


class Dropped(Exception):
    """Raised when generation is abandoned because the run is to stop. Repeating the generation gives the same completions."""


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
    episodes: Episodes | None = None,
    sampling: Callable[[], AbstractContextManager[None]] = nullcontext,
    tell: Callable[[Callable[[], str]], None] | None = None,
) -> list[Group]:
    """Generate completions number `first` to `samples` - 1 of each task, grade each as soon as it ends, and return the groups.

    If an environment opens sessions, a completion is an episode of several turns. If an environment grades groups, the
    completions of a task are graded when all of them have ended. With several processes, each handles its share of the tasks,
    and each returns the groups of all tasks.

    Args:
        engine: samples from the policy.
        codec: the policy's tokenizer.
        graders: returns the grader of a source.
        tasks: sources and prompts.
        samples: completions per prompt, including those before `first`.
        key: randomness key, to which the prompt's number, the prompt's key and the sample's number are appended.
        max_new_tokens: most tokens of a completion; in an episode, of all its turns together.
        temperature: 0 is greedy.
        first: number of the first completion to generate; an environment that grades groups gets only the completions from
            this number on.
        names: for each task, a name that replaces the prompt's number in the randomness keys, so that the keys do not depend
            on the other tasks.
        clock: records the time of generation, and of the wait for verdicts after generation.
        world: the processes that train together.
        give_up: returns True to stop; called whenever a completion ends, and twice per second during the wait for verdicts.
        episodes: plays the episodes of sources whose environments open sessions.
        sampling: makes the context in which the engine samples; see `Learner.sampling`.
        tell: called between tokens with a function that describes how far the sampling is; see `Progress.present`.

    Raises:
        Dropped: `give_up` returned True.
        UsageError: a source's environment opens sessions, and `episodes` is None.
    """
    if not tasks:
        return []
    ids = [codec.encode(prompt) for _, prompt in tasks]
    for (source, _), prompt_ids in zip(tasks, ids, strict=True):
        if opening := codec.opening(prompt_ids):
            refuse_opened_twice(source.label, source.environment, opening)
    named = range(len(tasks)) if names is None else names
    local = world.share(len(tasks))
    rollout = _Rollout(
        engine,
        codec,
        graders,
        [tasks[number] for number in local],
        [ids[number] for number in local],
        [[(*key, named[number], tasks[number][1].key, g) for g in range(first, samples)] for number in local],
        temperature,
        clock or Stopwatch(),
        give_up,
        episodes,
        sampling,
        tell,
    )
    sampled = rollout.run(max_new_tokens)
    with rollout.clock("gather"):
        everywhere = world.merge(sampled, len(tasks))
    return [
        Group(source.label, prompt, ids[number], **completions)
        for number, ((source, prompt), completions) in enumerate(zip(tasks, everywhere, strict=True))
    ]


def refused_episodes(source: Source) -> UsageError:
    """Return the error for a command that cannot play episodes and is given `source`, whose tasks are episodes."""
    return UsageError(
        f"source {source.label!r}: environment {source.environment.name!r} has episodes of several turns, which this command "
        "does not play; take an environment of one turn"
    )


class _Sampled(TypedDict):
    """The fields of a `Group` that are filled from its completions."""

    generated: tuple[Generated, ...]
    texts: tuple[str, ...]
    scores: tuple[Score, ...]
    episodes: tuple[Completion, ...]
    reply_s: tuple[float, ...]


@dataclass
class _Rollout:
    """The tasks of one process while their completions are sampled and graded."""

    engine: Engine
    codec: Codec
    graders: Callable[[Source], Grader]
    tasks: Sequence[tuple[Source, Prompt]]
    ids: Sequence[Sequence[int]]
    """Each task's prompt tokens."""
    keys: Sequence[Sequence[tuple[object, ...]]]
    """Randomness key of each completion."""
    temperature: float
    clock: Stopwatch
    give_up: Callable[[], bool]
    episodes: Episodes | None
    sampling: Callable[[], AbstractContextManager[None]]
    tell: Callable[[Callable[[], str]], None] | None
    tokens: int = 0
    """Sampled so far."""
    rows: dict[tuple[int, int], EpisodeRow] = field(default_factory=dict)
    """The episodes among the completions."""
    generated: dict[tuple[int, int], Generated] = field(default_factory=dict)
    """Each completion; of an episode its last turn."""
    completions: dict[tuple[int, int], Completion] = field(default_factory=dict)
    futures: dict[tuple[int, int], Future[Score]] = field(default_factory=dict)
    ended: dict[int, dict[int, Completion]] = field(default_factory=dict)
    """Completions of groups that are graded together, until the last has ended."""

    def run(self, max_new_tokens: int) -> list[_Sampled]:
        """Sample and grade all tasks, and return the completions and scores of each."""
        try:
            self._open_episodes()
            begun = time.monotonic()

            def between_tokens(count: int) -> None:
                self._poll()
                self.tokens += count
                if self.tell is not None:
                    self.tell(lambda: self._so_far(time.monotonic() - begun, max_new_tokens))

            with self.sampling(), tokens_reported(between_tokens):
                self._sample(max_new_tokens)
        finally:
            abandon(self.rows.values())
            self._forget(self.rows.values())
        scores = self._scores()
        return [self._fields([(i, g) for g in range(len(keys))], scores) for i, keys in enumerate(self.keys)]

    def _so_far(self, seconds: float, max_new_tokens: int) -> str:
        """Describe how far the sampling is after `seconds`."""
        count, rate = sum(map(len, self.keys)), self.tokens / max(seconds, 1e-9)
        said = f"sampling: {len(self.completions)} of {count} completions, {self.tokens:,} tokens, {rate:,.0f} tokens a second"
        if self.rows or not rate:
            return said
        ended = sum(done.length for done in self.generated.values())
        most = (count - len(self.generated)) * max_new_tokens - (self.tokens - ended)
        return f"{said}, at most {duration(max(0, most) / rate)} left"

    def _sample(self, max_new_tokens: int) -> None:
        if self.rows and plays(self.engine):
            self._play(cast(EpisodeEngine, self.engine), max_new_tokens)
        elif self.rows and self.episodes is not None and self.episodes.order == "free":
            raise UsageError("episode_order free needs an engine whose turns can join while others are sampled")
        else:
            with self.clock("generate"):
                self.engine.generate(
                    self.ids,
                    self.keys,
                    max_new_tokens=max_new_tokens,
                    temperature=self.temperature,
                    on_finished=self._sampled,
                )
            self._play_rounds(list(self.rows.values()))

    def _open_episodes(self) -> None:
        for i, (source, prompt) in enumerate(self.tasks):
            if not opens_sessions(source.environment):
                continue
            if self.episodes is None:
                raise refused_episodes(source)
            for g, key in enumerate(self.keys[i]):
                self.rows[i, g] = self.episodes.begin((i, g), source, prompt, self.ids[i], key, self.engine.positions)

    def _play(self, engine: EpisodeEngine, max_new_tokens: int) -> None:
        """Sample everything with `engine`, which knows which requests are turns of one episode."""
        first = [
            self.rows[one.place].request if one.place in self.rows else one
            for one in requests_of(self.ids, self.keys, max_new_tokens)
        ]
        if self.episodes is None or self.episodes.order == "lockstep":
            self._round(first)
            self._play_rounds(list(self.rows.values()))
            return
        replies = FreeReplies(self.episodes, self._over, self._poll, self.clock)

        def sampled(i: int, g: int, done: Generated) -> None:
            self._sampled(i, g, done)
            if (i, g) in self.rows:
                replies.watch(self.rows[i, g])

        with self.clock("generate"):
            engine.play(first, temperature=self.temperature, on_finished=sampled, arrivals=replies.arrivals)

    def _play_rounds(self, live: list[EpisodeRow]) -> None:
        """Play the episodes `live` in lockstep, starting with the replies to their first turns."""
        while live and self.episodes is not None:
            with self.clock("reply_wait"):
                live = settle_all(self.episodes, live, self._over, self._poll)
            if live:
                self._round([row.request for row in live])

    def _round(self, requests: Sequence[Request]) -> None:
        with self.clock("generate"):
            play_turns(self.engine, requests, self.temperature, self._sampled)

    def _over(self, row: EpisodeRow) -> None:
        self._forget([row])
        self._grade(*row.place, row.completion())

    def _forget(self, rows: Iterable[EpisodeRow]) -> None:
        if self.rows and plays(self.engine):
            cast(EpisodeEngine, self.engine).forget(row.key for row in rows)

    def _poll(self) -> None:
        if self.give_up():
            raise Dropped

    def _sampled(self, i: int, g: int, done: Generated) -> None:
        self._poll()
        self.generated[i, g] = done
        row = self.rows.get((i, g))
        if row is not None and self.episodes is not None:
            self.episodes.take(row, done)
        else:
            text = self.codec.completion(self.ids[i], done.token_ids)
            self._grade(i, g, Completion(text=text, token_ids=done.token_ids, finish_reason=done.finish_reason))

    def _grade(self, i: int, g: int, completion: Completion) -> None:
        source, prompt = self.tasks[i]
        self.completions[i, g] = completion
        if not grades_groups(source.environment):
            self.futures[i, g] = self.graders(source).submit(prompt, completion)
            return
        self.ended.setdefault(i, {})[g] = completion
        if len(self.ended[i]) == len(self.keys[i]):
            group = [self.ended[i][sample] for sample in range(len(self.keys[i]))]
            verdicts = self.graders(source).submit_group(prompt, group)
            self.futures.update({(i, sample): future for sample, future in enumerate(verdicts)})

    def _scores(self) -> dict[tuple[int, int], Score]:
        with self.clock("grade_wait"):
            waiting = set(self.futures.values())
            while waiting:
                self._poll()
                waiting = wait(waiting, timeout=0.5).not_done
            return {place: future.result() for place, future in self.futures.items()}

    def _fields(self, places: Sequence[tuple[int, int]], scores: Mapping[tuple[int, int], Score]) -> _Sampled:
        rows = [self.rows[place] for place in places if place in self.rows]
        return {
            "generated": tuple(row.generated() for row in rows) or tuple(self.generated[place] for place in places),
            "texts": tuple(self.completions[place].text for place in places),
            "scores": tuple(scores[place] for place in places),
            "episodes": tuple(self.completions[row.place] for row in rows),
            "reply_s": tuple(seconds for row in rows for seconds in row.replied),
        }


def gold_text(prompt: Prompt) -> str | None:
    """Return the gold answer of `prompt` for logs: the field `answer` of its reference, or the whole reference as JSON.

    The text is cut to `GOLD_SHOWN` characters. Return None if the reference is empty.
    """
    parts = [reference.model_dump(mode="json", exclude_defaults=True) for reference in prompt.references.values()]
    golds = [part["answer"] if isinstance(part.get("answer"), str) else canonical_json(part) for part in parts if part]
    text = "; ".join(dict.fromkeys(golds))
    return (text if len(text) <= GOLD_SHOWN else f"{text[:GOLD_SHOWN]}...") or None


def reward_tensors(groups: Sequence[Group]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rewards_PG, scored_PG) of P groups of G completions. An unscored completion has reward nan and scored False."""
    rewards = [[float("nan") if s.reward is None else s.reward for s in group.scores] for group in groups]
    rewards_PG = torch.tensor(rewards, dtype=torch.float64)
    return rewards_PG, ~rewards_PG.isnan()


def refuse_accepted_canaries(groups: Sequence[Group]) -> None:
    """Check that no canary was graded correct. No answer to a canary is right, so the verifier is broken or was fooled.

    Raises:
        UsageError: a completion of a prompt with `metadata["canary"] == "reject"` was graded correct; this stops the run.
    """
    for group in groups:
        for text, score in zip(group.texts, group.scores, strict=True):
            if group.canary and score.status is Status.CORRECT:
                raise UsageError(
                    f"source {group.source!r} paid {score.reward} for a canary ({score.grader}: {score.reason}): "
                    f"its verifier cannot be trusted, so training stops; prompt {group.prompt.key}, completion {text[:200]!r}"
                )


def verdict_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return mean reward, accuracy, lengths, times of verdicts and counts of failures, over all sources and for each source.

    Means of verdicts are over scored completions; without any, the metric is absent, not zero. A metric `status/STATUS` is the
    share of all completions whose verdict has the status STATUS; it is absent if there is no such completion.
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
        for status, count in sorted(Counter(score.status for score in scores).items()):
            metrics[f"{prefix}status/{status.value}"] = count / len(scores)
        lengths = [done.length for group in members for done in group.generated]
        metrics[f"{prefix}completion_tokens"] = sum(lengths) / len(lengths)
        metrics[f"{prefix}completion_tokens_max"] = max(lengths)
        metrics[f"{prefix}verdict_s"] = fmean(score.seconds for score in scores)
        metrics[f"{prefix}verdict_max_s"] = max(score.seconds for score in scores)
        if label:
            metrics[f"{prefix}completions"] = len(scores)
        metrics[f"{prefix}truncated"] = sum(sum(group.truncated) for group in members) / len(lengths)
        total = sum(logp for group in members for done in group.generated for logp in done.logprobs)
        metrics[f"{prefix}sampled_nll"] = -total / sum(lengths)
        equal = [not bool(centred(*reward_tensors([group])).any()) for group in members]
        metrics[f"{prefix}groups_without_signal"] = sum(equal) / len(equal)
    return metrics
