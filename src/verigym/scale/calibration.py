"""`Costs`: what one step costs, read from the metrics of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from verigym.envs.contract.errors import UsageError
from verigym.scale.lengths import LogNormal

WARM_UP = 0.25
"""Share of a run's steps that are left out at its beginning, because kernels load, workers start and lengths change fast."""
FEWEST_STEPS = 4
_NEEDED = ("completions", "completion_tokens", "completion_tokens_max", "generate_s", "update_s", "step_s", "verdict_s")


class Verdicts(BaseModel):
    """The share and the grading times of one source's verdicts."""

    model_config = ConfigDict(frozen=True)

    share: float
    """Of all completions."""
    mean_s: float
    """Mean time of one verdict in its worker."""
    largest_s: float
    """Mean over the steps of a step's slowest verdict."""
    per_step: float
    """Verdicts a step."""

    @property
    def times(self) -> LogNormal:
        """The distribution of a verdict's time in seconds."""
        return LogNormal.of(self.mean_s, self.largest_s, self.per_step)


class Costs(BaseModel):
    """The measured costs of a training step, in seconds and tokens, from which larger runs are simulated."""

    model_config = ConfigDict(frozen=True)

    completions: float
    """Completions a step."""
    tokens_mean: float
    """Mean length of a completion, in tokens."""
    tokens_largest: float
    """Length in tokens of a step's longest completion, averaged over the steps."""
    tokens_most: int
    """`max_new_tokens`."""
    rows: int
    """Number of completions that one server or engine decodes at a time (`generation_rows`)."""
    decode_s: float
    """Fixed cost of a decoding step in seconds, which does not depend on the number of rows in it."""
    token_s: float
    """Further seconds of a decoding step for each row in it."""
    update_s: float
    """Seconds of an update whatever its size."""
    trained_token_s: float
    """Further seconds of an update for each token of a completion."""
    rest_s: float
    """Seconds of a training step outside generation, grading and update, for example to push weights and to write logs."""
    verdicts: tuple[Verdicts, ...]
    steps: int
    """Steps of the runs that these figures come from."""
    one_size: bool
    """Whether all measured steps had the same number of completions. If so, `decode_s` and `token_s` cannot be separated
    reliably."""

    @property
    def lengths(self) -> LogNormal:
        """The distribution of a completion's length in tokens."""
        return LogNormal.of(self.tokens_mean, self.tokens_largest, self.completions, self.tokens_most)


def calibrate(runs: Sequence[Path]) -> Costs:
    """Estimate the costs of a training step from runs of one model on one machine, and return them.

    The batch size and the lengths of completions are those of the first run.

    Args:
        runs: output folders. Runs with different numbers of completions per step are needed to separate the fixed cost of a
            decoding step from its cost per sequence.

    Raises:
        UsageError: a folder holds no run, its metrics lack a needed column, or the run uses something that is not modelled.
    """
    loaded = [_Run(path) for path in runs]
    first = loaded[0]
    per_decode, per_token = _nonnegative(
        [(row["decoding_steps"], row["tokens"]) for run in loaded for row in run.steps],
        [row["generate_s"] for run in loaded for row in run.steps],
    )
    per_update, per_trained = _nonnegative(
        [(1.0, row["tokens"]) for run in loaded for row in run.steps], [row["update_s"] for run in loaded for row in run.steps]
    )
    return Costs(
        completions=fmean(row["completions"] for row in first.steps),
        tokens_mean=fmean(row["completion_tokens"] for row in first.steps),
        tokens_largest=fmean(row["completion_tokens_max"] for row in first.steps),
        tokens_most=first.config["max_new_tokens"],
        rows=first.config["generation_rows"],
        decode_s=per_decode,
        token_s=per_token,
        update_s=per_update,
        trained_token_s=per_trained,
        rest_s=median(row["rest_s"] for row in first.steps),
        verdicts=first.verdicts(),
        steps=sum(len(run.steps) for run in loaded),
        one_size=len({round(row["completions"]) for run in loaded for row in run.steps}) == 1,
    )


