"""A run's records: metrics.jsonl and TensorBoard for numbers, samples.jsonl for completions one can read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verigym.trainer.rollout import Group


class RunLog:
    """Appends to the run's files. A resumed run first drops the lines after its checkpoint, so each step stands once.

    Args:
        output: the run's folder.
        done_steps: steps of the checkpoint; None when there is none, which drops every line.
    """

    def __init__(self, output: Path, done_steps: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        output.mkdir(parents=True, exist_ok=True)
        self._paths = {"metrics": output / "metrics.jsonl", "samples": output / "samples.jsonl"}
        for path in self._paths.values():
            keep_until(path, -1 if done_steps is None else done_steps)
        self._files = {name: path.open("a", encoding="utf-8") for name, path in self._paths.items()}
        self._board = SummaryWriter(str(output / "tensorboard"), purge_step=0 if done_steps is None else done_steps + 1)

    def metrics(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Record one step's numbers; `kind` is train or eval."""
        self._write("metrics", {"step": step, "kind": kind, **{name: _digits(value) for name, value in values.items()}})
        for name, value in values.items():
            self._board.add_scalar(f"{kind}/{name}", value, step)

    def samples(self, step: int, kind: str, groups: Sequence[Group], count: int) -> None:
        """Record the first completion of up to `count` groups, spread over the sources."""
        by_source: dict[str, list[Group]] = {}
        for group in groups:
            by_source.setdefault(group.source, []).append(group)
        rounds = [group for row in zip(*_padded(list(by_source.values())), strict=True) for group in row if group]
        for group in rounds[:count]:
            score = group.scores[0]
            self._write(
                "samples",
                {
                    "step": step,
                    "kind": kind,
                    "source": group.source,
                    "prompt": group.prompt.text,
                    "completion": group.texts[0],
                    "finish_reason": group.generated[0].finish_reason,
                    "reward": score.reward,
                    "status": score.status.value,
                    "reason": score.reason,
                },
            )

    def _write(self, name: str, row: Mapping[str, Any]) -> None:
        # A lone surrogate cannot be written as UTF-8; JSON escapes keep it readable.
        self._files[name].write(json.dumps(row) + "\n")
        self._files[name].flush()

    def close(self) -> None:
        """Flush and close everything."""
        for file in self._files.values():
            file.close()
        self._board.close()


def _digits(value: float) -> float | None:
    """Return six significant digits; JSON has no nan and no inf."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _padded(rows: list[list[Group]]) -> list[list[Group | None]]:
    longest = max(map(len, rows), default=0)
    return [[*row, *[None] * (longest - len(row))] for row in rows]


def keep_until(path: Path, step: int) -> None:
    """Drop the lines of later steps, and a last line that a kill cut short."""
    if not path.exists():
        return
    kept = [row for row in read_rows(path) if row["step"] <= step]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    os.replace(temporary, path)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the whole rows of a JSONL file of ours."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break  # only the last line can be cut short; what follows it was never written
    return rows
