"""Stage `step-labels`: samples solutions from a policy, and labels their steps by roll-outs after each step (Math-Shepherd)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Message, Prompt
from verigym.envs.grading import Grader
from verigym.envs.own_code import own_code
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.checkpoints.store import FREE_FIELDS, locked, prepare
from verigym.trainer.engines.base import Engine
from verigym.trainer.engines.build import build_engine
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.loading import load_model, pick_device
from verigym.trainer.monitoring.progress import Progress, StopRequest
from verigym.trainer.reward_models.config import StepLabelsConfig
from verigym.trainer.reward_models.math_shepherd import StepOutcomes, roll_out
from verigym.trainer.rollout.collect import collect
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.stages.rejection_sampling import draw, write_text
from verigym.trainer.stages.sample_log import BlockLog
from verigym.trainer.tasks.mixture import Source, build_source
from verigym.trainer.threads import own_threads, use_sampling_threads

logger = logging.getLogger("verigym.trainer")
Task = tuple[Source, Prompt]


@dataclass(frozen=True)
class Solution:
    """A solution with the results of its roll-outs, counted by step."""

    text: str
    steps: tuple[str, ...]
    right: tuple[int, ...]
    scored: tuple[int, ...]
    unscored: int
    """Roll-outs without a verdict."""


@dataclass(frozen=True)
class LabelledPrompt:
    """A prompt with its labelled solutions."""

    number: int
    source: str
    messages: tuple[Message, ...]
    prompt_key: str
    solutions: tuple[Solution, ...]


@own_threads()
def label_steps(config: StepLabelsConfig) -> Path:
    """Run the stage, or resume it where an earlier call stopped; return the path of the data set, `labels.jsonl`.

    Each line is a solution: `prompt`, `steps`, and for each step the number of its roll-outs that were `right` and that were
    `scored`. A roll-out without a verdict is in neither number. `summary.json` has the counts.

    Raises:
        UsageError: the model or a source does not fit, or no step has a label.
        Interrupted: Ctrl-C; the same call resumes.
    """
    transformers.utils.logging.disable_progress_bar()
    prepare(config.output)
    run = config.as_run(config.model)
    sources = [build_source(source, config.seed, 1) for source in config.sources]
    made_with = {
        "model": model_digest(config.model),
        "seed": config.seed,
        "graders": {source.label: source.environment.grader for source in sources},
        "code": own_code(source.environment for source in sources),
    }
    with locked(config.output), open_graders(sources, run) as graders:
        model, tokenizer = load_model(config.model, pick_device(config.device))
        use_sampling_threads(model, config.threads, config.output)
        codec = Codec(tokenizer, model.generation_config, config.chat_template_kwargs)
        drawn, left_out = draw(sources, config, config.prompts, codec)
        tasks = _without_repeats(drawn)
        made = {**config.model_dump(mode="json", exclude=FREE_FIELDS | {"model"}), **made_with}
        log = BlockLog(config.output / "outcomes.jsonl", made, config.prompts_at_a_time, len(tasks), _dump, _load)
        with log, closing(build_engine(run, model, codec)) as engine:
            engine.sync()
            found = _label_all(config, engine, codec, graders, tasks, log)
    counts = summary(found, repeated=config.prompts - len(tasks), too_long=left_out.total())
    write_text(config.output / "summary.json", json.dumps({**made_with, "counts": {"all": counts}}, indent=1))
    rows = [_row(config, one, solution, made_with) for one in found for solution in one.solutions if any(solution.scored)]
    if not rows:
        raise UsageError(f"no step has a label: {counts}; {config.output / 'outcomes.jsonl'} has the solutions")
    write_text(config.output / "labels.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    logger.info("step labels: %s", counts)
    return config.output / "labels.jsonl"


def _without_repeats(tasks: Sequence[Task]) -> list[Task]:
    found: dict[str, Task] = {}
    for source, prompt in tasks:
        found.setdefault(f"{source.label}/{prompt.key}", (source, prompt))
    return list(found.values())


def _label_all(
    config: StepLabelsConfig,
    engine: Engine,
    codec: Codec,
    graders: Mapping[str, Grader],
    tasks: Sequence[Task],
    log: BlockLog[LabelledPrompt],
) -> list[LabelledPrompt]:
    done = len(log.found)
    with StopRequest() as stop, Progress(len(tasks), done, title="step labels", shown=("right",), unit="prompt") as progress:
        while done < len(tasks):
            batch = tasks[done : done + config.prompts_at_a_time]
            log.add(_label_block(config, engine, codec, graders, batch, done))
            done += len(batch)
            last = [solution for one in log.found[-len(batch) :] for solution in one.solutions]
            scored = sum(sum(one.scored) for one in last)
            right = {"right": sum(sum(one.right) for one in last) / scored} if scored else {}
            progress.step(done, right, scored)
            if stop.requested and done < len(tasks):
                raise stop.interrupted(f"step labels: stopped after {done} of {len(tasks)} prompts")
    return log.found


def _label_block(
    config: StepLabelsConfig, engine: Engine, codec: Codec, graders: Mapping[str, Grader], tasks: Sequence[Task], first: int
) -> list[LabelledPrompt]:
    """Sample solutions of `tasks` and roll out from their steps; `first` is the number of the first task."""
    groups = collect(
        engine,
        codec,
        lambda source: graders[source.label],
        tasks,
        samples=config.solutions,
        key=("solutions", config.seed, first),
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
    )
    # The same text twice is one solution.
    texts = [list(dict.fromkeys(group.texts)) for group in groups]
    outcomes: list[list[StepOutcomes]] = [[] for _ in tasks]
    for label in dict.fromkeys(source.label for source, _ in tasks):
        mine = [(n, text) for n, (source, _) in enumerate(tasks) if source.label == label for text in texts[n]]
        rolled = roll_out(
            engine,
            codec,
            graders[label],
            [(tasks[n][1], text) for n, text in mine],
            samples=config.rollouts,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            how=config.split,
            seed=config.seed,
        )
        for (n, _), one in zip(mine, rolled, strict=True):
            outcomes[n].append(one)
    return [
        LabelledPrompt(first + n, source.label, prompt.messages, prompt.key, tuple(map(_solution, outcomes[n])))
        for n, (source, prompt) in enumerate(tasks)
    ]


def _solution(one: StepOutcomes) -> Solution:
    return Solution(one.text, tuple(span.of(one.text) for span in one.spans), one.right, one.scored, one.unscored)


def _row(config: StepLabelsConfig, one: LabelledPrompt, solution: Solution, made_with: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "prompt": [message.model_dump() for message in one.messages],
        "steps": solution.steps,
        "right": solution.right,
        "scored": solution.scored,
        "split": config.model_dump(mode="json")["split"],
        "source": one.source,
        "prompt_key": one.prompt_key,
        "environment": made_with["graders"][one.source],
        "model": made_with["model"],
        "seed": made_with["seed"],
    }


def summary(found: Sequence[LabelledPrompt], *, repeated: int, too_long: int = 0) -> dict[str, float]:
    """Return the counts for `summary.json` over the prompts `found`.

    `unscored` counts the roll-outs on which the verifier failed.

    Args:
        found: the labelled prompts.
        repeated: number of prompts that were drawn again.
        too_long: number of prompts left out because of their length.
    """
    solutions = [solution for one in found for solution in one.solutions]
    scored = [count for solution in solutions for count in solution.scored]
    return {
        "prompts": len(found),
        "prompts_drawn_again": repeated,
        "prompts_too_long": too_long,
        "solutions": len(solutions),
        "blank": sum(not solution.steps for solution in solutions),
        "steps": len(scored),
        "steps_without_a_label": sum(count == 0 for count in scored),
        "rollouts": sum(scored),
        "right": sum(sum(solution.right) for solution in solutions),
        "unscored": sum(solution.unscored for solution in solutions),
    }


def _dump(one: LabelledPrompt) -> dict[str, Any]:
    return {
        "number": one.number,
        "source": one.source,
        "messages": [message.model_dump() for message in one.messages],
        "prompt_key": one.prompt_key,
        "solutions": [[s.text, s.steps, s.right, s.scored, s.unscored] for s in one.solutions],
    }


def _load(row: Mapping[str, Any]) -> LabelledPrompt:
    solutions = (
        Solution(text, tuple(steps), tuple(right), tuple(scored), unscored)
        for text, steps, right, scored, unscored in row["solutions"]
    )
    messages = tuple(Message(**message) for message in row["messages"])
    return LabelledPrompt(row["number"], row["source"], messages, row["prompt_key"], tuple(solutions))
