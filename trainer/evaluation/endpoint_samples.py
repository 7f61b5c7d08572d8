"""Samples a model behind an endpoint: many requests at a time, each completion graded as soon as it has come."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, ScoreError
from verigym.envs.grading import Grader, grades_groups
from verigym.envs.judge.endpoint import look
from verigym.trainer.evaluation.config import HINTS, LOCAL_FIELDS, EndpointModel, EvalConfig
from verigym.trainer.evaluation.endpoint import Answered, Asker, RefusedSettings, ServerFailed
from verigym.trainer.monitoring.progress import Interrupted, Progress, StopRequest
from verigym.trainer.rollout.collect import gold_text
from verigym.trainer.rollout.episodes import EpisodeLimits
from verigym.trainer.rollout.graders import open_graders, open_sessions
from verigym.trainer.stages.sample_log import PromptSamples, Sample, SampleLog, TaskId, task_ids
from verigym.trainer.tasks.mixture import Source

logger = logging.getLogger("verigym.trainer")

PROMPT_TOKENS = "prompt_tokens"
"""Key in a prompt's metadata of a list: for each sample, the tokens that the server read for it."""
POLL_S = 0.2
"""Most seconds between two looks for verdicts and for a request to stop."""
STOPPED = ScoreError(kind="unavailable", message="the evaluation was stopped before the server answered", retryable=True)
ALONE = Score.failed("unavailable", "judged together with a sample that has not come", retryable=True)
UNGRADED = Score.failed("unavailable", "the evaluation was stopped before the verdict", retryable=True)


@dataclass
class _Row:
    """A prompt while its completions come in and are graded."""

    source: Source
    prompt: Prompt
    key: tuple[object, ...]
    place: int | None
    """In the log; None if it is not there."""
    samples: list[Sample | None]
    """None until the completion has come, or if it failed earlier and is asked for again."""
    read: list[int]
    """Prompt tokens of each sample."""
    waiting: set[int] = field(default_factory=set)
    """Samples whose verdicts are awaited."""
    changed: bool = False
    """Whether the log lacks something of it."""

    @property
    def ready(self) -> bool:
        """Return True if all samples have come and been graded."""
        return not self.waiting and None not in self.samples

    def logged(self, number: int) -> PromptSamples:
        """Return the row as the log stores it. A sample that has not come gets a failure, and is asked for by the next call."""
        samples = tuple(_absent() if sample is None else sample for sample in self.samples)
        metadata = {**self.prompt.metadata, PROMPT_TOKENS: self.read}
        prompt = self.prompt
        return PromptSamples(number, self.source.label, prompt.messages, prompt.key, metadata, samples, gold_text(prompt))


def _absent() -> Sample:
    failed = Score.failed(STOPPED.kind, STOPPED.message, retryable=True)
    return Sample("", 0, "abort", failed, episode=Completion(text="", finish_reason="abort", failure=STOPPED))


def sample_endpoint(
    config: EvalConfig,
    label: str,
    model: EndpointModel,
    sources: Sequence[Source],
    made: Mapping[str, Any],
) -> list[PromptSamples]:
    """Ask for the completions that `samples-LABEL.jsonl` lacks, grade them, and return the samples of all tasks.

    Completions without a verdict are graded again. Completions that the server refused are asked for again.

    Args:
        config: the evaluation.
        label: the model's name in the tables.
        model: the model and its server.
        sources: sources with their held-out prompts.
        made: settings that decide what samples of any model are; those of models on this machine are left out.

    Raises:
        UsageError: the server cannot be used, or refuses the settings. All that is finished is in the file.
        Interrupted: a signal, or the server no longer answers. All that is finished is in the file.
    """
    tasks = [(source, prompt) for source in sources for prompt in source.held_out]
    _refuse_plain(tasks)
    made = {name: value for name, value in made.items() if name not in LOCAL_FIELDS}
    made["model"] = model.model_dump(mode="json", include={"base_url", "model", "extra_body"})
    ids = task_ids((source.label, prompt.key) for source, prompt in tasks)
    limits = EpisodeLimits(config.max_turns, config.max_new_tokens, config.max_turn_tokens, config.max_context_tokens)
    asker = Asker(model, config.sampling_temperature)
    run = config.as_run(model.model)
    with (
        open_graders(sources, run) as graders,
        open_sessions(sources, run) as sessions,
        SampleLog(config.output / f"samples-{label}.jsonl", made, 1, len(tasks), HINTS) as log,
    ):

        def ask(row: _Row, number: int) -> Answered:
            key = (*row.key, number)
            if row.source.label in sessions:
                return asker.play(sessions[row.source.label], row.prompt, key, limits)
            return asker.complete(row.prompt, key, config.max_new_tokens)

        rows = _rows(config, tasks, ids, log)
        _Sampling(f"eval {label}", rows, graders, log, asker, ask, config.samples).run(model.concurrency)
        _put_in_order(log, ids)
        by_id = dict(zip(task_ids((p.source, p.prompt_key) for p in log.found), log.found, strict=True))
        return [replace(by_id[one], number=n, samples=by_id[one].samples[: config.samples]) for n, one in enumerate(ids)]


