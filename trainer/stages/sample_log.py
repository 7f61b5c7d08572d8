"""Stores graded completions in a file, block by block, so that sampling resumes where it was stopped."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

from verigym.envs.contract.schema import Completion, Message, Prompt, Score, Status
from verigym.envs.contract.session import opens_sessions
from verigym.envs.grading import Grader, grades_groups
from verigym.trainer.checkpoints.store import fingerprint, refuse_other
from verigym.trainer.engines.base import Engine, Thought
from verigym.trainer.models.codec import Codec
from verigym.trainer.monitoring.first_look import first_look
from verigym.trainer.monitoring.progress import Progress, StopRequest
from verigym.trainer.rollout.collect import Dropped, Group, collect, gold_text
from verigym.trainer.rollout.episodes import Episodes
from verigym.trainer.stages.kept_completions import KeepingEngine, KeptCompletions
from verigym.trainer.tasks.mixture import Source

logger = logging.getLogger("verigym.trainer")

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """A completion with its verdict."""

    text: str
    tokens: int
    finish_reason: str
    score: Score
    thought: Thought | None = None
    """With a thinking budget."""
    episode: Completion | None = None
    """The completion with all its turns, if the environment has episodes; `text` is then the last turn."""

    @property
    def correct(self) -> bool:
        """Return True if the verdict is correct; False without a verdict."""
        return self.score.status is Status.CORRECT

    @property
    def to_retry(self) -> bool:
        """Return True if there is no verdict and grading again may give one.

        The result is False if the task's gold answer is invalid, or if the episode must be played again.
        """
        return self.score.error is not None and self.score.error.kind != "gold_invalid" and not self.to_play_again

    @property
    def to_play_again(self) -> bool:
        """Return True if this is an episode that failed because of verigym, not because of the model."""
        return self.episode is not None and self.episode.failure is not None


@dataclass(frozen=True)
class PromptSamples:
    """A prompt and its samples."""

    number: int
    """Of the task, counted from 0."""
    source: str
    messages: tuple[Message, ...]
    prompt_key: str
    metadata: Mapping[str, Any]
    samples: tuple[Sample, ...]
    gold: str | None = None
    """The reference answer as text; see `gold_text`."""


def samples_of_group(number: int, group: Group) -> PromptSamples:
    """Return `group` as the log stores it, with `number` as the task's number."""
    episodes = group.episodes or (None,) * len(group.texts)
    rows = zip(group.texts, group.generated, group.scores, episodes, strict=True)
    samples = tuple(
        Sample(text, one.length, one.finish_reason, score, one.thought, played) for text, one, score, played in rows
    )
    prompt = group.prompt
    return PromptSamples(number, group.source, prompt.messages, prompt.key, dict(prompt.metadata), samples, gold_text(prompt))


