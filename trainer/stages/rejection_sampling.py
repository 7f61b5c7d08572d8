"""Rejection sampling: generate k completions per prompt, grade them, select by a rule, write a data set with provenance."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import transformers

from verigym.envs.contract.errors import UsageError, error_context
from verigym.envs.contract.schema import Prompt
from verigym.envs.own_code import own_code
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.checkpoints.store import FREE_FIELDS, locked, prepare
from verigym.trainer.engines.build import build_engine
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.loading import load_model, pick_device
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.stages.config import SampleConfig, SamplerFields
from verigym.trainer.stages.sample_log import PromptSamples, SampleLog, sample_all
from verigym.trainer.stages.selection import Candidate, Condition, select, text_key
from verigym.trainer.tasks.answer_forms import with_templates
from verigym.trainer.tasks.mixture import Mixture, Source, build_source
from verigym.trainer.tasks.too_long import refuse_many
from verigym.trainer.threads import own_threads, use_sampling_threads

logger = logging.getLogger("verigym.trainer")


@own_threads()
def sample(config: SampleConfig) -> Path:
    """Run the stage `sample`, or resume it where an earlier call stopped; return the path of the data set, `data.jsonl`.

    Each line has `prompt`, `completion` and their origin: the model's hash, the environment's id, the seed and the verdict.
    All samples, kept or not, are in `samples.jsonl`, and the counts in `summary.json`.

    Raises:
        UsageError: the model or a source does not fit, too many prompts are too long, or nothing was kept.
        Interrupted: Ctrl-C; the same call resumes.
    """
    transformers.utils.logging.disable_progress_bar()
    prepare(config.output)
    config = with_templates(config, [config.model])
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
        tasks, left_out = draw(sources, config, config.prompts, codec)
        free = FREE_FIELDS | {"model", "keep", "keep_if", "at_most", "least_reward"}
        made = {**config.model_dump(mode="json", exclude=free), **made_with}
        log = SampleLog(config.output / "samples.jsonl", made, config.prompts_at_a_time, len(tasks))
        with log, closing(build_engine(run, model, codec)) as engine:
            engine.sync()
            found = sample_all(
                engine,
                codec,
                graders,
                tasks,
                log,
                samples=config.samples,
                key=("rejection sampling", config.seed),
                max_new_tokens=config.max_new_tokens,
                temperature=config.temperature,
                prompts_at_a_time=config.prompts_at_a_time,
            )
    rows, removed = kept_rows(found, config, made_with, sources)
    write_text(config.output / "summary.json", json.dumps(summary(found, rows, removed, left_out, made_with), indent=1))
    told = ", ".join(f"{count} by {reason}" for reason, count in sum(removed.values(), Counter[str]()).most_common())
    if not rows:
        raise UsageError(
            f"none of {config.samples} x {len(found)} completions was kept by the rule {config.keep} (removed: {told}); "
            f"{config.output / 'samples.jsonl'} has them with their verdicts. Raise prompts or samples, or take a better model"
        )
    data = config.output / "data.jsonl"
    write_text(data, "".join(json.dumps(row) + "\n" for row in rows))
    logger.info(
        "kept %d of %d completions of %d prompts; removed: %s", len(rows), config.samples * len(found), len(found), told
    )
    return data


def draw(
    sources: Sequence[Source], config: SamplerFields, count: int, codec: Codec
) -> tuple[list[tuple[Source, Prompt]], Counter[str]]:
    """Return `count` tasks, divided among the sources by their shares, and by source the number of prompts that were too long.

    The result depends on the arguments alone.

    Raises:
        UsageError: more prompts of a source are too long than max_left_out allows.
    """
    mixture = Mixture(sources, config.seed)
    longest = Counter[str]()
    tasks: list[tuple[Source, Prompt]] = []
    for source in mixture.plan(0, count):

        def fits(prompt: Prompt, label: str = source.label) -> bool:
            tokens = len(codec.encode(prompt))
            longest[label] = max(longest[label], tokens)
            return tokens <= config.max_prompt_tokens

        tasks.append((source, mixture.draw(source, fits)))
    drawn = Counter(source.label for source, _ in tasks)
    for label, count in mixture.left_out.items():
        bounds: dict[str, Any] = {"limit": config.max_prompt_tokens, "share": config.max_left_out}
        what = f"source {label!r}: prompts"
        refuse_many(what, count, count + drawn[label], longest[label], field="max_prompt_tokens", **bounds)
    return tasks, mixture.left_out


def kept_rows(
    found: Sequence[PromptSamples], config: SampleConfig, made_with: Mapping[str, Any], sources: Sequence[Source]
) -> tuple[list[dict[str, Any]], dict[str, Counter[str]]]:
    """Select samples; return the rows of the data set, and for each source the number of removed samples by reason.

    No text of a prompt occurs twice in the rows.

    Raises:
        UsageError: a condition is about a component that no verdict of a source has.
    """
    conditions = {source.label: _conditions(config, source, found) for source in sources}
    limits: dict[str, Any] = {"at_most": config.at_most, "least_reward": config.least_reward}
    removed: dict[str, Counter[str]] = {source.label: Counter() for source in sources}
    seen: set[tuple[str, str]] = set()
    rows = []
    for one in found:
        candidates = [Candidate(s.text, s.tokens, s.score, s.finish_reason == "length") for s in one.samples]
        kept = select(candidates, config.keep, conditions=conditions[one.source], **limits)
        removed[one.source].update(kept.removed.values())
        for place in kept.numbers:
            chosen = one.samples[place]
            # The same task may have been drawn twice.
            mark = (one.prompt_key, text_key(chosen.text))
            if mark in seen:
                removed[one.source]["same text"] += 1
                continue
            seen.add(mark)
            rows.append(
                {
                    "prompt": [message.model_dump() for message in one.messages],
                    "completion": chosen.text,
                    "source": one.source,
                    "prompt_key": one.prompt_key,
                    "metadata": dict(one.metadata),
                    "environment": chosen.score.grader,
                    "reward": chosen.score.reward,
                    "status": chosen.score.status.value,
                    "components": dict(chosen.score.components),
                    "tokens": chosen.tokens,
                    "sample": place,
                    "right_of_samples": [sum(s.correct for s in one.samples), sum(s.score.scored for s in one.samples)],
                    "model": made_with["model"],
                    "seed": made_with["seed"],
                }
            )
    return rows, removed


def _conditions(config: SampleConfig, source: Source, found: Sequence[PromptSamples]) -> list[tuple[Condition, str]]:
    with error_context(f"source {source.label!r}"):
        pairs = [(wanted, wanted.component(source.environment)) for wanted in config.conditions]
    known = {name for one in found if one.source == source.label for s in one.samples for name in s.score.components}
    for wanted, component in pairs:
        if component and known and component not in known:
            raise UsageError(
                f"source {source.label!r}: keep_if: no verdict has {wanted.name!r} ({component}); "
                f"there are {', '.join(sorted(known))}"
            )
    return pairs


def summary(
    found: Sequence[PromptSamples],
    rows: Sequence[Mapping[str, Any]],
    removed: Mapping[str, Counter[str]],
    left_out: Counter[str],
    made_with: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the counts for `summary.json`, over all sources and by source.

    For each reason for which samples were removed there is a count `removed by REASON`.
    """
    counts: dict[str, dict[str, float]] = {}
    for label in ["all", *dict.fromkeys(one.source for one in found)]:
        mine = [one for one in found if label in ("all", one.source)]
        scored = [s for one in mine for s in one.samples if s.score.scored]
        kept = [row for row in rows if label in ("all", row["source"])]
        counts[label] = {
            "prompts": len(mine),
            "prompts_left_out": left_out.total() if label == "all" else left_out[label],
            "completions": sum(len(one.samples) for one in mine),
            "unscored": sum(len(one.samples) for one in mine) - len(scored),
            "judge_exceptions": sum(s.score.raised is not None for one in mine for s in one.samples),
            "correct": sum(s.correct for s in scored),
            "kept": len(kept),
            "prompts_kept": len({row["prompt_key"] for row in kept}),
        }
        reasons = sum((counter for name, counter in removed.items() if label in ("all", name)), Counter[str]())
        counts[label].update({f"removed by {reason}": count for reason, count in reasons.most_common()})
    return {**made_with, "counts": counts}


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically: first to a temporary file in the same folder, which is then renamed."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