def usage(model: EndpointModel, found: Sequence[PromptSamples]) -> dict[str, Any]:
    """Return what the samples of a model cost in tokens, as its server counted them; episodes count every request."""
    return {
        "model": model.model,
        "base_url": model.base_url,
        "prompt_tokens": sum(sum(one.metadata[PROMPT_TOKENS][: len(one.samples)]) for one in found),
        "completion_tokens": sum(sample.tokens for one in found for sample in one.samples),
    }


def _refuse_plain(tasks: Sequence[tuple[Source, Prompt]]) -> None:
    for source, prompt in tasks:
        if prompt.metadata.get("plain"):
            raise UsageError(
                f"source {source.label!r}: its template is for models without a chat template, and an endpoint takes chat "
                "messages; give the source another template, or evaluate the model's folder"
            )


def _rows(config: EvalConfig, tasks: Sequence[tuple[Source, Prompt]], ids: Sequence[TaskId], log: SampleLog) -> list[_Row]:
    """Return a row of each task, with the samples that the log has."""
    place_of = {one: place for place, one in enumerate(task_ids((p.source, p.prompt_key) for p in log.found))}
    rows = []
    for (source, prompt), one in zip(tasks, ids, strict=True):
        place = place_of.get(one)
        samples: list[Sample | None] = [] if place is None else list(log.found[place].samples)
        read = [] if place is None else list(log.found[place].metadata[PROMPT_TOKENS])
        more = max(0, config.samples - len(samples))
        key = ("evaluation", config.seed, (one[0], one[2]), prompt.key)
        rows.append(_Row(source, prompt, key, place, [*samples, *[None] * more], [*read, *[0] * more]))
    return rows


def _put_in_order(log: SampleLog, ids: Sequence[TaskId]) -> None:
    """Order the log by task; prompts that are no longer tasks come last."""
    log.merge_replacements()
    by_id = dict(zip(task_ids((p.source, p.prompt_key) for p in log.found), log.found, strict=True))
    wanted = [by_id.pop(one) for one in ids]
    ordered = [replace(one, number=number) for number, one in enumerate([*wanted, *by_id.values()])]
    if ordered != log.found:
        log.reorder(ordered)


