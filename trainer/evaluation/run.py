"""Runs an evaluation: samples each model, gets the pickers' rewards, writes the report. A stopped evaluation can resume."""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import transformers

from verigym.envs.code.packages import NO_NUMPY, importable, lacks_numpy
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, sha256_hex
from verigym.envs.grading import Grader, grades_groups
from verigym.envs.own_code import own_code
from verigym.envs.progress import Progress
from verigym.envs.registry import load as load_environment
from verigym.envs.sessions import Sessions
from verigym.trainer.checkpoints.input_hashes import data_hashes, file_hash, model_digest
from verigym.trainer.checkpoints.run_record import record_start
from verigym.trainer.checkpoints.store import FREE_FIELDS, locked, prepare
from verigym.trainer.engines.build import build_engine
from verigym.trainer.evaluation.config import HINTS, THINKING, EndpointModel, EvalConfig, PickerConfig
from verigym.trainer.evaluation.contamination import contaminated
from verigym.trainer.evaluation.endpoint_samples import sample_endpoint, usage
from verigym.trainer.evaluation.positions import fitting_model
from verigym.trainer.evaluation.report import (
    budget_label,
    budgets,
    compare,
    draw,
    figures,
    hints,
    markdown,
    raised_on,
    unscored,
)
from verigym.trainer.evaluation.tasks import held_out, own_texts, task_id
from verigym.trainer.evaluation.thinking import ThinkingEngine, ThinkingRules, most_tokens
from verigym.trainer.evaluation.training_data import is_file, refuse_unreadable, training_texts
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.loading import load_model, pick_device, positions_of
from verigym.trainer.models.path import require_model
from verigym.trainer.rollout.episodes import build_episodes, with_room
from verigym.trainer.rollout.graders import open_graders, open_sessions
from verigym.trainer.stages.sample_log import PromptSamples, SampleLog, sample_all, task_ids
from verigym.trainer.tasks.answer_forms import with_templates
from verigym.trainer.tasks.mixture import Source
from verigym.trainer.threads import own_threads, use_sampling_threads

logger = logging.getLogger("verigym.trainer")

# Settings that change the report and not the samples.
REPORT_FIELDS = {"models", "pickers", "train_data", "train_data_dirs", "ngram", "level"}
# Settings that say how many samples there are, and not what they are: more of them are added to the samples of before.
COUNT_FIELDS = {"samples", "prompts", "prompts_at_a_time"}
THINKING_FIELDS = {"thinking_budgets", *THINKING}


Picks = list[list[Any]]
"""For each sample of a prompt: the hash of its text, and the picker's reward, which is None if the picker failed."""


@own_threads()
def run_evaluation(config: EvalConfig) -> Path:
    """Run the evaluation, or resume it where an earlier call stopped; return the path of the report, `report.json`.

    The folder of the report also gets `samples-MODEL.jsonl`, `picks-PICKER-MODEL.json`, `report.md` and `curves.png`.

    Raises:
        UsageError: a model, a source, a picker or training data cannot be loaded, or does not fit the settings.
        Interrupted: Ctrl-C; the same call resumes.
    """
    transformers.utils.logging.disable_progress_bar()
    local = {label: model for label, model in config.models.items() if isinstance(model, str)}
    refuse_unreadable(config.train_data, _data_dirs(config))
    prepare(config.output)
    sources = [held_out(source, config.prompts) for source in config.sources]
    pickers = {name: _picker(name, picker) for name, picker in config.pickers.items()}
    for environment in pickers.values():
        for source in sources:
            _picker_prompt(environment, source.held_out[0])
    for source in sources:
        if lacks_numpy(source.environment):
            logger.warning("source %s: %s", source.label, NO_NUMPY)
    for folder in local.values():  # the last one, too, before the first one is sampled
        require_model(folder)
    config = with_templates(config, local.values())  # an endpoint has a chat template
    sources = [held_out(source, config.prompts) for source in config.sources]
    with locked(config.output):
        found: dict[str, list[PromptSamples]] = {}
        left_out: dict[str, dict[str, int]] = {}
        for label, model in config.models.items():
            if isinstance(model, EndpointModel):
                found[label] = sample_endpoint(config, label, model, sources, _made_with(config, sources))
                left_out[label] = {}
                continue
            sampled, too_long = _sampled(config, label, model, sources)
            found |= sampled
            left_out |= dict.fromkeys(sampled, too_long)
        picked = {
            label: {name: _picked(config, label, name, picker, prompts) for name, picker in pickers.items()}
            for label, prompts in found.items()
        }
        report = _report(config, sources, found, picked)
        report["left_out"] = left_out
        report["start"] = record_start(config.output, config.model_dump(mode="json"), _inputs(config))
        _write(config.output / "report.md", markdown(report))
        draw(report, config.output / "curves.png")
        _write(config.output / "report.json", json.dumps(report, indent=1))
    return config.output / "report.json"


