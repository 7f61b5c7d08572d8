"""Checks of a stage's settings without a model, so that an error in a pipeline's last stage is found before the first runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from verigym.datasets_cfg.load import grading_environment, load_config
from verigym.datasets_cfg.suites import check_split
from verigym.datasets_cfg.templates import load_template
from verigym.envs.contract.base import Environment, TaskSource
from verigym.envs.contract.errors import UsageError, error_context, explain
from verigym.envs.registry import load as load_environment
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.training_data import refuse_missing
from verigym.trainer.stages.config import FitFields, SamplerFields, StepFields
from verigym.trainer.tasks.mixture import composed

NOWHERE = Path("made-by")
"""Placeholder folder for what earlier stages will make."""


def refuse_unstartable_stage(config: BaseModel, *, losses: bool = True) -> None:
    """Check that a stage can start: its environments, data sets, splits and run settings. This machine is not checked.

    Args:
        config: settings of the stage.
        losses: if True, a training run's loss, correction and advantages are checked too, which needs torch.

    Raises:
        UsageError: a setting does not fit; the message names the field or the source, the given value and the expected one.
    """
    environments: dict[str, Environment] = {}
    for source in getattr(config, "sources", ()):
        with error_context(f"source {source.label!r}"):
            _refuse_source(source, config)
            if not refers_to_a_stage(source):
                environments[source.label] = _environment(source)
    for source in getattr(config, "demonstrations", ()):
        with error_context(f"demonstrations, source {source.label!r}"):
            _refuse_demonstrations(source)
    for name, picker in getattr(config, "pickers", {}).items():
        with error_context(f"field 'pickers': {name!r}"):
            if not refers_to_a_stage(picker):
                load_environment(picker.environment, **picker.options)
    _as_run(config)
    if losses and isinstance(config, TrainConfig):
        from verigym.trainer.preflight import refuse_unstartable

        refuse_unstartable(config, environments if len(environments) == len(config.sources) else None)


def refuse_stage_on_this_machine(config: BaseModel) -> None:
    """Check that this machine has everything a stage needs: device, packages, tools of its environments, local data files.

    Raises:
        UsageError: something is missing; the message names it and the field or source that needs it.
    """
    from verigym.trainer.preflight import refuse_on_this_machine

    for source in (*getattr(config, "sources", ()), *getattr(config, "demonstrations", ())):
        if refers_to_a_stage(source):
            continue
        with error_context(f"source {source.label!r}"):
            _environment(source).check()
            for split in _splits(source, config):
                file = check_split(source.dataset, split) if source.dataset and split and source.data_dir else None
                if file is not None and source.data_dir and not file.parts(source.data_dir):
                    raise UsageError(
                        f"there is no file {source.data_dir / file.path}; data_dir is the folder of the local files"
                    )
    for field in ("data", "held_out_data"):
        for file in getattr(config, field, ()):
            if not made_by_a_stage(str(file)) and not Path(file).is_file():
                raise UsageError(f"field {field!r}: there is no file {str(file)!r}; give the path of a JSON Lines file")
    refuse_missing(getattr(config, "train_data", ()))
    run = _as_run(config)
    if run is not None:
        refuse_on_this_machine(run)


def _as_run(config: BaseModel) -> TrainConfig | None:
    """Return a training run with the settings of the stage `config`; None for a stage without a model."""
    try:
        if isinstance(config, SamplerFields):
            return config.as_run("none")
        if isinstance(config, StepFields):
            shared = {*FitFields.model_fields} & {*type(config).model_fields} & {*TrainConfig.model_fields}
            sources = getattr(config, "sources", None) or (SourceConfig(environment="arithmetic"),)  # a run must have some
            return TrainConfig(sources=sources, **{name: getattr(config, name) for name in shared})
    except ValidationError as error:
        raise UsageError(explain(error, type(config).model_fields)) from None
    return config if isinstance(config, TrainConfig) else None


def _splits(source: SourceConfig, config: BaseModel) -> list[str]:
    """Return the splits of `source` that the stage opens; an evaluation opens no training split."""
    splits = (source.eval_split,) if isinstance(config, EvalConfig) else (source.split, source.eval_split)
    return [split for split in splits if split is not None]


def _refuse_source(source: SourceConfig, config: BaseModel) -> None:
    measures = isinstance(config, EvalConfig)
    if source.template:
        load_template(source.template)
    if measures and source.eval_split is None:
        raise UsageError("field 'sources': eval_split is null, so there is nothing to evaluate on")
    if source.dataset is not None:
        for split in _splits(source, config):
            check_split(source.dataset, split)
        if not measures and source.split in load_config(source.dataset).evaluation_only:
            raise UsageError(
                f"field 'sources': split {source.split!r} of data set {source.dataset!r} is for evaluation only; train on "
                "another split, or use it as eval_split"
            )
    if source.dataset is not None or refers_to_a_stage(source):
        return
    if not isinstance(load_environment(source.environment or "", **source.options), TaskSource):
        raise UsageError(
            f"environment {source.environment!r} generates no tasks of its own; give it a prompt_at(split, seed, index) "
            "method, or use a `dataset` that names it"
        )


def _refuse_demonstrations(source: SourceConfig) -> None:
    environment = load_environment(source.environment or "", **source.options)
    if not hasattr(environment, "demonstration"):
        raise UsageError(
            f"environment {source.environment!r} writes no worked solutions (demonstration); name one that does, such as "
            "arithmetic, or give examples with `data`"
        )


def _environment(source: SourceConfig) -> Environment:
    """Return the environment of `source`, wrapped in its added rewards and the format gate."""
    if source.dataset is not None:
        environment = grading_environment(load_config(source.dataset), source.environment, source.options, source.dataset)
    else:
        environment = load_environment(source.environment or "", **source.options)
    return composed(source, environment)[-1]


def models_of(config: BaseModel) -> list[str]:
    """Return the models that the settings of a stage name, except those that other stages make."""
    named = [getattr(config, "model", None), getattr(config, "teacher", None), *getattr(config, "models", {}).values()]
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and not made_by_a_stage(name)))


def refers_to_a_stage(part: BaseModel) -> bool:
    """Return True if `part`, a source or a picker, names a model that another stage has not made yet."""
    return any(map(made_by_a_stage, _texts(part.model_dump(mode="json"))))


def made_by_a_stage(path: str) -> bool:
    """Return True if `path` is a placeholder for a file or model that another stage has not made yet."""
    return Path(path).parts[:1] == NOWHERE.parts


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
