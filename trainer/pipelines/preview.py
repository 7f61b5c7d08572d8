"""`verigym pipeline plan`: the inputs, folder, state, errors and cost of each stage, without training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from verigym.envs.contract.errors import UsageError, error_context
from verigym.envs.progress import duration
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.dry_run.estimate import estimate_run, refuse_what_does_not_fit
from verigym.trainer.pipelines.checks import made_by_a_stage, models_of, refers_to_a_stage
from verigym.trainer.pipelines.pipeline import State, state_of
from verigym.trainer.pipelines.plan import Pipeline, Stage
from verigym.trainer.tasks.mixture import make_source


@dataclass(frozen=True)
class Preview:
    """The inputs, product and cost of a stage before it runs."""

    state: State
    reads: tuple[str, ...]
    """Inputs of the stage: other stages, models, files, data sets and environments, one line each."""
    writes: str
    """Folder of the stage. If the stage waits for another one, only the beginning of the folder's name is known."""
    cost: str
    """Estimated time of a GRPO stage whose model exists, as text. Empty for a stage that is done, and for all other kinds."""
    cost_s: tuple[float, float] | None
    """The same in seconds: as expected, and at most."""
    problem: str
    """Why it cannot run; empty if no error was found."""


def preview(pipeline: Pipeline, until: str | None = None, *, priced: bool = True) -> Iterator[Preview]:
    """Preview the stages in order. Nothing is written; stages that are done are not checked again.

    Args:
        pipeline: the pipeline.
        until: name of the last stage to preview; None for all.
        priced: if True, estimate the time of GRPO stages. This loads their models and times a few small steps.

    Raises:
        UsageError: no stage is named `until`.
    """
    records: dict[str, Mapping[str, Any]] = {}
    for stage in pipeline.up_to(until):
        config = pipeline.expected(stage)
        state, cost, cost_s, problem = State(stage, None, None), "", None, ""
        try:
            state = state_of(pipeline, stage, records)
            if state.record is not None:
                records[stage.name] = state.record
            else:
                pipeline.refuse_on_this_machine(stage)
                with pipeline.named(stage):
                    _open_data(config)
                    if isinstance(config, TrainConfig):
                        cost, cost_s = _cost(pipeline, state, records) if priced else ("not asked for", None)
        except UsageError as error:
            problem = str(error)
        writes = str(state.folder or pipeline.output / f"{stage.name}-...")
        yield Preview(state, tuple(_reads(stage, config)), writes, cost, cost_s, problem)


def _open_data(config: BaseModel) -> None:
    """Open each data set and make its first task, so that errors in the rows show."""
    for source in getattr(config, "sources", ()):
        if source.dataset is None or refers_to_a_stage(source):
            continue
        with error_context(f"source {source.label!r}"):
            make_source(source, 0, 1).train(0)


def _cost(pipeline: Pipeline, state: State, records: Mapping[str, Mapping[str, Any]]) -> tuple[str, tuple[float, float] | None]:
    stage = state.stage
    missing = [name for name in stage.needs if name not in records]
    if missing or state.folder is None:
        return f"known when {', '.join(missing)} is done", None
    config = pipeline.config(stage, state.folder, {name: Path(records[name]["product"]) for name in stage.needs})
    assert isinstance(config, TrainConfig)
    estimate = estimate_run(config)
    refuse_what_does_not_fit(estimate.memory, estimate.free_bytes, config)
    expected, most = estimate.run_s(estimate.expected), estimate.run_s(estimate.most)
    return f"{duration(expected)} to {duration(most)}", (expected, most)


def _reads(stage: Stage, config: BaseModel) -> Iterator[str]:
    if stage.needs:
        yield ", ".join(f"stage:{name}" for name in stage.needs)
    yield from (f"model {name}" for name in models_of(config))
    for field in ("data", "held_out_data"):
        yield from (str(file) for file in getattr(config, field, ()) if not made_by_a_stage(str(file)))
    sources: list[Any] = [*getattr(config, "sources", ()), *getattr(config, "demonstrations", ())]
    plain = [source.label for source in sources if source.label == source.environment and not source.dataset]
    if plain:
        yield f"tasks of {', '.join(plain)}"
    for source in sources:
        if source.label in plain:
            continue
        where = f" in {source.data_dir}" if source.data_dir else " from the hub" if source.dataset else ""
        yield f"{source.label}: {'data set' if source.dataset else 'environment'} {source.dataset or source.environment}{where}"
