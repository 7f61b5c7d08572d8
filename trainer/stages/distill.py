"""Stages `distill-logits` and `distill-on-policy`: a teacher's distributions on given examples or on the student's samples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.session import opens_sessions
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.checkpoints.store import locked
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.engines.build import build_engine
from verigym.trainer.learner.update import Objective, accumulate, policy_logprobs
from verigym.trainer.logprobs.chunked import Head
from verigym.trainer.logprobs.forward import ForwardOptions, usable_head
from verigym.trainer.losses.token_level import reinforce
from verigym.trainer.models.loading import load_model
from verigym.trainer.rollout.collect import refused_episodes
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.rollout.held_out import evaluate
from verigym.trainer.stages.config import LogitConfig, OnPolicyConfig
from verigym.trainer.stages.distill_losses import Direction, chunked_kl, kl_of_logits, logits_of, reverse_kl_advantages
from verigym.trainer.stages.examples import Pair
from verigym.trainer.stages.packing import hidden_packed, packable, packed_rows
from verigym.trainer.stages.sft import (
    Batches,
    examples_digest,
    gather_examples,
    held_out_metrics,
    target_of,
    tokenized,
    total_steps,
)
from verigym.trainer.stages.step_run import PolicyRun, prepare_stage
from verigym.trainer.tasks.answer_forms import with_templates
from verigym.trainer.tasks.mixture import Mixture, build_source
from verigym.trainer.tasks.too_long import check_tasks
from verigym.trainer.threads import own_threads

logger = logging.getLogger("verigym.trainer")


@own_threads()
def distill_logits(config: LogitConfig) -> Path:
    """Distil a teacher's distributions on given examples, and return the final model's folder.

    If there is a checkpoint, training resumes from the newest.

    Raises:
        UsageError: a model, the examples or a checkpoint do not fit.
        Interrupted: Ctrl-C; the same call resumes.
    """
    prepare_stage(config)
    with locked(config.output):
        examples, held_out = gather_examples(config)
        run = PolicyRun(
            config, {"examples": examples_digest(examples), "teacher": model_digest(config.teacher)}, "distillation"
        )
        teacher = load_teacher(config.teacher, run)
        train, test = tokenized(config, run.codec, examples, held_out)
        batches = Batches(train, config.batch_size, config.seed)
        how: dict[str, Any] = {"direction": config.direction, "temperature": config.temperature}

        def gradient(step: int) -> dict[str, float]:
            run.model.train()
            return {"loss": kl_gradient(run.model, teacher, batches.of(step), run.how, config.pack_tokens, **how)}

        def evaluate() -> dict[str, float]:
            kl = kl_gradient(run.model, teacher, test, run.how, config.pack_tokens, backward=False, **how)
            return {**held_out_metrics(run.model, test, run.how, config.pack_tokens), "kl": kl}

        return run.run(total_steps(config, len(train)), gradient, evaluate if test else None, target_of(config, test))


def load_teacher(name: str, run: PolicyRun) -> Any:
    """Return the frozen teacher model `name`.

    Raises:
        UsageError: the teacher cannot be loaded, or its tokens are not the student's.
    """
    teacher, tokenizer = load_model(name, run.device)
    if tokenizer.get_vocab() != run.codec.tokenizer.get_vocab():
        raise UsageError(
            f"teacher: {name!r} has another tokenizer than the student, so their tokens cannot be compared; distil off-policy: "
            "sample with the teacher, then sft on its completions"
        )
    teacher.requires_grad_(False)
    return teacher.eval()


def kl_gradient(
    student: Any,
    teacher: Any,
    pairs: Sequence[Pair],
    how: ForwardOptions,
    capacity: int | None = None,
    *,
    direction: Direction = "forward",
    temperature: float = 1.0,
    backward: bool = True,
) -> float:
    """Add the gradient of the mean divergence over the completions' tokens, and return that mean in nats.

    Args:
        student: the model that gets the gradient.
        teacher: a model of the same vocabulary.
        pairs: prompts with completions.
        how: options of the forward passes.
        capacity: most tokens of a packed row; see `packing.packed_rows`.
        direction: see `kl_of_logits`.
        temperature: both models' logits are divided by it.
        backward: if False, no gradient is added.
    """
    prompts, completions = [pair.prompt_ids for pair in pairs], [pair.token_ids for pair in pairs]
    total = sum(map(len, completions))
    heads = usable_head(student), usable_head(teacher)
    loss = 0.0
    for rows in packed_rows(student, prompts, completions, how, capacity):
        with torch.no_grad():
            taught = _hidden(teacher, rows, prompts, completions, how)
        learnt = _hidden(student, rows, prompts, completions, how)
        if not isinstance(heads[0], Head) or not isinstance(heads[1], Head):
            logits = [
                hidden if not isinstance(head, Head) else logits_of(hidden, head)
                for hidden, head in zip((learnt, taught), heads, strict=True)
            ]
            kl_N = kl_of_logits(logits[0] / temperature, logits[1] / temperature, direction)
        else:
            options: dict[str, Any] = {"direction": direction, "temperature": temperature, "chunk": how.chunk}
            kl_N = chunked_kl(learnt, heads[0], taught, heads[1], **options)
        part = kl_N.sum() / total
        if backward:
            part.backward()  # type: ignore[no-untyped-call]
        loss += float(part.detach())
    return loss


@own_threads()
def distill_on_policy(config: OnPolicyConfig) -> Path:
    """Distil a teacher on completions that the student samples, and return the final model's folder.

    If there is a checkpoint, training resumes from the newest.

    Raises:
        UsageError: a model, a source or a checkpoint does not fit.
        Interrupted: Ctrl-C; the same call resumes.
    """
    prepare_stage(config)
    config = with_templates(config, [config.model, config.teacher])
    settings = config.as_run()
    sources = [build_source(source, config.seed, config.eval_prompts) for source in config.sources]
    for source in sources:
        if opens_sessions(source.environment):
            raise refused_episodes(source)
    inputs = {source.label: source.environment.grader for source in sources}
    with locked(config.output), open_graders(sources, settings) as graders:
        run = PolicyRun(config, {**inputs, "teacher": model_digest(config.teacher)}, "on-policy distillation")
        teacher = load_teacher(config.teacher, run)
        forward: dict[str, Any] = {
            "token_budget": config.micro_batch_tokens,
            "pad_id": run.codec.pad_id,
            "dtype": config.dtype,
            "shared_prefix": not config.gradient_checkpointing,
            "chunk": config.logprob_chunk,
        }
        objective = Objective(reinforce, "token_mean", config.max_new_tokens, config.temperature)
        mixture = Mixture(sources, config.seed)
        check_tasks(sources, run.codec, config.max_prompt_tokens, config.max_left_out)
        _catch_up(mixture, run.done, config.prompts_per_step, lambda p: _fits(run, config, p))
        with closing(build_engine(settings, run.model, run.codec)) as engine:

            def gradient(step: int) -> dict[str, float]:
                plan = mixture.plan(step, config.prompts_per_step)
                tasks = [mixture.draw(source, lambda p: _fits(run, config, p)) for source in plan]
                left_out = {"prompts_left_out": mixture.left_out.total()} if mixture.left_out else {}
                mixture.left_out.clear()
                prompts = [run.codec.encode(prompt) for prompt in tasks]
                keys = [
                    [("on-policy", config.seed, step, n, p.key, g) for g in range(config.samples)] for n, p in enumerate(tasks)
                ]
                engine.sync()
                limits: dict[str, Any] = {"max_new_tokens": config.max_new_tokens, "temperature": config.temperature}
                written = engine.generate(prompts, keys, on_finished=lambda p, g, done: None, **limits)
                engine.rest()
                run.model.train()
                pairs = [(prompts[p], done) for p, row in enumerate(written) for done in row]
                lengths = sum(done.length for _, done in pairs) / len(pairs)
                if config.divergence == "full":
                    own = [Pair(ids, done.token_ids) for ids, done in pairs]
                    options: dict[str, Any] = {"direction": "reverse", "temperature": config.temperature}
                    loss = kl_gradient(run.model, teacher, own, run.how, config.pack_tokens, **options)
                    return {"loss": loss, "completion_tokens": lengths, **left_out}
                rows = [TrainingRow(ids, done.token_ids, 0.0, True, done.logprobs) for ids, done in pairs]
                teacher_logprobs = policy_logprobs(teacher, rows, temperature=config.temperature, **forward)
                rows = with_advantages(rows, teacher_logprobs)
                metrics = accumulate(run.model, rows, objective, **forward)
                tokens = sum(len(row.token_ids) for row in rows)
                kl = -sum(sum(row.token_advantages or ()) for row in rows) / tokens
                gap = metrics.get("logprob_mismatch", 0.0)
                return {"loss": kl, "completion_tokens": lengths, "logprob_mismatch": gap, **left_out}

            def held_out_metrics() -> dict[str, float]:
                engine.sync()
                metrics, _ = evaluate(engine, run.codec, sources, graders, settings)
                return metrics

            return run.run(config.steps, gradient, held_out_metrics)


def with_advantages(rows: Sequence[TrainingRow], teacher_logprobs: Sequence[Sequence[float]]) -> list[TrainingRow]:
    """Return `rows` with an advantage for each token, which `reverse_kl_advantages` computes from the log-probabilities."""
    found = []
    for row, told in zip(rows, teacher_logprobs, strict=True):
        own_1T = torch.tensor([row.sampler_logprobs or ()], dtype=torch.float64)
        told_1T = torch.tensor([list(told)], dtype=torch.float64)
        advantages_1T = reverse_kl_advantages(own_1T, told_1T, torch.ones_like(own_1T, dtype=torch.bool))
        found.append(replace(row, token_advantages=tuple(advantages_1T[0].tolist())))
    return found


def _hidden(model: Any, rows: Any, prompts: Any, completions: Any, how: ForwardOptions) -> torch.Tensor:
    if packable(model):
        return hidden_packed(model, rows, prompts, completions, how)
    apart = [[number] for row in rows for number in row]  # the same order, each example alone
    return hidden_packed(model, apart, prompts, completions, how)


def _fits(run: PolicyRun, config: OnPolicyConfig, prompt: Any) -> bool:
    return len(run.codec.encode(prompt)) <= config.max_prompt_tokens


def _catch_up(mixture: Mixture, steps: int, prompts: int, fits: Any) -> None:
    """Draw the tasks of the steps before the checkpoint again, because the next task depends on how many were drawn."""
    for step in range(steps):
        for source in mixture.plan(step, prompts):
            mixture.draw(source, fits)
    mixture.left_out.clear()
