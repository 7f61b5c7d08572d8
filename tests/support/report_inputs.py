"""Small inputs of reports: a run's folder, a file of scores, an evaluation, with the same text in every field if wanted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def train_row(step: int, **more: Any) -> Row:
    """A row of metrics.jsonl with two sources."""
    row: Row = {
        "step": step,
        "kind": "train",
        "completions": 16.0,
        "unscored": 2.0,
        "reward": 0.25 + step / 100,
        "accuracy": 0.25,
    }
    row |= {"status/correct": 0.25, "status/incorrect": 0.5, "status/error": 0.125, "status/limit": 0.125, "no_answer": 0.0}
    for source, reward in (("sums", 0.5), ("words", 0.0)):
        row |= {
            f"{source}/unscored": 1.0,
            f"{source}/reward": reward,
            f"{source}/accuracy": reward,
            f"{source}/completion_tokens": 9.0,
        }
    row |= {
        "words/format": 0.75,
        "completion_tokens": 9.5,
        "sampled_nll": 0.4,
        "kl": 0.01,
        "clip_fraction": 0.02,
        "grad_norm": 1.5,
    }
    return {**row, "generate_s": 2.0, "update_s": 1.0, "step_s": 3.5, "words/calls": 1.5, "words/malformed_calls": 0.1, **more}


def eval_row(step: int, accuracy: float) -> Row:
    return {
        "step": step,
        "kind": "eval",
        "accuracy": accuracy,
        "sums/accuracy": accuracy,
        "words/accuracy": accuracy,
        "sums/unscored": 0.0,
    }


def run_sample(step: int, kind: str = "train", **more: Any) -> Row:
    """A row of samples.jsonl."""
    row: Row = {
        "step": step,
        "kind": kind,
        "source": "sums",
        "prompt": f"{step}+1?",
        "gold": str(step + 1),
        "completion": f"It is {step + 1}.",
    }
    row |= {"finish_reason": "stop", "tokens": 5, "reward": 1.0, "components": {}, "status": "correct", "reason": "equal"}
    return {**row, "answer": str(step + 1), **more}


def make_run(folder: Path, steps: int = 6) -> Path:
    rows = [eval_row(0, 0.25)]
    rows += [train_row(step) for step in range(1, steps + 1)]
    rows.append(
        {"kind": "warning", "name": "length", "step": 2, "since": 1, "seen": "longer", "advice": "read them", "stop": False}
    )
    rows.append(eval_row(steps, 0.5))
    write_lines(folder / "metrics.jsonl", rows)
    write_lines(
        folder / "samples.jsonl", [run_sample(0, "eval"), *(run_sample(step, advantage=0.5) for step in range(1, steps + 1))]
    )
    settings = {"steps": steps, "model": "a model", "sources": [{"environment": "sums"}, {"dataset": "words"}], "seed": 0}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def score(status: str = "correct", reward: float | None = 1.0, **more: Any) -> Row:
    error = {"kind": "backend", "message": "down", "retryable": True} if status == "error" else None
    row = {
        "reward": None if error else reward,
        "status": status,
        "components": {},
        "answer": "2",
        "reason": "equal",
        "steps": None,
    }
    return {**row, "error": error, "grader": "x@1", "seconds": 0.0, **more}


def make_evaluation(folder: Path, models: Mapping[str, Sequence[Sequence[str]]]) -> Path:
    """An evaluation's folder: by model, the statuses of each prompt's samples."""
    for model, prompts in models.items():
        lines: list[Row] = [{"identity": "x", "made_with": {"model": model}}]
        for place, statuses in enumerate(prompts):
            samples = [["It is 2.", 4, "stop", score(status, float(status == "correct"))] for status in statuses]
            line = {
                "number": place,
                "source": "sums",
                "messages": [{"role": "user", "content": f"1+{place}?"}],
                "prompt_key": f"key{place}",
            }
            lines.append({**line, "metadata": {"level": 1 + place % 3}, "gold": "2", "samples": samples})
        write_lines(folder / f"samples-{model}.jsonl", lines)
    figures = {"avg@2": {"value": 0.5, "low": 0.25, "high": 0.75, "prompts": 2}}
    (folder / "report.json").write_text(json.dumps({"models": {model: {"sums": {"figures": figures}} for model in models}}))
    return folder


def hostile_run(folder: Path, texts: Sequence[str]) -> Path:
    """A run in which every field that may hold a text holds each of these."""
    metrics: list[Row] = []
    samples: list[Row] = []
    for place, text in enumerate(texts, 1):
        metrics.append(
            train_row(
                place,
                **{
                    text: 1.0,
                    f"{text}/unscored": 0.0,
                    f"{text}/reward": 0.5,
                    f"{text}/{text}": 0.5,
                    f"{text}/calls/{text}": 1.0,
                },
            )
        )
        alarm = {
            "kind": "warning",
            "step": place,
            "since": place,
            "name": text,
            "seen": text,
            "advice": text,
            "traceback": text,
        }
        metrics += [alarm, eval_row(place, 0.5)]
        call = {"name": text, "arguments": {text: text}, "raw": text, "fault": None}
        turns: list[Row] = [{"role": "assistant", "text": text, "calls": [call, {**call, "fault": text}], "reward": 0.5}]
        turns += [
            {"role": "tool", "text": text, "name": text},
            {"role": text, "text": text},
            {"role": "assistant", "text": f"{text} {text}"},
        ]
        row = run_sample(
            place,
            source=text,
            prompt=text,
            gold=text,
            completion=f"{text} {text}",
            finish_reason=text,
            reason=text,
            answer=text,
        )
        row |= {"components": {text: 0.5}, "metadata": {text: text, "level": text}, "turns": turns}
        row["steps"] = [{"start": 0, "end": len(text), "reward": -1.0, "reason": text, "part": ""}]
        samples += [
            row,
            {
                **row,
                "status": "incorrect",
                "reward": 0.0,
                "turns": [],
                "raised": {"error": text, "place": text, "traceback": text},
            },
        ]
    write_lines(folder / "metrics.jsonl", metrics)
    write_lines(folder / "samples.jsonl", samples)
    settings = {"steps": len(texts), "model": texts[0], "preset": texts[1], "sources": [{"label": text} for text in texts]}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def hostile_evaluation(folder: Path, texts: Sequence[str]) -> Path:
    """Samples of an evaluation in which every field holds each of these texts."""
    lines: list[Row] = [{"identity": "x", "made_with": {}}]
    for place, text in enumerate(texts):
        failed = score("error", reason=text, error={"kind": text, "message": text, "retryable": False}, components={text: 1.0})
        right = score(
            answer=text,
            reason=text,
            components={text: None},
            steps=[{"start": 0, "end": 1, "reward": 1.0, "reason": text, "part": text}],
        )
        messages = [
            {"role": "system", "content": text},
            {"role": "user", "content": text},
            {"role": "tool", "name": text, "content": text},
        ]
        line = {
            "number": place,
            "source": text,
            "messages": messages,
            "prompt_key": text,
            "metadata": {"level": text},
            "gold": text,
        }
        lines.append({**line, "samples": [[text, 3, text, right], [text, 3, "stop", failed]]})
    write_lines(folder / "samples-model.jsonl", lines)
    figures = {"value": 0.5, "low": 0.1, "high": 0.9}
    report = {"models": {"model": {text: {"figures": {text: figures}} for text in texts}}}
    (folder / "report.json").write_text(json.dumps(report))
    return folder
