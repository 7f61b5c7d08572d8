"""A pipeline's file that grows by one stage at a time, because the size of a stage depends on what earlier ones sampled."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import yaml

from verigym.trainer.pipelines.pipeline import State, run_pipeline
from verigym.trainer.pipelines.plan import read_pipeline, replaced
from verigym.trainer.pipelines.stage_kinds import KINDS

Fields = dict[str, Any]


class Workshop:
    """Runs stages of a pipeline. A stage that is done already is not run again; one that was stopped goes on."""

    def __init__(self, path: Path, seed: int, defaults: Fields) -> None:
        """Begin with an empty list of stages.

        Args:
            path: of the pipeline's file, which is written; its stages go into the folder of the same name without the suffix.
            seed: of the pipeline.
            defaults: fields for every stage that has them.
        """
        self.path, self.seed, self._defaults = path, seed, defaults
        self.stages: dict[str, Fields] = {}
        self._clock = path.with_suffix(".cpu.json")

    def run(self, name: str, kind: str, **fields: Any) -> Path:
        """Append a stage, run it unless it is done, and return its folder."""
        known = KINDS[kind].config_type().model_fields
        given = {field: value for field, value in self._defaults.items() if field in known}
        self.stages[name] = {"name": name, "kind": kind, **given, **fields}
        told: list[str] = []
        clock = time.process_time()
        # Only what it needs, for all earlier stages would be read and hashed again each time.
        folder = self._run(self._needed(name), told)[-1].folder
        assert folder is not None  # every stage is done now
        if f"{name}: unchanged, {folder}" not in told:
            self._add(folder.name, time.process_time() - clock)
        return folder

    def finish(self) -> None:
        """Write the file and the manifest of all stages."""
        self._run(list(self.stages.values()), [])

    def cpu_s(self, folder: Path) -> float:
        """Return the CPU seconds of a stage, over all processes that worked on it; work that a kill cut short is not in it."""
        times: dict[str, float] = json.loads(self._clock.read_text(encoding="utf-8")) if self._clock.exists() else {}
        return times.get(folder.name, 0.0)

    def _needed(self, name: str) -> list[Fields]:
        wanted = {name}
        for stage in reversed(self.stages.values()):
            if stage["name"] in wanted:
                replaced(stage, lambda other: wanted.add(other) or other)
        return [stage for stage in self.stages.values() if stage["name"] in wanted]

    def _run(self, stages: list[Fields], told: list[str]) -> list[State]:
        fields = {"output": str(self.path.with_suffix("")), "seed": self.seed, "stages": stages}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
        return run_pipeline(read_pipeline(self.path), tell=told.append)

    def _add(self, stage: str, seconds: float) -> None:
        times = json.loads(self._clock.read_text(encoding="utf-8")) if self._clock.exists() else {}
        times[stage] = round(times.get(stage, 0.0) + seconds, 1)
        temporary = self._clock.with_suffix(".tmp")
        temporary.write_text(json.dumps(times, indent=1), encoding="utf-8")
        os.replace(temporary, self._clock)