class _Sampling:
    """The requests of one model: threads ask, and the calling thread grades, writes and shows progress."""

    def __init__(
        self,
        title: str,
        rows: Sequence[_Row],
        graders: Mapping[str, Grader],
        log: SampleLog,
        asker: Asker,
        ask: Callable[[_Row, int], Answered],
        samples: int,
    ) -> None:
        self.title, self.rows, self.graders, self.log, self.asker, self.ask = title, rows, graders, log, asker, ask
        self.jobs: queue.SimpleQueue[tuple[_Row, int]] = queue.SimpleQueue()
        self.came: queue.SimpleQueue[tuple[_Row, int, Answered | BaseException]] = queue.SimpleQueue()
        self.verdicts: list[tuple[Future[Score], _Row, int]] = []
        self.asked = self.answered = self.tokens = 0
        self.again: list[tuple[_Row, list[int]]] = []
        """Rows with completions in the log that have no verdict because our side failed."""
        self.unfinished = []
        for row in rows:
            for number, sample in enumerate(row.samples[:samples]):
                if sample is None or sample.to_play_again:
                    row.samples[number] = None
                    self.jobs.put((row, number))
                    self.asked += 1
            self.again.append((row, [n for n, sample in enumerate(row.samples[:samples]) if sample and sample.to_retry]))
            if self.again[-1][1] or None in row.samples:
                self.unfinished.append(row)
        if again := sum(len(numbers) for _, numbers in self.again):
            logger.warning("%s: %d completions in %s have no verdict and are graded again", title, again, log.path.name)
        if (kept := sum(sample is not None for row in rows for sample in row.samples[:samples])) and self.asked:
            logger.warning("%s: %d samples of %s are kept; %d are added", title, kept, log.path.name, self.asked)

    def run(self, concurrency: int) -> None:
        """Ask, grade and write until every row is ready, with up to `concurrency` requests under way."""
        if self.asked:
            try:
                look(self.asker.model)
            except EnvironmentFailure as failure:
                raise UsageError(failure.message) from None
        finished = len(self.rows) - len(self.unfinished)
        with (
            StopRequest(ends="stopping") as stop,
            Progress(len(self.rows), finished, title=self.title, shown=("accuracy",), unit="prompt") as progress,
        ):
            try:
                for row, numbers in self.again:
                    self._grade(row, numbers)
                for _ in range(min(concurrency, self.asked)):
                    # Daemons: a request that is under way must not keep the process alive after a stop.
                    threading.Thread(target=self._work, daemon=True).start()
                while self.unfinished:
                    self._take()
                    self._finish(progress)
                    progress.present(self._so_far)
                    if stop.requested and self.unfinished:
                        raise stop.interrupted(self._stopped())
            except ServerFailed as gone:
                raise Interrupted(f"{self._stopped()}: {gone}", exit_code=1) from None
            except RefusedSettings as refused:
                raise UsageError(str(refused)) from None
            finally:
                self.asker.stopping.set()
                self._keep()

    def _work(self) -> None:
        """Ask for one completion after another until none is left."""
        while not self.asker.stopping.is_set():
            try:
                row, number = self.jobs.get_nowait()
            except queue.Empty:
                return
            try:
                self.came.put((row, number, self.ask(row, number)))
            except BaseException as error:  # the calling thread raises it
                self.came.put((row, number, error))
                return

    def _take(self) -> None:
        """Grade a completion that has come; wait a moment if none has."""
        try:
            row, number, answer = self.came.get(timeout=POLL_S)
        except queue.Empty:
            return
        if isinstance(answer, BaseException):
            raise answer
        self._place(row, number, answer)
        self._grade(row, [number])

    def _place(self, row: _Row, number: int, answer: Answered) -> None:
        completion, tokens = answer.completion, answer.completion_tokens
        failure = completion.failure
        score = UNGRADED if failure is None else Score.failed(failure.kind, failure.message, retryable=failure.retryable)
        episode = completion if completion.turns or failure else None
        row.samples[number] = Sample(completion.text, tokens, str(completion.finish_reason), score, episode=episode)
        row.read[number], row.changed = answer.prompt_tokens, True
        self.answered, self.tokens = self.answered + 1, self.tokens + tokens

    def _grade(self, row: _Row, numbers: Sequence[int]) -> None:
        """Submit samples for their verdicts; of an environment that grades groups, all samples once all have come.

        A failed sample has no verdict, and neither has its group, which would be another one without it.
        """
        grader, samples = self.graders[row.source.label], [sample for sample in row.samples if sample is not None]
        if grades_groups(row.source.environment):
            if not numbers or len(samples) < len(row.samples):
                return
            if any(sample.to_play_again for sample in samples):
                row.samples = [one if one.to_play_again else replace(one, score=ALONE) for one in samples]
                return
            found = dict(enumerate(grader.submit_group(row.prompt, list(map(_completion, samples)))))
        else:
            chosen = {number: row.samples[number] for number in numbers}
            found = {
                n: grader.submit(row.prompt, _completion(one)) for n, one in chosen.items() if one and not one.to_play_again
            }
        row.waiting.update(found)
        self.verdicts += [(future, row, number) for number, future in found.items()]

    def _finish(self, progress: Progress) -> None:
        """Take the verdicts that have come, and write the prompts that are ready."""
        awaited, self.verdicts = self.verdicts, []
        for future, row, number in awaited:
            if not future.done():
                self.verdicts.append((future, row, number))
                continue
            sample = row.samples[number]
            assert sample is not None
            row.samples[number] = replace(sample, score=future.result())
            row.waiting.discard(number)
            row.changed = True
        for row in [row for row in self.unfinished if row.ready]:
            self.unfinished.remove(row)
            self._write(row)
            done = [sample for sample in row.samples if sample is not None]
            scored = [sample for sample in done if sample.score.scored]
            accuracy = {"accuracy": sum(sample.correct for sample in scored) / len(scored)} if scored else {}
            metrics = {**accuracy, "unscored": len(done) - len(scored)}
            progress.step(len(self.rows) - len(self.unfinished), metrics, len(scored))

    def _write(self, row: _Row) -> None:
        if row.place is None:
            row.place = len(self.log.found)
            self.log.add([row.logged(row.place)])
        else:
            self.log.replace(row.place, row.logged(row.place))

    def _keep(self) -> None:
        """Write the prompts of which some samples have come, whatever ends the sampling."""
        while not self.came.empty():
            row, number, answer = self.came.get()
            if isinstance(answer, Answered):
                self._place(row, number, answer)
        for row in self.unfinished:
            if row.changed:
                self._write(row)

    def _stopped(self) -> str:
        kept = sum(sample is not None for row in self.unfinished for sample in row.samples)
        beside = f", {kept} completions of others are kept" if kept else ""
        return f"{self.title}: stopped after {len(self.rows) - len(self.unfinished)} of {len(self.rows)} prompts{beside}"

    def _so_far(self) -> str:
        said = f"asking: {self.answered} of {self.asked} completions, {self.tokens:,} tokens"
        failed = self.asker.failed
        return said + (f", {failed} requests failed and were sent again, the last: {self.asker.last_failure}" if failed else "")


def _completion(sample: Sample) -> Completion:
    """Return the completion of `sample` for its grader."""
    finished: Any = sample.finish_reason
    return sample.episode or Completion(text=sample.text, finish_reason=finished)