class _Run:
    """The settings and the training steps of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = self._config()
        rows = [row for row in self._rows() if row.get("kind") == "train"]
        kept = rows[int(len(rows) * WARM_UP) :]
        if len(kept) < FEWEST_STEPS:
            raise UsageError(f"{path}: {len(rows)} training steps; the model needs {FEWEST_STEPS} after the warm-up, 6 in all")
        for name in _NEEDED:
            if any(not isinstance(row.get(name), int | float) for row in kept):
                raise UsageError(f"{path / 'metrics.jsonl'}: a step has no {name!r}; was the run made by an older version?")
        self._refuse(kept)
        self.steps: list[dict[str, float]] = [self._step(row) for row in kept]

    def _config(self) -> Mapping[str, Any]:
        try:
            config = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.path}: not the output folder of a training run (its config.json: {error})") from None
        if not isinstance(config, dict) or any(
            type(config.get(name)) is not int for name in ("max_new_tokens", "generation_rows")
        ):
            raise UsageError(f"{self.path / 'config.json'}: expected the settings of a GRPO run, with max_new_tokens")
        return config

    def _rows(self) -> list[dict[str, Any]]:
        from verigym.trainer.monitoring.logs import read_rows

        try:
            return read_rows(self.path / "metrics.jsonl")
        except OSError as error:
            raise UsageError(f"{self.path}: no metrics.jsonl ({error.strerror}); give the output folder of a run") from None

    def _refuse(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for name in ("dynamic_sampling", "replay_share"):
            if self.config.get(name):
                raise UsageError(f"{self.path}: the model has no part for {name}; calibrate with a run without it")
        if any(name.rpartition("/")[2] == "turns" for row in rows for name in row):
            raise UsageError(f"{self.path}: the model has no part for episodes with turns; calibrate with a run of one turn")
        if self.config.get("overlap", "none") != "none":
            raise UsageError(
                f"{self.path}: with overlap, generation and update slow each other; calibrate with a run without it"
            )

    def _step(self, row: Mapping[str, Any]) -> dict[str, float]:
        waves = max(1.0, row["completions"] / self.config["generation_rows"])
        known = row["generate_s"] + row.get("grade_wait_s", 0.0) + row["update_s"]
        return {
            **{name: float(value) for name, value in row.items() if isinstance(value, int | float)},
            "tokens": row["completions"] * row["completion_tokens"],
            "decoding_steps": row["completion_tokens_max"] * waves,
            "rest_s": max(0.0, row["step_s"] - known),
        }

    def verdicts(self) -> tuple[Verdicts, ...]:
        """Return the verdicts of each source."""
        labels = sorted({name.rpartition("/")[0] for row in self.steps for name in row if name.endswith("/verdict_s")})
        found = []
        for label in labels or [""]:
            prefix = f"{label}/" if label else ""
            rows = [row for row in self.steps if row.get(f"{prefix}completions")]
            count = sum(row[f"{prefix}completions"] for row in rows)
            found.append(
                Verdicts(
                    share=count / sum(row["completions"] for row in self.steps),
                    mean_s=sum(row[f"{prefix}verdict_s"] * row[f"{prefix}completions"] for row in rows) / count,
                    largest_s=fmean(row[f"{prefix}verdict_max_s"] for row in rows),
                    per_step=count / len(rows),
                )
            )
        return tuple(found)


def _nonnegative(terms: Sequence[tuple[float, float]], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the two coefficients, neither negative, with which `terms` come closest to `seconds` by least squares."""
    x, y = np.array(terms), np.array(seconds)
    both = np.linalg.lstsq(x, y, rcond=None)[0]
    if (both >= 0).all():
        return float(both[0]), float(both[1])
    alone = [max(0.0, float(x[:, k] @ y) / float(x[:, k] @ x[:, k])) for k in (0, 1)]
    errors = [float(((x[:, k] * alone[k] - y) ** 2).sum()) for k in (0, 1)]
    return (alone[0], 0.0) if errors[0] <= errors[1] else (0.0, alone[1])
