"""The training loop, top to bottom: sample, generate, grade while generating, advantages, loss, step, log, checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from verigym.envs.base import Environment
from verigym.envs.errors import UsageError
from verigym.envs.grading import Grader
from verigym.envs.schema import Prompt
from verigym.trainer import checkpoint
from verigym.trainer.advantages import ADVANTAGES
from verigym.trainer.config import TrainConfig
from verigym.trainer.evaluate import evaluate
from verigym.trainer.kl import KL_ESTIMATORS
from verigym.trainer.logs import RunLog
from verigym.trainer.losses import LOSSES, clipped
from verigym.trainer.mixture import Mixture, Source, build_source
from verigym.trainer.progress import Progress, StopRequest
from verigym.trainer.rollout import Group, collect, refuse_accepted_canaries, training_rows, verdict_metrics
from verigym.trainer.tokens import Codec
from verigym.trainer.update import Objective, accumulate, learning_rate, policy_logprobs

logger = logging.getLogger("verigym.trainer")

COUNTS = ("trained_rows", "rows_with_gradient")
"""Metrics that are summed over the updates of a step; the others are means."""


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
    checkpoint.prepare(config.output)
    sources = [build_source(source, config.seed, config.eval_prompts, environments) for source in config.sources]
    with checkpoint.locked(config.output), open_graders(sources, config) as graders:
        return _Run(config, sources, graders).run()


class _Run:
    def __init__(self, config: TrainConfig, sources: Sequence[Source], graders: Mapping[str, Grader]) -> None:
        self.config = config
        self.graders = graders
        self.checkpoints = config.output / "checkpoints"
        self.mixture = Mixture(sources, config.seed)
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
            self.mixture.restore(found[1].drawn)
            logger.info("going on after step %d", self.done)
        room = getattr(self.model.config, "max_position_embeddings", None)
        if room is not None and config.max_new_tokens >= room:
            raise UsageError(f"max_new_tokens is {config.max_new_tokens}, but the model has {room} positions in all")
        self.objective = self._objective()

    def _objective(self) -> Objective:
        config = self.config
        loss = LOSSES[config.loss]
        if config.loss == "clipped":

            def loss(logp: Any, old: Any, advantages: Any) -> Any:
                return clipped(logp, old, advantages, clip_low=config.clip_low, clip_high=config.clip_high)

        reference = None
        if config.kl_coef > 0:
            reference, _ = load_model(config.model, self.device)
            reference.requires_grad_(False)
        return Objective(
            loss=loss,
            aggregation=config.aggregation,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            kl_coef=config.kl_coef,
            kl=KL_ESTIMATORS[config.kl_estimator],
            reference=reference,
        )

    def run(self) -> Path:
        config = self.config
        checkpoint.write_config(config.output, config)
        log = RunLog(config.output, self.done if self.resumed else None)
        with StopRequest() as stop, Progress(config.steps, self.done) as progress:
            try:
                if self.done == 0 and config.eval_every:
                    self._evaluate(log, progress)
                while self.done < config.steps:
                    start = time.perf_counter()
                    groups = self._rollouts(self.done)
                    refuse_accepted_canaries(groups)
                    metrics = verdict_metrics(groups)
                    metrics["generate_grade_s"] = time.perf_counter() - start
                    metrics.update(self._update(self.done, groups))
                    metrics["step_s"] = time.perf_counter() - start
                    self.done += 1
                    log.metrics(self.done, "train", metrics)
                    log.samples(self.done, "train", groups, config.samples_per_step)
                    progress.step(self.done, metrics)
                    last = self.done == config.steps
                    if config.eval_every and (last or self.done % config.eval_every == 0):
                        self._evaluate(log, progress)
                    if last or stop.requested or self.done % config.checkpoint_every == 0:
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
            self.mixture.drawn,
            self.identity,
            self.config.keep_checkpoints,
        )

    def _rollouts(self, step: int) -> list[Group]:
        config = self.config
        tasks = self.mixture.batch(step, config.prompts_per_step, fits=self._fits)
        self.model.eval()
        return collect(
            self.model,
            self.codec,
            lambda source: self.graders[source.label],
            tasks,
            samples=config.group_size,
            key=("train", config.seed, step),
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            rows_at_a_time=config.generation_rows,
            dtype=config.dtype,
        )

    def _fits(self, prompt: Prompt) -> bool:
        return len(self.codec.encode(prompt)) <= self.config.max_prompt_tokens

    def _update(self, step: int, groups: Sequence[Group]) -> dict[str, float]:
        config = self.config
        rate = learning_rate(
            step, peak=config.learning_rate, warmup=config.warmup_steps, total=config.steps, schedule=config.schedule
        )
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        rows_by_group = training_rows(groups, ADVANTAGES[config.advantage], mask_truncated=config.truncated == "mask")
        budget = {"token_budget": config.micro_batch_tokens, "pad_id": self.codec.pad_id, "dtype": config.dtype}
        shares = config.updates_per_step
        if shares > 1:
            flat = [row for rows in rows_by_group for row in rows]
            old = iter(policy_logprobs(self.model, flat, temperature=config.temperature, **budget))  # type: ignore[arg-type]
            rows_by_group = [[replace(row, old_logprobs=next(old)) for row in rows] for rows in rows_by_group]
        reports: dict[str, list[float]] = {}
        for share in range(shares):
            rows = [row for rows in rows_by_group[share::shares] for row in rows]
            self.optimizer.zero_grad(set_to_none=True)
            parts = accumulate(self.model, rows, self.objective, **budget)  # type: ignore[arg-type]
            if "loss" in parts:
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm)
                parts["grad_norm"] = float(norm)
                if torch.isfinite(norm):
                    self.optimizer.step()
                else:
                    logger.warning("step %d: the gradient is not finite; this update is left out", step + 1)
            elif parts["trained_rows"] == 0:
                logger.warning("step %d: no completion could be trained on; the weights stay as they are", step + 1)
            for name, value in parts.items():
                reports.setdefault(name, []).append(value)
        # Counts add up; the rest is a mean over the updates that reported it.
        metrics = {name: sum(v) if name in COUNTS else sum(v) / len(v) for name, v in reports.items()}
        return {"learning_rate": rate, **metrics}

    def _evaluate(self, log: RunLog, progress: Progress) -> None:
        self.model.eval()
        metrics, groups = evaluate(self.model, self.codec, self.mixture.sources, self.graders, self.config)
        if groups:
            log.metrics(self.done, "eval", metrics)
            log.samples(self.done, "eval", groups, 4 * len(self.mixture.sources))
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
