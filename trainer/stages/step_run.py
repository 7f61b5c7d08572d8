"""Training loop of the stages: resume from the newest checkpoint, train, evaluate on held-out examples, save, export."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints import store as checkpoint
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.checkpoints.run_record import record_start, record_threads
from verigym.trainer.checkpoints.tensors import save_tensors
from verigym.trainer.config.model import ChatFields
from verigym.trainer.distributed.sharded_checkpoint import restore
from verigym.trainer.learner.optimizers import build_optimizer, clipped_step, learning_rate
from verigym.trainer.logprobs.forward import ForwardOptions, checkpointing
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.loading import pick_device
from verigym.trainer.models.lora import export_policy, load_policy, save_policy
from verigym.trainer.monitoring.console import size
from verigym.trainer.monitoring.logs import RunLog, open_log
from verigym.trainer.monitoring.progress import Progress, StopRequest
from verigym.trainer.monitoring.trackers import require_trackers
from verigym.trainer.stages.config import FitFields, StepFields
from verigym.trainer.threads import use_threads

logger = logging.getLogger("verigym.trainer")


class Target(NamedTuple):
    """The least value of a metric of held-out examples at which a stage has done its work."""

    metric: str
    least: float


def reached(target: Target | None, metrics: Mapping[str, Any]) -> bool:
    """Return True if `metrics`, those of an evaluation or none, reach `target`."""
    return target is not None and metrics.get(target.metric, -math.inf) >= target.least


def prepare_stage(config: StepFields) -> None:
    """Make the stage's output folder.

    Raises:
        UsageError: the folder cannot be used, or the package of a logger is missing.
    """
    transformers.utils.logging.disable_progress_bar()
    require_trackers(config.loggers)
    checkpoint.prepare(config.output)


class StepRun(ABC):
    """Base of the stages that train in steps. A checkpoint holds weights, optimizer state and step, so resuming is exact."""

    def __init__(self, config: StepFields, inputs: Mapping[str, str], title: str) -> None:
        """Start, or resume from the newest checkpoint in the output folder.

        Args:
            config: the stage.
            inputs: hashes, by name, of everything else that affects the result, such as the examples.
            title: title of the progress bar.

        Raises:
            UsageError: the model or a checkpoint does not fit.
        """
        self.config: Any = config
        self.title = title
        self.checkpoints = config.output / "checkpoints"
        self.timer = checkpoint.Timer(config.checkpoint_minutes)
        self.inputs = dict(inputs)
        self.made_with = checkpoint.made_with(config, inputs)
        newest = checkpoint.latest(self.checkpoints, self.made_with, 10**9, config)
        self.device = pick_device(config.device)
        self.model, tokenizer = self.load(newest[0] if newest else None)
        self.threads = use_threads(self.model, config.threads, config.output, alike=True)
        chat = config if isinstance(config, ChatFields) else ChatFields()
        self.codec = Codec(tokenizer, getattr(self.model, "generation_config", None), chat.chat_template_kwargs)
        self.optimizer = build_optimizer(self.model.parameters(), config)
        self.done = 0
        self.resumed = newest is not None
        if newest:
            restore(newest[0], self.model, self.optimizer)
            self.done = newest[1].step

    @abstractmethod
    def load(self, checkpoint: Path | None) -> tuple[Any, Any]:
        """Return the model and its tokenizer, loaded from `checkpoint`, which `save` wrote.

        If `checkpoint` is None, return the initial model and its tokenizer.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model and its tokenizer into the checkpoint `folder`."""

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write the trained model to `folder`."""

    def run(
        self,
        steps: int,
        gradient: Callable[[int], dict[str, float]],
        evaluate: Callable[[], dict[str, float]] | None = None,
        target: Target | None = None,
    ) -> Path:
        """Train to the last step, or until an evaluation reaches the target, and return the final model's folder.

        Args:
            steps: number of all steps.
            gradient: adds the gradient of a step, counted from 0, to the parameters and returns the step's metrics.
            evaluate: returns the metrics of held-out examples; None if there are none.
            target: ends training at the first evaluation that reaches it.

        Raises:
            UsageError: more than `steps` steps have been done already.
            Interrupted: Ctrl-C, SIGTERM or SIGUSR1; the same call resumes.
        """
        config: StepFields = self.config
        if self.done > steps:
            raise UsageError(f"steps: the run in {config.output} has already done {self.done}, more than {steps}")
        checkpoint.write_config(config.output, config)
        record_start(config.output, self.made_with, {"model": model_digest(config.model), **self.inputs}, self.done)
        record_threads(config.output, "policy", self.threads)
        log = open_log(config, self.done if self.resumed else None)
        with StopRequest() as stop, Progress(steps, self.done, title=self.title, shown=("loss",)) as progress:
            try:
                numbers = size(sum(parameter.numel() for parameter in self.model.parameters()))
                going = f"; resuming from step {self.done}" if self.done else ""
                where = f"{self.device}, {self.threads}"
                progress.say(f"{self.title} of {config.model} ({numbers} parameters) on {where}: {steps} steps{going}")
                evaluated = {row["step"]: row for row in log.history() if row["kind"] == "eval"}
                metrics = evaluated.get(self.done) or self._evaluate_if_due(evaluate, log, steps, progress, target)
                while self.done < steps and not reached(target, metrics):
                    start = time.perf_counter()
                    of_step = self._step(self.done, steps, gradient)
                    self.done += 1
                    of_step["step_s"] = time.perf_counter() - start
                    log.metrics(self.done, "train", of_step)
                    progress.step(self.done, of_step)
                    # An evaluation that is due when the run stops is made when it resumes.
                    metrics = {} if stop.requested else self._evaluate_if_due(evaluate, log, steps, progress, target)
                    last = self.done == steps or reached(target, metrics)
                    by_step = stop.requested or last or self.done % config.checkpoint_every == 0
                    if by_step or self.timer.due:
                        self._save(by_time=not by_step)
                    if stop.requested:
                        raise stop.interrupted(f"{self.title}: stopped after step {self.done} of {steps}")
                if self.done < steps:
                    progress.say(f"{self.title}: the target is reached after step {self.done} of at most {steps}")
            finally:
                log.close()
        final = config.output / "final"
        self.export(final)
        return final

    def _step(self, step: int, steps: int, gradient: Callable[[int], dict[str, float]]) -> dict[str, float]:
        config = self.config
        rate = learning_rate(step, peak=config.learning_rate, warmup=config.warmup_steps, total=steps, schedule=config.schedule)
        self.optimizer.zero_grad(set_to_none=True)
        with checkpointing(self.model, config.gradient_checkpointing):
            metrics = gradient(step)
        norm = clipped_step(self.optimizer, rate, config.max_grad_norm, step)
        return {"learning_rate": rate, "grad_norm": norm, **metrics}

    def _evaluate_if_due(
        self,
        evaluate: Callable[[], dict[str, float]] | None,
        log: RunLog,
        steps: int,
        progress: Progress,
        target: Target | None,
    ) -> dict[str, float]:
        """Return the metrics of the held-out examples; none where no evaluation is due."""
        every = self.config.eval_every
        if evaluate is None or not every or (self.done % every and self.done != steps):
            return {}
        self.model.eval()
        with torch.no_grad():
            metrics = evaluate()
        log.metrics(self.done, "eval", metrics)
        least = {target.metric: f" of {target.least:g}"} if target else {}
        shown = "  ".join(f"{name} {value:.4f}{least.get(name, '')}" for name, value in metrics.items())
        progress.say(f"{self.title} step {self.done}/{steps}: held-out {shown}")
        return metrics

    def _save(self, by_time: bool) -> None:
        def write(folder: Path) -> None:
            self.save(folder)
            save_tensors(self.optimizer.state_dict(), folder / "optimizer.pt")

        keep = self.config.keep_checkpoints
        checkpoint.save(self.checkpoints, self.done, write, {}, self.made_with, keep, {}, by_time=by_time)
        self.timer.restart()


class PolicyRun(StepRun):
    """A stage that trains a causal language model, either all its weights or adapters."""

    config: FitFields

    def load(self, checkpoint: Path | None) -> tuple[Any, Any]:
        """Return the model and its tokenizer, loaded from `checkpoint`; the initial ones if it is None.

        See `lora.load_policy`.
        """
        return load_policy(self.config.model, self.config, self.config.seed, self.device, checkpoint)

    def save(self, folder: Path) -> None:
        """Write the model, or only its adapters, to `folder`."""
        save_policy(self.model, self.codec.tokenizer, folder)

    def export(self, folder: Path) -> None:
        """Write a model to `folder` that transformers can load."""
        export_policy(self.model, folder)
        self.codec.tokenizer.save_pretrained(folder)

    @property
    def how(self) -> ForwardOptions:
        """Return the options of the forward pass."""
        config = self.config
        return ForwardOptions(
            self.codec.pad_id, 1.0, config.dtype, config.micro_batch_tokens, shared_prefix=False, chunk=config.logprob_chunk
        )
