"""The training loop, top to bottom: sample, generate, grade while generating, advantages, loss, step, log, checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from verigym.envs.base import Environment
from verigym.envs.errors import UsageError
from verigym.envs.grading import Grader
from verigym.envs.schema import Prompt
from verigym.trainer import checkpoint
from verigym.trainer.bad_batch import save_bad_batch
from verigym.trainer.boards import require_boards
from verigym.trainer.config import TrainConfig
from verigym.trainer.evaluate import evaluate
from verigym.trainer.kl import KL_ESTIMATORS
from verigym.trainer.kl_reward import kl_penalties
from verigym.trainer.logs import RunLog, open_log, score_metrics
from verigym.trainer.mixture import Source, build_source
from verigym.trainer.objective import build_objective
from verigym.trainer.policy import checkpointing
from verigym.trainer.progress import Progress, StopRequest
from verigym.trainer.rollout import Group, collect, verdict_metrics
from verigym.trainer.rows import credits_of, training_rows
from verigym.trainer.stopwatch import Stopwatch
from verigym.trainer.tokens import Codec
from verigym.trainer.update import Objective, accumulate, forward_options, learning_rate, with_old_logprobs
from verigym.trainer.watch import build_watch, heed
from verigym.trainer.work import Batch, Work

logger = logging.getLogger("verigym.trainer")

COUNTS = ("trained_rows", "rows_with_advantage", "rows_with_gradient")
"""Metrics that are summed over the updates of one epoch; the others are means over all updates of a step."""


class Interrupted(Exception):
    """A person stopped the run; a checkpoint holds everything up to here."""


def train(config: TrainConfig, environments: Mapping[str, Environment] | None = None) -> Path:
    """Run GRPO to the end, or on from the newest checkpoint in `config.output`, and return the final model's folder.

    Args:
        config: the run.
        environments: environments made in Python, by the name that a source's `environment` uses.

    Raises:
        UsageError: the model, a source or a checkpoint does not fit the config.
        Interrupted: Ctrl-C; the same call goes on from there.
    """
    transformers.utils.logging.disable_progress_bar()
    if config.threads:
        torch.set_num_threads(config.threads)
    require_boards(config.loggers)
    checkpoint.prepare(config.output)
    sources = [build_source(source, config.seed, config.eval_prompts, environments) for source in config.sources]
    with checkpoint.locked(config.output), open_graders(sources, config) as graders:
        return _Run(config, sources, graders).run()


class _Run:
    def __init__(self, config: TrainConfig, sources: Sequence[Source], graders: Mapping[str, Grader]) -> None:
        self.config = config
        self.graders = graders
        self.clock = Stopwatch()
        self.credit = credits_of(config)
        self.checkpoints = config.output / "checkpoints"
        self.work = Work(config, sources, self.credit)
        self.identity = checkpoint.fingerprint(config, {source.label: source.environment.grader for source in sources})
        found = checkpoint.latest(self.checkpoints, self.identity, config.steps)
        self.device = pick_device(config.device)
        path = found[0] / "model" if found else config.model
        self.model, tokenizer = load_model(path, self.device)
        self.codec = Codec(tokenizer, self.model.generation_config)
        betas = config.adam_betas
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.learning_rate, betas=betas, weight_decay=config.weight_decay
        )
        self.done = 0
        self.resumed = found is not None
        if found:
            checkpoint.load_optimizer(found[0], self.optimizer)
            self.done = found[1].step
            self.work.restore(found[1].drawn, checkpoint.load_work(found[0]))
            logger.info("going on after step %d", self.done)
        room = getattr(self.model.config, "max_position_embeddings", None)
        if room is not None and config.max_new_tokens >= room:
            raise UsageError(f"max_new_tokens is {config.max_new_tokens}, but the model has {room} positions in all")
        self.objective = self._objective()

    def _objective(self) -> Objective:
        config = self.config
        reference = None
        if config.kl_coef > 0:
            reference, _ = load_model(config.model, self.device)
            reference.requires_grad_(False)
        limits: dict[str, Any] = {"max_new_tokens": config.max_new_tokens, "temperature": config.temperature}
        return build_objective(config, reference, **limits)

    def run(self) -> Path:
        config = self.config
        checkpoint.write_config(config.output, config)
        log = open_log(config, self.done if self.resumed else None)
        watch = build_watch(config, log.history())
        with StopRequest() as stop, Progress(config.steps, self.done) as progress:
            try:
                if self.done == 0 and config.eval_every:
                    self._evaluate(log, progress)
                while self.done < config.steps:
                    start = time.perf_counter()
                    with self.clock("generate_grade"):
                        batch = self._rollouts(self.done)
                    groups = batch.groups
                    metrics = {**score_metrics(batch.sampled), **verdict_metrics(batch.sampled), **batch.metrics}
                    with self.clock("update"):
                        metrics.update(self._update(self.done, groups))
                    metrics.update(self.clock.take(), step_s=time.perf_counter() - start)
                    self.done += 1
                    row = log.metrics(self.done, "train", metrics)
                    log.samples(self.done, "train", groups, config.samples_per_step, self.rows)
                    progress.step(self.done, metrics)
                    heed(watch.update(row), logger.warning, log.event)
                    last = self.done == config.steps
                    if config.eval_every and (last or self.done % config.eval_every == 0):
                        self._evaluate(log, progress)
                    if last or stop.requested or self.done % config.checkpoint_every == 0:
                        with self.clock("checkpoint"):
                            self._save()
                    if stop.requested and not last:
                        raise Interrupted(f"stopped after step {self.done} of {config.steps}")
            finally:
                log.close()
        final = config.output / "final"
        self.model.save_pretrained(final)
        self.codec.tokenizer.save_pretrained(final)
        return final

    def _save(self) -> None:
        checkpoint.save(
            self.checkpoints,
            self.done,
            self.model,
            self.codec.tokenizer,
            self.optimizer,
            self.work.mixture.drawn,
            self.identity,
            self.config.keep_checkpoints,
            self.work.state(),
        )

    def _rollouts(self, step: int) -> Batch:
        config = self.config
        self.model.eval()

        def sample(tasks: Sequence[tuple[Source, Prompt]], key: tuple[object, ...]) -> list[Group]:
            return collect(
                self.model,
                self.codec,
                lambda source: self.graders[source.label],
                tasks,
                samples=config.group_size,
                key=key,
                max_new_tokens=config.max_new_tokens,
                temperature=config.temperature,
                rows_at_a_time=config.generation_rows,
                dtype=config.dtype,
                clock=self.clock,
            )

        return self.work.step(step, sample, self._fits)

    def _fits(self, prompt: Prompt) -> bool:
        return len(self.codec.encode(prompt)) <= self.config.max_prompt_tokens

    def _update(self, step: int, groups: Sequence[Group]) -> dict[str, float]:
        config = self.config
        rate = learning_rate(
            step, peak=config.learning_rate, warmup=config.warmup_steps, total=config.steps, schedule=config.schedule
        )
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        forward = forward_options(config, self.codec.pad_id, config.dtype)
        penalties_PG, metrics = None, dict[str, float]()
        if config.kl_place == "reward" and config.kl_coef > 0 and groups:
            kl = KL_ESTIMATORS[config.kl_estimator]
            penalties_PG, metrics = kl_penalties(
                self.objective.reference, groups, kl, config.kl_coef, temperature=config.temperature, **forward
            )
        rows_by_group = training_rows(
            groups,
            self.credit,
            self.codec,
            mask_truncated=config.truncated == "mask",
            penalties_PG=penalties_PG,
            ratio_to_sampler=config.correction in (None, "opsm"),
        )
        self.rows = rows_by_group
        shares = config.updates_per_step
        if shares * config.epochs_per_step > 1:
            rows_by_group = with_old_logprobs(self.model, rows_by_group, self.objective, **forward)
        reports: dict[str, list[float]] = {}
        for number in range(shares * config.epochs_per_step):
            rows = [row for rows in rows_by_group[number % shares :: shares] for row in rows]
            self.optimizer.zero_grad(set_to_none=True)
            with checkpointing(self.model, config.gradient_checkpointing):
                parts = accumulate(self.model, rows, self.objective, **forward)
            if "loss" in parts:
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm)
                parts["grad_norm"] = float(norm)
                if torch.isfinite(norm):
                    self.optimizer.step()
                else:
                    logger.warning("step %d: the gradient is not finite; this update is left out", step + 1)
                    save_bad_batch(config.output / "bad_batches", step + 1, rows, parts, self.codec.decode)
            elif parts["trained_rows"] == 0:
                logger.warning("step %d: no completion could be trained on; the weights stay as they are", step + 1)
            for name, value in parts.items():
                reports.setdefault(name, []).append(value)
        # Counts add up, and every epoch has the same; the rest is a mean over the updates that reported it.
        metrics |= {name: sum(v) / (config.epochs_per_step if name in COUNTS else len(v)) for name, v in reports.items()}
        return {"learning_rate": rate, **metrics}

    def _evaluate(self, log: RunLog, progress: Progress) -> None:
        self.model.eval()
        with self.clock("evaluate"):
            metrics, groups = evaluate(self.model, self.codec, self.work.mixture.sources, self.graders, self.config)
        if groups:
            log.metrics(self.done, "eval", metrics)
            log.samples(self.done, "eval", groups, 4 * len(self.work.mixture.sources))
            progress.evaluated(self.done, metrics)


def pick_device(name: str) -> torch.device:
    """Return the device of that name; `auto` takes CUDA where there is one.

    Raises:
        UsageError: CUDA was asked for and is absent.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device: cuda was asked for, but torch sees no CUDA device here; use device=cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def load_model(path: str | Path, device: torch.device) -> tuple[Any, Any]:
    """Load a causal language model in fp32 and its tokenizer, from a local directory or the hub.

    Raises:
        UsageError: it is not there or cannot be loaded.
    """
    name = str(path)
    # A hub id has one slash at most, inside; asking the hub for anything else only costs its timeouts.
    if not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise UsageError(f"model: there is no directory {name!r}; give a local model directory or a hub id such as owner/name")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = " ".join(str(error).split())[:300]
        raise UsageError(f"model: {name!r} is neither a usable model directory nor reachable on the hub: {line}") from None
    return model.to(device), tokenizer


@contextmanager
def open_graders(sources: Sequence[Source], config: TrainConfig) -> Iterator[dict[str, Grader]]:
    """Give a grader for each source; one serves all, unless two sources set different options of one environment."""
    pools: list[dict[str, Environment]] = []
    chosen: dict[str, int] = {}
    for source in sources:
        environment = source.environment
        for number, pool in enumerate([*pools, None]):
            if pool is None:
                pools.append({environment.name: environment})
            elif pool.setdefault(environment.name, environment).grader != environment.grader:
                continue
            chosen[source.label] = number
            break
    limits: dict[str, Any] = {"timeout_s": config.grade_timeout_s, "memory_bytes": config.grade_memory_mb * 2**20}
    with ExitStack() as stack:
        graders = [stack.enter_context(Grader(pool, workers=config.workers, **limits)) for pool in pools]
        for grader in graders:
            grader.start()  # an environment that no worker can run is found now, not after the run
        yield {label: graders[number] for label, number in chosen.items()}