class BlockLog(AbstractContextManager["BlockLog[T]"], Generic[T]):
    """File of finished prompts, one per line, from which an interrupted stage continues.

    The first line holds the settings with which the other lines were made. Replacements of lines are first written to a second
    file, `FILE.retried`, in the same folder; `merge_replacements` moves them into the file itself.
    """

    def __init__(
        self,
        path: Path,
        made: Mapping[str, Any],
        block: int,
        total: int,
        dump: Callable[[T], dict[str, Any]],
        load: Callable[[dict[str, Any]], T],
        hints: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Open the file, or make it if it does not exist.

        Lines after the last complete block are dropped, such as a line that a kill cut short.

        Args:
            path: the file.
            made: all settings that decide the content of the lines, as JSON data.
            block: number of prompts that are written together; the samples depend on where blocks begin.
            total: number of prompts in a finished file.
            dump: turns a prompt into a JSON object.
            load: turns the object back into the prompt.
            hints: advice for the error message, by the name of a setting. It is added if the file was made with another value
                of the setting.

        Raises:
            UsageError: the file was made with other settings.
        """
        self.path, self._dump, self._load = path, dump, load
        self.found: list[T] = []
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        lines = [line for line in lines if line.endswith(b"\n")]
        head = json.loads(lines[0]) if lines else {}
        if lines and head.get("identity") != fingerprint(made):
            then = head.get("made_with", {})
            told = [hint for name, hint in hints.items() if name in then and then[name] != made[name]]
            refuse_other(path, then, made, "; ".join(["set `output` to a new folder", *told]))
        whole = len(lines) - 1 if len(lines) - 1 == total else (len(lines) - 1) // block * block
        kept = lines[: 1 + max(0, whole)]
        self.found = [load(json.loads(line)) for line in kept[1:]]
        self._file = path.open("ab")
        self._file.truncate(sum(map(len, kept)))
        if not kept:
            self._write([{"identity": fingerprint(made), "made_with": dict(made)}])
        self.identity = fingerprint(made)
        self._head = {"identity": self.identity, "made_with": dict(made)}
        self._beside = path.with_name(f"{path.name}.retried")
        if self._beside.exists():
            self._apply_replacements()

    def add(self, prompts: Sequence[T]) -> None:
        """Append `prompts`; they are on disk when this returns."""
        self.found.extend(prompts)
        self._write([self._dump(one) for one in prompts])

    def replace(self, place: int, one: T) -> None:
        """Replace the prompt at index `place` by `one`; the change is on disk when this returns."""
        self.found[place] = one
        with self._beside.open("ab") as file:
            file.write((json.dumps({"place": place, "by": self._dump(one)}) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def merge_replacements(self) -> None:
        """Rewrite the file with all replacements, in one atomic step."""
        if self._beside.exists():
            self._rewrite()
            self._beside.unlink()

    def reorder(self, found: Sequence[T]) -> None:
        """Rewrite the file, in one atomic step, in the order of `found`, which holds the same prompts in another order."""
        self.merge_replacements()  # it names places
        self.found = list(found)
        self._rewrite()

    def _rewrite(self) -> None:
        self._file.close()
        whole = self.path.with_name(f".{self.path.name}")
        self._file = whole.open("wb")
        self._write([self._head, *map(self._dump, self.found)])
        os.replace(whole, self.path)

    def _apply_replacements(self) -> None:
        """Apply the replacements of a run that was stopped before it merged them."""
        for line in self._beside.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n") and (entry := json.loads(line))["place"] < len(self.found):
                self.found[entry["place"]] = self._load(entry["by"])
        self.merge_replacements()

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


class SampleLog(BlockLog[PromptSamples]):
    """A log of prompts with their samples."""

    def __init__(
        self, path: Path, made: Mapping[str, Any], block: int, total: int, hints: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(path, made, block, total, _dump, _load, hints)


def _dump(one: PromptSamples) -> dict[str, Any]:
    return {
        "number": one.number,
        "source": one.source,
        "messages": [message.model_dump() for message in one.messages],
        "prompt_key": one.prompt_key,
        "metadata": dict(one.metadata),
        "gold": one.gold,
        "samples": [_dump_sample(sample) for sample in one.samples],
    }


def _dump_sample(sample: Sample) -> list[Any]:
    score = sample.score.model_dump(mode="json", exclude_defaults=True)
    row: list[Any] = [sample.text, sample.tokens, sample.finish_reason, score]
    thought = asdict(sample.thought) if sample.thought else None
    if sample.episode is not None:
        return [*row, thought, sample.episode.model_dump(mode="json")]
    return [*row, thought] if thought else row


def _load(row: Mapping[str, Any]) -> PromptSamples:
    samples = (
        Sample(
            text,
            tokens,
            reason,
            Score.model_validate(score),
            Thought(**more[0]) if more and more[0] else None,
            Completion(**more[1]) if len(more) > 1 else None,
        )
        for text, tokens, reason, score, *more in row["samples"]
    )
    messages = tuple(Message(**message) for message in row["messages"])
    return PromptSamples(
        row["number"], row["source"], messages, row["prompt_key"], row["metadata"], tuple(samples), row.get("gold")
    )


def read_samples(path: Path) -> list[PromptSamples]:
    """Return the prompts and samples of a finished file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [_load(row) for row in rows]


TaskId = tuple[str, str, int]
"""Id of a task: its source, the key of its prompt, and the number of earlier tasks with the same source and key."""


def task_ids(pairs: Iterable[tuple[str, str]]) -> list[TaskId]:
    """Return a unique id for each task. In another order of the tasks, the set of ids is the same.

    Args:
        pairs: source and key of each task's prompt.
    """
    seen = Counter[tuple[str, str]]()
    found = []
    for source, key in pairs:
        found.append((source, key, seen[source, key]))
        seen[source, key] += 1
    return found


def sample_all(
    engine: Engine,
    codec: Codec,
    graders: Mapping[str, Grader],
    tasks: Sequence[tuple[Source, Prompt]],
    log: SampleLog,
    *,
    samples: int,
    key: tuple[object, ...],
    max_new_tokens: int,
    temperature: float,
    prompts_at_a_time: int,
    by_place: bool = True,
    title: str = "sampling",
    episodes: Episodes | None = None,
) -> list[PromptSamples]:
    """Sample and grade the completions that `log` lacks, and return the samples of all tasks.

    Completions in the log without a verdict are graded again. Prompts in the log that are not in `tasks`, and samples beyond
    the number `samples`, stay in the log and are not returned.

    Args:
        engine: samples from the model; its weights must be up to date (`Engine.sync`).
        codec: the model's tokenizer.
        graders: grader of each source, by label.
        tasks: sources and prompts, in order.
        log: file of finished prompts.
        samples: completions per prompt.
        key: key of the randomness.
        max_new_tokens: most tokens of a completion.
        temperature: 0 is greedy.
        prompts_at_a_time: number of prompts between two writes.
        by_place: if True, the randomness key of a task contains the task's index in `tasks`. If False, the key contains the
            task's source instead, so that tasks or samples can be added to a log later. If samples are added, an environment
            that grades groups grades all samples of a prompt again.
        title: title of the progress bar.
        episodes: see `collect`. An episode that failed because of verigym, not because of the model, is played again.

    Raises:
        Interrupted: Ctrl-C, SIGTERM or SIGUSR1; finished prompts are in the log, and finished completions of other prompts
            in a file beside it (episodes of several turns are not kept).
    """
    ids = task_ids((source.label, prompt.key) for source, prompt in tasks)
    place_of = {one: place for place, one in enumerate(task_ids((p.source, p.prompt_key) for p in log.found))}
    first_of = [_first_to_sample(source, place_of.get(one), log, samples) for (source, _), one in zip(tasks, ids, strict=True)]
    missing = sorted((n for n, first in enumerate(first_of) if first < samples), key=lambda n: -first_of[n])
    done = len(tasks) - len(missing)
    _describe_log(log, place_of, ids, samples, title)
    one_turn = not any(opens_sessions(source.environment) for source, _ in tasks)
    looked = bool(log.found)
    with (
        StopRequest(ends="stopping" if one_turn else None) as stop,
        Progress(len(tasks), done, title=title, shown=("accuracy",), unit="prompt") as progress,
        KeptCompletions(log.path.with_name(f"{log.path.name}.unfinished"), log.identity) as kept,
    ):
        keeping = KeepingEngine(engine, kept)
        known = {place_of[one]: task for one, task in zip(ids, tasks, strict=True) if one in place_of}
        _grade_again(codec, graders, known, log, prompts_at_a_time, stop, title)
        for first, numbers in _batches(missing, first_of, prompts_at_a_time):
            try:
                groups = collect(
                    keeping,
                    codec,
                    lambda source: graders[source.label],
                    [tasks[n] for n in numbers],
                    samples=samples,
                    key=(*key, numbers[0]) if by_place else key,
                    max_new_tokens=max_new_tokens,
                    temperature=temperature,
                    first=first,
                    names=None if by_place else [(ids[n][0], ids[n][2]) for n in numbers],
                    give_up=lambda: stop.urgent or (one_turn and stop.requested),
                    episodes=episodes,
                    tell=progress.present,
                )
            except Dropped:
                beside = f", {len(kept.found)} completions of the next ones are kept" if kept.found else ""
                raise stop.interrupted(f"{title}: stopped after {done} of {len(tasks)} prompts{beside}") from None
            found = [samples_of_group(n, group) for n, group in zip(numbers, groups, strict=True)]
            log.add([one for one in found if ids[one.number] not in place_of])
            for one in found:
                if (place := place_of.get(ids[one.number])) is not None:
                    log.replace(place, replace(one, samples=(*log.found[place].samples[:first], *one.samples)))
            kept.clear()
            if not looked:
                looked = True
                for line in first_look(groups, {source.label: source for source, _ in tasks}.values(), graders):
                    progress.say(line)
            done += len(numbers)
            scored = [sample for one in found for sample in one.samples if sample.score.scored]
            accuracy = {"accuracy": sum(sample.correct for sample in scored) / len(scored)} if scored else {}
            unscored = sum(len(one.samples) for one in found) - len(scored)
            progress.step(done, {**accuracy, "unscored": unscored}, len(scored))
            if stop.requested and done < len(tasks):
                raise stop.interrupted(f"{title}: stopped after {done} of {len(tasks)} prompts")
    if missing:
        _put_in_order(log, ids)
    by_id = dict(zip(task_ids((p.source, p.prompt_key) for p in log.found), log.found, strict=True))
    return [replace(by_id[one], number=n, samples=by_id[one].samples[:samples]) for n, one in enumerate(ids)]


def _first_to_sample(source: Source, place: int | None, log: SampleLog, samples: int) -> int:
    """Return the number of a task's first sample that the log lacks; `samples` or more if it has all."""
    have = 0
    if place is not None:
        found = log.found[place].samples
        have = next((number for number, sample in enumerate(found) if sample.to_play_again), len(found))
    return 0 if have < samples and grades_groups(source.environment) else have


def _batches(numbers: Sequence[int], first_of: Sequence[int], size: int) -> Iterator[tuple[int, list[int]]]:
    """Yield batches of up to `size` tasks that lack the same samples, each with the number of the first of these samples."""
    for first, alike in groupby(numbers, key=lambda n: first_of[n]):
        members = list(alike)
        yield from ((first, members[start : start + size]) for start in range(0, len(members), size))


def _describe_log(log: SampleLog, place_of: Mapping[TaskId, int], ids: Sequence[TaskId], samples: int, title: str) -> None:
    """Warn of samples in the log that are not asked for, and say how many are there if more are to be added."""
    used = [log.found[place_of[one]] for one in ids if one in place_of]
    kept = sum(min(samples, len(one.samples)) for one in used)
    more = sum(len(one.samples) for one in log.found) - kept
    if more:
        logger.warning(
            "%s: %d samples of %s are not asked for; they stay there, and are in no figure", title, more, log.path.name
        )
    if kept and any(len(one.samples) < samples for one in used):
        logger.warning("%s: %d samples of %s are kept; %d are added", title, kept, log.path.name, samples * len(ids) - kept)


def _put_in_order(log: SampleLog, ids: Sequence[TaskId]) -> None:
    """Order the log as if its tasks had been sampled together; prompts that are no longer tasks come last."""
    log.merge_replacements()
    by_id = dict(zip(task_ids((p.source, p.prompt_key) for p in log.found), log.found, strict=True))
    wanted = [by_id.pop(one) for one in ids]
    ordered = [replace(one, number=number) for number, one in enumerate([*wanted, *by_id.values()])]
    if ordered != log.found:
        log.reorder(ordered)


def _grade_again(
    codec: Codec,
    graders: Mapping[str, Grader],
    tasks: Mapping[int, tuple[Source, Prompt]],
    log: SampleLog,
    prompts_at_a_time: int,
    stop: StopRequest,
    title: str,
) -> None:
    """Grade again the completions of the log that have no verdict because our side failed; all others stay.

    Args:
        codec: the model's tokenizer.
        graders: grader of each source, by label.
        tasks: tasks by their index in the log.
        log: holds the completions.
        prompts_at_a_time: number of prompts between two writes.
        stop: tells whether to stop early.
        title: prefix of messages.
    """
    places = [place for place in sorted(tasks) if any(sample.to_retry for sample in log.found[place].samples)]
    if not places:
        return
    count = sum(sample.to_retry for place in places for sample in log.found[place].samples)
    of = sum(len(log.found[place].samples) for place in tasks)
    logger.warning("%s: %d of %d completions in %s have no verdict and are graded again", title, count, of, log.path.name)
    for start in range(0, len(places), prompts_at_a_time):
        regraded = {}
        for place in places[start : start + prompts_at_a_time]:
            source, prompt = tasks[place]
            texts = {number: _completion(sample, codec, prompt) for number, sample in enumerate(log.found[place].samples)}
            if grades_groups(source.environment):
                futures = dict(enumerate(graders[source.label].submit_group(prompt, list(texts.values()))))
            else:
                again = [number for number in texts if log.found[place].samples[number].to_retry]
                futures = {number: graders[source.label].submit(prompt, texts[number]) for number in again}
            regraded[place] = futures
        waiting = {future for futures in regraded.values() for future in futures.values()}
        while waiting and not stop.urgent:
            waiting = wait(waiting, timeout=0.5).not_done
        if not waiting:
            for place, futures in regraded.items():
                samples = list(log.found[place].samples)
                for number, future in futures.items():
                    if samples[number].to_retry:
                        samples[number] = replace(samples[number], score=future.result())
                log.replace(place, replace(log.found[place], samples=tuple(samples)))
        if stop.requested:
            raise stop.interrupted(f"{title}: stopped while completions without a verdict were graded again")
    log.merge_replacements()


def _completion(sample: Sample, codec: Codec, prompt: Prompt) -> Completion:
    """Return the completion of `sample` for its grader. The log keeps no tokens, so the text is encoded again."""
    finished: Any = sample.finish_reason
    token_ids = codec.encode_completion(codec.encode(prompt), sample.text)
    return Completion(text=sample.text, token_ids=token_ids, finish_reason=finished)
