"""Runs the stages of a pipeline in order, skips those that are done, and writes a manifest.

The name of a stage's folder contains a hash of the stage's inputs: its settings, the contents of the files, models and products
that the settings name, and the versions of its environments. So a stage whose inputs are unchanged keeps its folder,
where it is skipped if it is done, or resumed. A stage with changed inputs gets a new folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verigym.envs.contract.errors import UsageError, error_context
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.trainer.checkpoints.input_hashes import model_digest, path_digest
from verigym.trainer.checkpoints.run_record import command_line, versions
from verigym.trainer.checkpoints.store import locked, prepare
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.distributed.torchrun import launched
from verigym.trainer.pipelines.plan import REFERENCE, Pipeline, Stage, replaced
from verigym.trainer.pipelines.stage_kinds import figures

DONE = "stage.json"
# Settings that do not change the product.
FREE = frozenset(
    {
        "workers",
        "cluster",
        "grade_timeout_s",
        "grade_memory_mb",
        "checkpoint_every",
        "checkpoint_minutes",
        "keep_checkpoints",
        "loggers",
        "log_project",
        "max_left_out",
    }
)
Tell = Callable[[str], None]


@dataclass(frozen=True)
class State:
    """The progress of one stage."""

    stage: Stage
    folder: Path | None
    """Folder of the stage; None while an earlier stage is not done, because the inputs are then unknown."""
    record: Mapping[str, Any] | None
    """Contents of its `stage.json`; None while it is not done."""

    @property
    def word(self) -> str:
        """Return the progress in words: done, begun, to do or waiting."""
        if self.record is not None:
            return "done"
        if self.folder is None:
            return "waiting"
        return "begun" if self.folder.exists() else "to do"


def run_pipeline(pipeline: Pipeline, *, until: str | None = None, tell: Tell = lambda line: None) -> list[State]:
    """Run the stages that are not done, and return the state of the stages up to `until`.

    Args:
        pipeline: the pipeline.
        until: name of the last stage to run; None for all.
        tell: called with a line when a stage begins, ends or is skipped.

    Raises:
        UsageError: a stage's inputs do not fit, this machine lacks something that a later stage needs, torchrun has started
            several processes, or another process runs the same pipeline.
        Interrupted: Ctrl-C; the same call resumes.
    """
    if (launched("WORLD_SIZE") or 1) > 1:
        raise UsageError(
            "a pipeline runs in one process; start it without torchrun. To train a stage with several, give its fields to "
            "`torchrun -m verigym train` and name the model that this makes in the stages after it"
        )
    stages = pipeline.up_to(until)
    _refuse_what_is_missing(pipeline, stages)
    prepare(pipeline.output)
    with locked(pipeline.output):
        records: dict[str, Mapping[str, Any]] = {}
        for stage in stages:
            state = state_of(pipeline, stage, records)
            if state.folder is None:
                raise UsageError(f"stage {stage.name!r} waits for a stage that is not done")
            if state.record is not None:
                tell(f"{stage.name}: unchanged, {state.folder}")
                records[stage.name] = state.record
            else:
                tell(f"{stage.name}: {'going on' if state.folder.exists() else 'beginning'} in {state.folder}")
                records[stage.name] = _run(pipeline, stage, state.folder, records)
                tell(f"{stage.name}: done in {records[stage.name]['seconds']:.0f} s{_after_comma(records[stage.name])}")
            _write_manifest(pipeline, records)
    return states(pipeline, stages)


def _refuse_what_is_missing(pipeline: Pipeline, stages: Sequence[Stage]) -> None:
    """Check that this machine can run the stages that are not done.

    Raises:
        UsageError: names the stage and the missing item.
    """
    for state in states(pipeline, stages):
        if state.record is None:
            pipeline.refuse_on_this_machine(state.stage)


def status(pipeline: Pipeline) -> list[State]:
    """Return the state of all stages without running any."""
    return states(pipeline, pipeline.stages)


def states(pipeline: Pipeline, stages: Sequence[Stage]) -> list[State]:
    """Return the state of `stages` without running any."""
    records: dict[str, Mapping[str, Any]] = {}
    found: list[State] = []
    for stage in stages:
        state = state_of(pipeline, stage, records)
        if state.record is not None:
            records[stage.name] = state.record
        found.append(state)
    return found


def _run(pipeline: Pipeline, stage: Stage, folder: Path, records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    products = {name: Path(records[name]["product"]) for name in stage.needs}
    begun = time.time()
    config = pipeline.config(stage, folder, products)
    with pipeline.named(stage):
        product = stage.kind.run(config)
    record = {
        "name": stage.name,
        "kind": stage.kind_name,
        "inputs": inputs(pipeline, stage, records),
        "seed": stage.fields["seed"],
        "product": str(product),
        "product_sha256": path_digest(product),
        "figures": figures(stage.kind_name, folder),
        "command": command_line(),
        "versions": versions(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.time() - begun, 1),
    }
    _write(folder / DONE, record)
    return record


def state_of(pipeline: Pipeline, stage: Stage, records: Mapping[str, Mapping[str, Any]]) -> State:
    """Return the state of a stage.

    Args:
        pipeline: the pipeline.
        stage: one of its stages.
        records: records of the earlier stages that are done, by name.

    Raises:
        UsageError: a file or a model that the stage names does not exist.
    """
    if any(name not in records for name in stage.needs):
        return State(stage, None, None)
    given = inputs(pipeline, stage, records)
    folder = pipeline.output / f"{stage.name}-{sha256_hex(canonical_json(given))[:8]}"
    try:
        record = json.loads((folder / DONE).read_text(encoding="utf-8"))
        whole = record["inputs"] == given and path_digest(Path(record["product"])) == record["product_sha256"]
    except (OSError, ValueError, KeyError, UsageError):
        whole = False
    return State(stage, folder, record if whole else None)


def inputs(pipeline: Pipeline, stage: Stage, records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the inputs of `stage`, which are everything that its product depends on, as JSON data.

    A stage is done if its record, `stage.json`, has the same inputs.
    """
    config = pipeline.config(stage, Path("."), {name: Path(REFERENCE + name) for name in stage.needs})
    fields = config.model_dump(mode="json", exclude=set(FREE) | {"output"})
    contents = ("model", "models", "teacher", "data", "held_out_data")
    with pipeline.named(stage):
        named = {name: _hashed(name, value) for name, value in stage.fields.items() if name in contents}
    return {
        "kind": stage.kind_name,
        "fields": {name: value for name, value in fields.items() if name not in named},
        "named": named,
        "stages": {name: records[name]["product_sha256"] for name in stage.needs},
        "graders": graders(config),
    }