def _inputs(config: EvalConfig) -> dict[str, str]:
    """Return the hash of each local input, by the input's name."""
    found = {f"model {label}": _digest(model) for label, model in config.models.items()}
    found |= data_hashes(config.sources)
    return found | {name: file_hash(Path(name)) for name in config.train_data if is_file(name)}


def _digest(model: str | EndpointModel) -> str:
    return model_digest(model) if isinstance(model, str) else f"{model.model} at {model.base_url}"


def _data_dirs(config: EvalConfig) -> dict[str, Path | None]:
    """Return the folder of each data set of the training data: its own, else that of the sources; None for the hub."""
    of_sources = [(source.dataset, source.data_dir) for source in config.sources if source.data_dir]
    usual = of_sources[0][1] if of_sources else None
    names = {name.rpartition(":")[0] for name in config.train_data if not is_file(name)}
    return {name: config.train_data_dirs.get(name, dict(of_sources).get(name, usual)) for name in names}


def _sampled(
    config: EvalConfig, label: str, model: str, sources: Sequence[Source]
) -> tuple[dict[str, list[PromptSamples]], dict[str, int]]:
    """Return the samples of `model` by its name in the tables, and the number of prompts per source that were too long for it.

    With thinking budgets, each budget counts as a model with its own name.
    """
    run = config.as_run(model)
    loaded, tokenizer = load_model(model, pick_device(config.device))
    use_sampling_threads(loaded, config.threads, config.output, label)
    codec = Codec(tokenizer, loaded.generation_config, config.chat_template_kwargs)
    made_with = _made_with(config, sources) | {"model": model_digest(model)}
    rules: dict[str, ThinkingRules | None] = {label: None}
    most = config.max_new_tokens
    if config.thinking_budgets:
        rules = {budget_label(label, budget): config.thinking_rules(budget) for budget in config.thinking_budgets}
        # vLLM reserves room for the longest completion.
        most = max(most_tokens(config.thinking_rules(n), codec, config.max_new_tokens) for n in config.thinking_budgets)
        run = run.model_copy(update={"max_new_tokens": most})
    positions = positions_of(loaded)
    tasks, left_out = fitting_model(config, label, sources, codec, positions, most)
    found: dict[str, list[PromptSamples]] = {}
    with (
        open_graders(sources, run) as graders,
        open_sessions(sources, run) as sessions,
        closing(build_engine(with_room(run, sessions, config.max_context_tokens or positions), loaded, codec)) as plain,
    ):
        _refuse_thinking_episodes(config, sessions)
        episodes = build_episodes(codec, sessions, config, config.max_context_tokens or positions)
        plain.sync()
        for name, one in rules.items():
            engine = plain if one is None else ThinkingEngine(plain, codec, one, positions)
            made = made_with | ({"thinking": asdict(one)} if one else {})
            with SampleLog(config.output / f"samples-{name}.jsonl", made, 1, len(tasks), HINTS) as log:
                found[name] = sample_all(
                    engine,
                    codec,
                    graders,
                    tasks,
                    log,
                    samples=config.samples,
                    key=("evaluation", config.seed),
                    max_new_tokens=config.max_new_tokens,
                    temperature=config.sampling_temperature,
                    prompts_at_a_time=config.prompts_at_a_time,
                    by_place=False,
                    title=f"eval {name}",
                    episodes=episodes,
                )
    del loaded, engine, plain
    gc.collect()
    return found, left_out


