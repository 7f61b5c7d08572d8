"""More samples, or more prompts, are added to those of an earlier evaluation: the same as all of them at once."""

from __future__ import annotations

import json
import logging
import signal
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import UsageError
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.stages import sample_log as sample_log_module
from verigym.trainer.tasks.mixture import held_out_rows

SOURCES = [{"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}}, {"environment": "units"}]
PICKERS = {"steps": {"environment": "process", "options": {"split": [",", "</think>"]}}}


def evaluate(output: Path, model: Path, samples: int, prompts: int, **more: Any) -> dict[str, Any]:
    fields = {"max_new_tokens": 16, "workers": 0, "device": "cpu", "threads": 1, "prompts_at_a_time": 2, **more}
    fields |= {"models": {"sums": str(model)}, "output": output}
    fields.setdefault("sources", SOURCES)
    config = EvalConfig(samples=samples, prompts=prompts, **fields)
    found: dict[str, Any] = json.loads(run_evaluation(config).read_text())
    return found


def lines_of(folder: Path, name: str = "sums") -> list[str]:
    """The file's lines without how long each verdict took."""
    found = []
    for line in (folder / f"samples-{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        for sample in row.get("samples", []):
            sample[3].pop("seconds", None)
        found.append(json.dumps(row))
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples were drawn, call by call."""
    real, counts = sample_log_module.collect, []

    def collect(*arguments: Any, **named: Any) -> Any:
        counts.append(len(arguments[3]) * (named["samples"] - named["first"]))
        return real(*arguments, **named)

    monkeypatch.setattr(sample_log_module, "collect", collect)
    return counts


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, sums_model: Path) -> Path:
    """Four samples of three prompts of each source at once."""
    folder = tmp_path_factory.mktemp("whole")
    evaluate(folder, sums_model, 4, 3, pickers=PICKERS)
    return folder


@pytest.mark.slow
def test_two_samples_and_then_four_are_the_same_bytes_as_four_at_once(
    whole: Path, tmp_path: Path, sums_model: Path, asked: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(tmp_path, sums_model, 2, 3, pickers=PICKERS)
    with caplog.at_level(logging.WARNING, logger="verigym.trainer"):
        report = evaluate(tmp_path, sums_model, 4, 3, pickers=PICKERS)
    assert lines_of(tmp_path) == lines_of(whole) and len(lines_of(whole)) == 7
    assert sum(asked) == 4 * 6, "no sample is drawn twice"
    assert "eval sums: 12 samples of samples-sums.jsonl are kept; 12 are added" in caplog.messages
    assert report["models"] == json.loads((whole / "report.json").read_text())["models"]
    assert (tmp_path / "picks-steps-sums.json").read_text() == (whole / "picks-steps-sums.json").read_text()


@pytest.mark.slow
def test_more_prompts_and_more_samples_are_added_together(
    whole: Path, tmp_path: Path, sums_model: Path, asked: list[int]
) -> None:
    evaluate(tmp_path, sums_model, 2, 2)
    evaluate(tmp_path, sums_model, 4, 3)
    assert lines_of(tmp_path) == lines_of(whole), "in the order of the prompts, too"
    assert sum(asked) == 4 * 6


@pytest.mark.slow
def test_fewer_samples_and_prompts_are_the_first_ones_and_the_others_stay(
    whole: Path, tmp_path: Path, sums_model: Path, asked: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(tmp_path, sums_model, 4, 3)
    before = lines_of(tmp_path)
    with caplog.at_level(logging.WARNING, logger="verigym.trainer"):
        report = evaluate(tmp_path, sums_model, 2, 2)
    assert sum(asked) == 4 * 6 and lines_of(tmp_path) == before
    assert (
        "eval sums: 16 samples of samples-sums.jsonl are not asked for; they stay there, and are in no figure"
        in caplog.messages
    )
    alone = evaluate(tmp_path / "alone", sums_model, 2, 2)
    assert report["models"] == alone["models"] and report["models"]["sums"]["all"]["samples"] == 8
    evaluate(tmp_path, sums_model, 4, 3)
    assert sum(asked) == 4 * 6 + 8 and lines_of(tmp_path) == before


@pytest.mark.slow
def test_samples_under_a_thinking_budget_are_added_too(tmp_path: Path, sums_model: Path) -> None:
    more: dict[str, Any] = {"thinking_budgets": [2, 3], "max_new_tokens": 8}
    evaluate(tmp_path / "whole", sums_model, 3, 3, **more)
    evaluate(tmp_path / "parts", sums_model, 2, 3, **more)
    evaluate(tmp_path / "parts", sums_model, 3, 3, **more)
    for name in ("sums@2", "sums@3"):
        assert lines_of(tmp_path / "parts", name) == lines_of(tmp_path / "whole", name)


@pytest.mark.slow
def test_stopped_while_samples_are_added_it_ends_with_the_same(
    whole: Path, tmp_path: Path, sums_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(tmp_path, sums_model, 2, 3)
    real, calls = sample_log_module.collect, []

    def collect(*arguments: Any, **named: Any) -> Any:
        calls.append(named["first"])
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments, **named)

    monkeypatch.setattr(sample_log_module, "collect", collect)
    with pytest.raises(Interrupted, match="eval sums: stopped after 2 of 6 prompts"):
        evaluate(tmp_path, sums_model, 4, 3)
    evaluate(tmp_path, sums_model, 4, 3)
    assert calls == [2, 2, 2, 2] and lines_of(tmp_path) == lines_of(whole)


@pytest.mark.slow
def test_greedy_samples_are_not_mixed_with_drawn_ones(tmp_path: Path, sums_model: Path) -> None:
    evaluate(tmp_path, sums_model, 1, 2)
    with pytest.raises(UsageError, match=r"temperature was 0\.0 and is now 1\.0.*new folder; one sample is greedy"):
        evaluate(tmp_path, sums_model, 2, 2)


def test_a_larger_count_of_held_out_rows_keeps_those_of_a_smaller_one() -> None:
    chosen = [set(held_out_rows("gsm8k", 1319, count)) for count in range(0, 1400, 7)]
    assert all(small <= large for small, large in zip(chosen, chosen[1:], strict=False))
    assert [len(one) for one in chosen] == [min(count, 1319) for count in range(0, 1400, 7)]
    assert held_out_rows("gsm8k", 1319, 5) != held_out_rows("math", 1319, 5)


@pytest.mark.slow
def test_a_source_that_differs_is_named_and_the_temperature_is_not(tmp_path: Path, sums_model: Path) -> None:
    evaluate(tmp_path, sums_model, 1, 1)
    with pytest.raises(UsageError) as caught:
        evaluate(tmp_path, sums_model, 1, 1, sources=SOURCES[:1])
    assert 'sources.units was {"environment": "units"' in str(caught.value) and "sources.arithmetic" not in str(caught.value)
    assert str(caught.value).endswith("set `output` to a new folder")
