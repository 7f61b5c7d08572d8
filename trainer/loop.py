"""The training loop, top to bottom: sample, generate, grade while generating, advantages, loss, step, log, checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import NoReturn, cast

import transformers

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Prompt
from verigym.envs.grading import Grader
from verigym.envs.sessions import Sessions
from verigym.trainer.batches.ahead import Ahead
from verigym.trainer.batches.builder import Batch, BatchBuilder, dump_batch, load_batch
from verigym.trainer.batches.stream import BuilderState, Position, Stream
from verigym.trainer.checkpoints import store
from verigym.trainer.checkpoints.input_hashes import input_hashes, refuse_changed
from verigym.trainer.checkpoints.run_record import record_start, record_threads
from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.torchrun import launched_rank
from verigym.trainer.distributed.world import SOLO, World, open_world
from verigym.trainer.engines.base import Engine, FreeEngine, engine_metrics
from verigym.trainer.engines.build import build_engine
from verigym.trainer.engines.snapshot import Snapshot
from verigym.trainer.learner.learner import Learner
from verigym.trainer.logprobs.forward import rows_reported
from verigym.trainer.models.loading import positions_of
from verigym.trainer.monitoring.console import GradingFailures, opening
from verigym.trainer.monitoring.first_look import first_look
from verigym.trainer.monitoring.grader_bugs import Causes, GraderBugs, refuse_silent
from verigym.trainer.monitoring.logs import RunLog, open_log, score_metrics
from verigym.trainer.monitoring.progress import BEFORE, Progress, StopRequest
from verigym.trainer.monitoring.reflection import reflection_metrics
from verigym.trainer.monitoring.watch import read_past, report_alarms, with_texts
from verigym.trainer.preflight import refuse_on_this_machine, refuse_unstartable
from verigym.trainer.rollout.collect import Dropped, Group, collect, verdict_metrics
from verigym.trainer.rollout.episode_metrics import episode_metrics
from verigym.trainer.rollout.episodes import build_episodes, with_room
from verigym.trainer.rollout.graders import open_graders, open_sessions
from verigym.trainer.rollout.held_out import evaluate
from verigym.trainer.stopwatch import Stopwatch
from verigym.trainer.tasks.answer_forms import with_templates
from verigym.trainer.tasks.mixture import Source, build_source
from verigym.trainer.tasks.too_long import check_tasks
from verigym.trainer.threads import own_threads

logger = logging.getLogger("verigym.trainer")


@own_threads()
def train(config: TrainConfig, environments: Mapping[str, Environment] | None = None) -> Path:
    """Train with GRPO and return the final model's folder.

    The run resumes from the newest checkpoint in `config.output` if there is one. Under torchrun all processes call this and
    train one model together; only the main process writes logs and the final model.

    Args:
        config: the run.
        environments: environments made in Python, by the name that a source's field `environment` gives.

    Raises:
        UsageError: the model, a source or a checkpoint does not fit the config, an alarm stops the run, or a source gave no
            verdict at all.
        Interrupted: by Ctrl-C, SIGTERM or SIGUSR1; the same call resumes the run.
    """
    transformers.utils.logging.disable_progress_bar()
    refuse_unstartable(config)
    refuse_on_this_machine(config)
    store.prepare(config.output)
    config = with_templates(config, [config.model], environments)
    with StopRequest(launched_rank() > 0, at_once=BEFORE) as stop:
        sources = [build_source(source, config.seed, config.eval_prompts, environments) for source in config.sources]
        with open_world(config) as world, store.locked(config.output, world):
            with open_graders(sources, config, world) as graders, open_sessions(sources, config, world) as sessions:
                run = Run(config, sources, graders, world, sessions)
                with closing(run.engine):
                    return run.run(stop)


class Run:
    """The state of a run between steps."""

    def __init__(
        self,
        config: TrainConfig,
        sources: Sequence[Source],
        graders: Mapping[str, Grader],
        world: World = SOLO,
        sessions: Mapping[str, Sessions] | None = None,
    ) -> None:
        """Begin a run, or resume from the newest checkpoint in the output folder.

        Args:
            config: the run.
            sources: the mixture.
            graders: grader of each source, by label.
            world: the processes that train together.
            sessions: sessions of each source that has episodes, by label.
        """
        self.config, self.world = config, world
        self.graders = graders
        self.clock = Stopwatch()
        self.checkpoints = config.output / "checkpoints"
        self.timer = store.Timer(config.checkpoint_minutes)
        self.made_with = store.made_with(config, {source.label: source.environment.grader for source in sources})
        checkpoint = world.first(lambda: store.latest(self.checkpoints, self.made_with, config.steps, config))
        self.contents = world.first(lambda: input_hashes(config, (source.environment for source in sources)))
        changed = checkpoint is not None and refuse_changed(checkpoint[1].contents, self.contents, config.changed_inputs)
        environments = {source.label: source.environment for source in sources}
        self.learner = Learner(config, checkpoint[0] if checkpoint else None, world, environments)
        self.codec = self.learner.codec
        self.positions = config.max_context_tokens or positions_of(self.learner.model)
        self.episodes = build_episodes(self.codec, sessions, config, self.positions)
        check_tasks(sources, self.codec, config.max_prompt_tokens, config.max_left_out)
        self.builder = BatchBuilder(config, sources, self.learner.credit)
        self.causes = Causes()
        self.ahead = Ahead()
        self.tell: Callable[[Callable[[], str]], None] | None = None
        """Shows how far the sampling of a batch is, unless it runs beside an update."""
        following = 0
        self.done = self.saved = 0
        self.resumed = checkpoint is not None
        if checkpoint:
            self.done = self.saved = checkpoint[1].step
            state = store.load_batch_state(checkpoint[0])
            self.builder.restore(checkpoint[1].drawn, state)
            following = state.get("following", self.done)
            if state.get("ahead"):
                self.ahead.put(load_batch(state["ahead"], environments))
            if changed:  # a broken grader may have been repaired
                self.builder.bugs = GraderBugs(config.broken_grader_share)
        roomy = with_room(config, sessions or {}, self.positions)
        policy = self.learner.sharded.inference_copy
        overlapped = config.overlap != "none" and not ENGINES[config.engine].own_weights
        self.snapshot = Snapshot(policy) if overlapped else None
        self.engine: Engine = build_engine(roomy, self.snapshot.model if self.snapshot else policy, self.codec, world)
        begin = Position(following, *self._builder_state())
        self.stream = Stream(config.max_staleness, begin, config.steps - self.done) if config.overlap == "free" else None

    def run(self, stop: StopRequest) -> Path:
        """Train to the last step and return the final model's folder.

        If a stop is requested, the present step is finished and saved in a checkpoint. SIGTERM leaves less time: if completions
        are being generated, they are dropped, and the resumed run repeats that step or evaluation with the same result.

        Args:
            stop: tells whether a stop was requested.

        Raises:
            Interrupted: the run has stopped.
        """
        config, world = self.config, self.world
        world.first(lambda: store.write_config(config.output, config))
        world.first(lambda: record_start(config.output, self.made_with, self.contents, self.done))
        world.first(lambda: record_threads(config.output, "policy", self.learner.threads))
        log = open_log(config, self.done if self.resumed else None, world)
        watch, first, evaluated = world.first(lambda: read_past(config, log.history()))
        stop.begin()
        failures = GradingFailures()
        with Progress(config.steps, self.done, not world.main) as progress:
            try:
                learner = self.learner
                self.tell = progress.present if config.overlap == "none" else None
                where = str(learner.device), str(learner.threads), world.size
                for line in opening(config, self.builder.mixture.sources, learner.model, *where, self.done):
                    progress.say(line)
                self._sync(self.done)
                if self.done not in evaluated:
                    self._evaluate_if_due(log, progress, stop)
                if self.stream is not None:
                    self.stream.start(self.rollouts, self._builder_state)
                while self.done < config.steps:
                    start = time.perf_counter()
                    batch = self._next_batch(stop, log)
                    rewarded = any((score.reward or 0) > 0 for group in batch.sampled for score in group.scores)
                    if not self.done and not (config.eval_every and rewarded):
                        self._look(batch.sampled, progress)
                    metrics = {**score_metrics(batch.sampled), **verdict_metrics(batch.sampled), **batch.metrics}
                    metrics |= episode_metrics(batch.sampled, self.positions)
                    metrics.update(reflection_metrics([text for group in batch.sampled for text in group.texts]))
                    metrics["length_growth"] = metrics["completion_tokens"] / first if first else 1.0
                    self._sample_ahead_or_rest()
                    learned, rows = self._update(batch, log, progress, stop)
                    if config.overlap == "one_step":
                        with self.clock("ahead_wait"):
                            self.ahead.finish()
                    with self.clock("sync"):
                        self._sync(self.done + 1)
                    metrics.update(learned, **engine_metrics(self.engine), **self.clock.take())
                    metrics["step_s"] = time.perf_counter() - start
                    self.done += 1
                    row = log.metrics(self.done, "train", metrics)
                    first = first or row["completion_tokens"]
                    log.samples(self.done, "train", batch.groups, config.samples_per_step, rows)
                    progress.step(self.done, metrics, metrics["completions"])
                    failures.add(batch.sampled)
                    self._record_causes(log, batch.sampled)
                    alarms = [self.causes.named(with_texts(alarm, batch.sampled)) for alarm in watch.update(row)]
                    report_alarms(alarms, logger.warning, log.event)
                    if world.any(stop.requested):  # an evaluation that is due now is made by the resumed run
                        self._stop(stop, log)
                    self._evaluate_if_due(log, progress, stop)
                    by_step = self.done == config.steps or self.done % config.checkpoint_every == 0
                    if by_step or world.any(world.main and self.timer.due):
                        with self.clock("checkpoint"):
                            self._save(log, by_time=not by_step)
                for line in failures.closing(log.history()):
                    progress.say(line)
            finally:
                self.ahead.abandon()
                if self.stream is not None:
                    self.stream.abandon()
                log.close()
        final = self.learner.export(config.output / "final")
        refuse_silent(self.builder.bugs.silent(), final)
        return final

    def _stop(self, stop: StopRequest, log: RunLog) -> NoReturn:
        """Save a checkpoint and end the run."""
        if self.done and self.done != self.saved:
            self._save(log)
        after = f"after step {self.done} of {self.config.steps}" if self.done else BEFORE
        raise stop.interrupted(f"stopped {after}")

    def _sync(self, step: int) -> None:
        """Give the engine the policy's weights, which have had `step` updates."""
        if self.snapshot is not None:
            self.snapshot.take()
        if self.stream is not None:
            cast(FreeEngine, self.engine).publish(step)
        else:
            self.engine.sync()

    def _builder_state(self) -> BuilderState:
        return self.builder.mixture.drawn, self.builder.state()

    def _next_batch(self, stop: StopRequest, log: RunLog) -> Batch:
        if self.stream is None:
            return self.ahead.take() or self._rollouts_or_stop(stop, log)
        try:
            with self.clock("ahead_wait"):
                return self.stream.take(self.done, self.config.max_staleness, lambda: stop.urgent)
        except Dropped:
            self._stop(stop, log)

    def _sample_ahead_or_rest(self) -> None:
        """With `one_step`, begin to sample the next batch; without overlap, let the engine release memory for the update."""
        following = self.done + 1
        if self.stream is not None:
            return
        if self.config.overlap == "none" or following == self.config.steps:
            self.engine.rest()
            return
        # On a request to stop it is finished, for the checkpoint of this step holds it.
        self.ahead.start(lambda give_up: self.rollouts(following, give_up).off_policy())

    def _rollouts_or_stop(self, stop: StopRequest, log: RunLog) -> Batch:
        if self.world.size > 1:  # the processes would have to agree
            return self.rollouts(self.done)
        self.before = dict(self.builder.mixture.drawn), self.builder.state()
        try:
            return self.rollouts(self.done, lambda: stop.urgent)
        except Dropped:
            self._repeat_later(stop, log)

    def _repeat_later(self, stop: StopRequest, log: RunLog) -> NoReturn:
        """End the run in the middle of a step, which the resumed run repeats with the same result."""
        self.builder.restore(*self.before)
        self._stop(stop, log)

    def _update(
        self, batch: Batch, log: RunLog, progress: Progress, stop: StopRequest
    ) -> tuple[dict[str, float], list[list[TrainingRow]]]:
        """Train on a batch; see `Learner.update`. SIGTERM ends it between micro-batches, until it has changed weights."""
        may_end = self.world.size == 1 and self.config.overlap == "none"

        def between(done: int, of: int) -> None:
            if may_end and stop.urgent and not self.learner.changed:
                raise Dropped
            progress.present(lambda: f"updating: {done} of {of} completions")

        try:
            with self.clock("update"), rows_reported(between):
                return self.learner.update(self.done, batch.groups)
        except Dropped:
            self._repeat_later(stop, log)

    def _look(self, groups: Sequence[Group], progress: Progress) -> None:
        """Say what the first samples show about the prompts; see `first_look`."""
        if self.world.main:
            for line in first_look(groups, self.builder.mixture.sources, self.graders):
                progress.say(line)

    def _save(self, log: RunLog, by_time: bool = False) -> None:
        log.sync()
        self.saved = self.done
        drawn, state = self._builder_state()
        if self.stream is not None:  # what is sampled ahead of the updates is sampled again
            drawn, state = (
                self.stream.position.drawn,
                {**self.stream.position.state, "following": self.stream.position.following},
            )
        store.save(
            self.checkpoints,
            self.done,
            self.learner.save,
            drawn,
            self.made_with,
            self.config.keep_checkpoints,
            {**state, "ahead": self.ahead.batch and dump_batch(self.ahead.batch)},
            self.world,
            self.contents,
            by_time,
        )
        self.timer.restart()

    def rollouts(self, step: int, give_up: Callable[[], bool] = lambda: False) -> Batch:
        """Return the batch of graded rollouts for training step `step`, counted from 0; for `give_up` see `collect`."""
        config = self.config

        def sample(tasks: Sequence[tuple[Source, Prompt]], key: tuple[object, ...]) -> list[Group]:
            return collect(
                self.engine,
                self.codec,
                lambda source: self.graders[source.label],
                tasks,
                samples=config.group_size,
                key=key,
                max_new_tokens=config.max_new_tokens,
                temperature=config.temperature,
                clock=self.clock,
                world=self.world,
                give_up=give_up,
                episodes=self.episodes,
                sampling=self.learner.sampling,
                tell=self.tell,
            )

        with self.clock("generate_grade"):
            return self.builder.step(step, sample, self._fits)

    def _fits(self, prompt: Prompt) -> bool:
        return len(self.codec.encode(prompt)) <= self.config.max_prompt_tokens

    def _record_causes(self, log: RunLog, groups: Sequence[Group]) -> None:
        for cause in self.causes.new(self.done, groups):  # the grader has logged it
            log.event(cause.row)

    def _evaluate_if_due(self, log: RunLog, progress: Progress, stop: StopRequest) -> None:
        config = self.config
        if not config.eval_every or (self.done % config.eval_every and self.done != config.steps):
            return
        alone = self.world.size == 1
        paused = nullcontext() if self.stream is None else self.stream.paused(lambda: stop.urgent)
        try:
            with paused, self.clock("evaluate"):
                if self.stream is not None:
                    cast(FreeEngine, self.engine).settle()
                metrics, groups = evaluate(
                    self.engine,
                    self.codec,
                    self.builder.mixture.sources,
                    self.graders,
                    config,
                    self.world,
                    lambda: alone and stop.urgent,
                    self.episodes,
                    self.learner.sampling,
                    progress.present,
                )
        except Dropped:
            self._stop(stop, log)
        if groups:
            log.metrics(self.done, "eval", metrics)
            self._record_causes(log, groups)
            log.samples(self.done, "eval", groups, 4 * len(self.builder.mixture.sources))
            progress.evaluated(self.done, metrics)
            if not self.done:
                self._look(groups, progress)
        if self.world.any(stop.requested):
            self._stop(stop, log)