def _made_with(config: EvalConfig, sources: Sequence[Source]) -> dict[str, Any]:
    """Return the settings that decide what the samples of any model are."""
    return {
        **config.model_dump(mode="json", exclude=FREE_FIELDS | REPORT_FIELDS | COUNT_FIELDS | THINKING_FIELDS),
        "sources": {source.label: source.model_dump(mode="json") for source in config.sources},
        "graders": {source.label: source.environment.grader for source in sources},
        "code": own_code(source.environment for source in sources),
        "temperature": config.sampling_temperature,
    }


def _refuse_thinking_episodes(config: EvalConfig, sessions: Mapping[str, Sessions]) -> None:
    """Refuse thinking budgets if a source has episodes.

    Raises:
        UsageError: the configuration has thinking budgets, and a source has episodes.
    """
    if config.thinking_budgets and sessions:
        raise UsageError(
            f"thinking_budgets bound the thinking of one answer, and source {next(iter(sessions))!r} has episodes of several "
            "turns; leave thinking_budgets out, or set max_turn_tokens"
        )


def _picker(name: str, config: PickerConfig) -> Environment:
    environment = load_environment(config.environment, **config.options)
    try:
        environment.check()
    except EnvironmentFailure as failure:
        raise UsageError(f"picker {name!r}: {failure}") from None
    return environment


def _picker_prompt(environment: Environment, prompt: Prompt | PromptSamples) -> Prompt:
    """Return the task of `prompt` in the form that the picker judges, without the reference."""
    try:
        return environment.prompt(prompt.messages)
    except UsageError as error:
        raise UsageError(
            f"picker {environment.name!r} wants a reference ({error}); a picker must judge without one, as process, "
            "reward_model and judge do"
        ) from None


def _picked(
    config: EvalConfig, label: str, name: str, picker: Environment, found: Sequence[PromptSamples]
) -> list[list[float | None]]:
    """Return the picker's reward of each sample. The rewards are saved to a file that the next call reads.

    The next call judges the samples that are new, and those on which the picker failed. A picker that judges all samples of a
    prompt together judges them all again if the prompt has new ones.
    """
    path = config.output / f"picks-{name}-{label}.json"
    made_with = {"picker": picker.grader}
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept: dict[str, Picks] = earlier.get("prompts", {}) if earlier.get("made_with") == made_with else {}
    ids = ["/".join(map(str, one)) for one in task_ids((one.source, one.prompt_key) for one in found)]
    texts = [[sha256_hex(sample.text)[:16] for sample in one.samples] for one in found]
    known_of = [_known_rewards(kept.get(one, []), own, grades_groups(picker)) for one, own in zip(ids, texts, strict=True)]
    before: list[list[float | None]] = [
        known + [None] * (len(own) - len(known)) for known, own in zip(known_of, texts, strict=True)
    ]
    if not any(reward is None for row in before for reward in row):
        return before
    if failed := sum(reward is None for known in known_of for reward in known):
        logger.warning("picker %s: %d samples of %s have no reward and are judged again", name, failed, label)
    logger.info("picker %s judges the samples of %s", name, label)
    limits: dict[str, Any] = {"timeout_s": config.grade_timeout_s, "memory_bytes": config.grade_memory_mb * 2**20}
    with (
        Grader(picker, workers=config.workers, cluster=config.cluster, **limits) as grader,
        Progress(f"picking {label}") as progress,
    ):
        waiting: list[dict[int, Future[Score]]] = []
        for one, known in zip(found, before, strict=True):
            again = [place for place, reward in enumerate(known) if reward is None]
            prompt = _picker_prompt(picker, one)
            texts_of = [
                Completion(text=s.text, finish_reason="length" if s.finish_reason == "length" else "stop") for s in one.samples
            ]
            if again and grades_groups(picker):
                waiting.append(dict(enumerate(grader.submit_group(prompt, texts_of))))
            else:
                waiting.append({place: grader.submit(prompt, texts_of[place]) for place in again})
        rewards = []
        for known, futures in zip(before, waiting, strict=True):
            rewards.append([futures[place].result().reward if reward is None else reward for place, reward in enumerate(known)])
            progress.of_total(len(rewards), len(before))
    for place, own, row in zip(ids, texts, rewards, strict=True):
        kept[place] = [[text, reward] for text, reward in zip(own, row, strict=True)] + kept.get(place, [])[len(own) :]
    _write(path, json.dumps({"made_with": made_with, "prompts": kept}))
    return rewards