def _hashed(field: str, value: Any) -> Any:
    """Return `value` with the names of files and local models replaced by hashes of their contents.

    Products of other stages are left alone, because they have their own entry.
    """
    if isinstance(value, str) and not value.startswith(REFERENCE):
        if field not in ("data", "held_out_data"):
            return model_digest(value)
        if not Path(value).exists():
            raise UsageError(f"field {field!r}: there is no file {value!r}; give the path of a JSON Lines file")
        return path_digest(Path(value))
    if isinstance(value, Mapping):
        return {key: _hashed(field, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hashed(field, inner) for inner in value]
    return value


def graders(config: Any) -> dict[str, str]:
    """Return what decides how the tasks of the sources in `config` are graded.

    The values are ids of environments with their versions, hashes of data sets, and hashes of code of environments outside
    verigym. The key of a value is a source's label, or names the data set or the code.
    """
    ids: dict[str, str] = {}
    for source in (*getattr(config, "sources", ()), *getattr(config, "demonstrations", ())):
        with error_context(f"source {source.label!r}"):
            ids |= _grader_ids(source)
    return ids


def _grader_ids(source: SourceConfig) -> dict[str, str]:
    from verigym.datasets_cfg.load import grading_environment, load_config
    from verigym.envs.own_code import own_code
    from verigym.envs.registry import load, origin
    from verigym.trainer.checkpoints.input_hashes import data_hashes
    from verigym.trainer.tasks.mixture import composed

    if source.dataset is not None:
        described = load_config(source.dataset)
        environment = source.environment or described.environment
        ids = {source.label: f"{environment}@{origin(environment).version}"} | data_hashes([source])
        code = own_code(composed(source, grading_environment(described, source.environment, source.options))[-1:])
    else:
        assert source.environment is not None  # a source has one or the other
        own = load(source.environment, **source.options)
        graded = composed(source, own)[-1]
        ids = {source.label: graded.grader}
        if source.graded_by is not None:  # which tasks it writes counts as well
            ids[f"{source.label} (tasks)"] = own.grader
        code = own_code([own, graded])
    return ids | {f"code of {name}": value for name, value in code.items()}


def _write_manifest(pipeline: Pipeline, records: Mapping[str, Mapping[str, Any]]) -> None:
    manifest = {
        "pipeline": pipeline.document.name,
        "fields_sha256": sha256_hex(canonical_json(replaced(pipeline.document.fields, str))),
        "seed": pipeline.seed,
        "command": command_line(),
        "versions": versions(),
        "stages": list(records.values()),
    }
    _write(pipeline.output / "manifest.json", manifest)


def _write(path: Path, value: Any) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(value, indent=1), encoding="utf-8")
    os.replace(temporary, path)


def figures_line(record: Mapping[str, Any]) -> str:
    """Return the metrics in `record`, the record of a finished stage, as a line of text.

    If there are metrics over all sources together, only these are shown, else all metrics.
    """
    figures: Mapping[str, float] = record["figures"]
    overall = {name: value for name, value in figures.items() if "/" not in name or name.endswith("/all")}
    return ", ".join(f"{name} {value:.4g}" for name, value in (overall or figures).items())


def _after_comma(record: Mapping[str, Any]) -> str:
    return f", {figures_line(record)}" if record["figures"] else ""