def picked_rewards(path: Path) -> list[list[float | None]]:
    """Read a picker's rewards from the file `path`: for each prompt, one reward per sample, in the order of the samples file.

    A reward is None if the picker failed on that sample.
    """
    return [[reward for _, reward in picks] for picks in json.loads(path.read_text(encoding="utf-8"))["prompts"].values()]


def _known_rewards(picks: Picks, texts: Sequence[str], together: bool) -> list[float | None]:
    """Return the rewards of the first samples, which were judged before; None for a sample on which the picker failed.

    Args:
        picks: the prompt's entry in the file.
        texts: hashes of the samples' texts.
        together: True if the picker judges a prompt's samples together.
    """
    known = [reward for (text, reward), own in zip(picks, texts, strict=False) if text == own]
    same = all(text == own for (text, _), own in zip(picks, texts, strict=False))
    return known if same and not (together and len(known) < len(texts)) else []


def _report(
    config: EvalConfig,
    sources: Sequence[Source],
    found: Mapping[str, Sequence[PromptSamples]],
    picked: Mapping[str, Mapping[str, list[list[float | None]]]],
) -> dict[str, Any]:
    first = next(iter(found))
    report: dict[str, Any] = {
        "samples": config.samples,
        "temperature": config.sampling_temperature,
        "seed": config.seed,
        "first": first,
        "digests": {label: _digest(model) for label, model in config.models.items()},
        "graders": {source.label: source.environment.grader for source in sources},
        "models": {label: figures(of, picked[label], config.samples, config.level) for label, of in found.items()},
        "compared": {label: compare(found[first], of, config.level) for label, of in found.items() if label != first},
        "programs_import": {source.label: named for source in sources if (named := importable(source.environment)) is not None},
        "unscored": unscored(found),
        "judge_exceptions": raised_on(found),
        "hints": hints(found),
        "usage": {label: usage(model, found[label]) for label, model in config.models.items() if not isinstance(model, str)},
        "contamination": {},
    }
    if config.thinking_budgets:
        report["budgets"] = {
            label: budgets({budget: found[budget_label(label, budget)] for budget in config.thinking_budgets}, config.level)
            for label in config.models
        }
    if config.train_data:
        report["contamination"] = _contamination(config, sources, found, picked)
    return report


def _counted(training: Iterable[tuple[str, str]], progress: Progress) -> Iterator[tuple[str, str]]:
    """Yield the texts of `training` and show the count so far; the total is known only at the end."""
    for number, one in enumerate(training, 1):
        yield one
        progress.update(number, None)


def _contamination(
    config: EvalConfig,
    sources: Sequence[Source],
    found: Mapping[str, Sequence[PromptSamples]],
    picked: Mapping[str, Mapping[str, list[list[float | None]]]],
) -> dict[str, Any]:
    """Return the prompts of each source that are in the training data, and each model's figures without them."""
    prompts = [(source.label, prompt) for source in sources for prompt in source.held_out]
    texts = [text for one, source in zip(config.sources, sources, strict=True) for text in own_texts(one, source)]
    with Progress("searching the training data") as progress:
        training = _counted(training_texts(config.train_data, _data_dirs(config)), progress)
        hits = contaminated(texts, training, n=config.ngram)
    result: dict[str, Any] = {}
    for source in sources:
        mine = [(hit, prompts[hit.prompt][1]) for hit in hits if prompts[hit.prompt][0] == source.label]
        keys = {prompt.key for _, prompt in mine}
        without: dict[str, Any] = {}
        for label, of in found.items():
            places = [n for n, one in enumerate(of) if one.source == source.label and one.prompt_key not in keys]
            rewards = {name: [rows[n] for n in places] for name, rows in picked[label].items()}
            for clean in figures([of[n] for n in places], rewards, config.samples, config.level).values():
                without[label] = clean["figures"]
        result[source.label] = {
            "hits": len(mine),
            "prompts": len(source.held_out),
            "ngram": config.ngram,
            "found": [
                {"id": task_id(prompt), "prompt": texts[hit.prompt].whole[:200], "words": hit.example, "where": hit.where}
                for hit, prompt in mine
            ],
            "without": without,
        }
    return result


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
