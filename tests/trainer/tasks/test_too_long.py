"""Prompts and examples that are too long: counted and shown everywhere, and an error where they are many."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from runs import rows, settings

from verigym.envs import UsageError
from verigym.trainer.config.run import SourceConfig, build_config
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec
from verigym.trainer.stages.config import SampleConfig, SftConfig
from verigym.trainer.stages.rejection_sampling import sample
from verigym.trainer.stages.sft import sft
from verigym.trainer.tasks.mixture import build_source
from verigym.trainer.tasks.too_long import check_tasks, fitting, refuse_many


def source(every: int = 10) -> dict[str, Any]:
    return {"environment": "long_prompts:LongPrompts", "options": {"every": every}, "name": "long"}


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any) -> Codec:
    return Codec(tiny_tokenizer)


def test_the_rule() -> None:
    refuse_many("those", 2, 200, 900, field="max_prompt_tokens", limit=64, share=0.01)
    with pytest.raises(UsageError) as caught:
        refuse_many("those", 3, 200, 900, field="max_prompt_tokens", limit=64, share=0.01)
    assert str(caught.value) == (
        "those: 3 of 200 are longer than max_prompt_tokens, 64 tokens; the longest has 900. That is more than a share of 0.01 "
        "(max_left_out): set max_prompt_tokens to 900 or more, or max_left_out to 0.015 or more to go on without them"
    )
    refuse_many("none", 0, 0, 0, field="max_tokens", limit=1, share=0.0)


def test_held_out_prompts_are_counted_by_source(codec: Codec) -> None:
    sources = [build_source(SourceConfig(**{**source(every), "name": f"every {every}"}), 0, 20) for every in (5, 10)]
    tasks, left_out = fitting(sources, codec, 64, 0.2)
    assert left_out == {"every 5": 4, "every 10": 2}
    assert len(tasks) == 34 and all(len(codec.encode(prompt)) <= 64 for _, prompt in tasks)
    with pytest.raises(UsageError, match="source 'every 5': held-out prompts: 4 of 20 are longer.*max_left_out to 0.2 or more"):
        fitting(sources, codec, 64, 0.19)


def test_a_mixture_is_looked_at_before_a_run_draws_from_it(codec: Codec) -> None:
    sources = [build_source(SourceConfig(**source(100)), 0, 1)]
    check_tasks(sources, codec, 64, 0.01)
    with pytest.raises(
        UsageError, match="source 'long': prompts, of the first 200: 2 of 200 are longer than max_prompt_tokens"
    ):
        check_tasks(sources, codec, 64, 0.009)
    check_tasks(sources, codec, 1, 1.0)


def test_training_says_what_it_passes_over(letters_model: Path, tmp_path: Path) -> None:
    fields = {"sources": [source(4)], "max_prompt_tokens": 64, "steps": 2, "eval_every": 1, "eval_prompts": 8}
    with pytest.raises(UsageError, match="source 'long': prompts, of the first 200: 50 of 200.*set max_prompt_tokens to"):
        train(build_config(settings(letters_model, tmp_path, **fields), "test"))
    assert not (tmp_path / "metrics.jsonl").exists(), "before anything is sampled"
    train(build_config(settings(letters_model, tmp_path, **fields, max_left_out=0.25), "test"))
    found = rows(tmp_path)
    assert [row["prompts_left_out"] for row in found if row["kind"] == "train"] == [2.0, 1.0]  # of 0-5 and of 6-10
    assert {row["long/prompts_left_out"] for row in found if row["kind"] == "eval"} == {2.0}


def evaluation(model: Path, output: Path, **more: Any) -> EvalConfig:
    fields: dict[str, Any] = {
        "models": {"m": str(model)},
        "sources": [source()],
        "prompts": 20,
        "max_prompt_tokens": 64,
        **more,
    }
    return EvalConfig(output=output, max_new_tokens=4, workers=0, device="cpu", **fields)


@pytest.mark.slow
def test_an_evaluation_says_what_it_leaves_out_and_stops_where_that_is_much(letters_model: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="source 'long': held-out prompts: 2 of 20 are longer than max_prompt_tokens, 64 tokens"
    ):
        run_evaluation(evaluation(letters_model, tmp_path))
    report = json.loads(run_evaluation(evaluation(letters_model, tmp_path, max_left_out=0.1)).read_text())
    assert report["left_out"] == {"m": {"long": 2}}
    assert report["models"]["m"]["long"]["prompts"] == 18
    assert "| prompts left out, too long | 2 |" in (tmp_path / "report.md").read_text()
    whole = run_evaluation(evaluation(letters_model, tmp_path / "whole", sources=[source(1000)], prompts=5, max_left_out=1))
    assert "left out" in (whole.parent / "report.md").read_text(), "the first task is long"
    letters = [{"environment": "letters:LettersEnvironment"}]
    none = run_evaluation(evaluation(letters_model, tmp_path / "none", sources=letters))
    assert "left out" not in (none.parent / "report.md").read_text()


def test_rejection_sampling_counts_them(letters_model: Path, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"sources": [source()], "prompts": 18, "samples": 2, "max_prompt_tokens": 64, "max_new_tokens": 8}
    fields |= {"model": str(letters_model), "output": tmp_path, "workers": 0, "device": "cpu"}
    with pytest.raises(UsageError, match="source 'long': prompts: 2 of 20 are longer"):
        sample(SampleConfig(**fields))
    assert not (tmp_path / "samples.jsonl").exists()
    sample(SampleConfig(**fields, max_left_out=0.1))
    counts = json.loads((tmp_path / "summary.json").read_text())["counts"]
    assert (counts["all"]["prompts"], counts["all"]["prompts_left_out"]) == (18, 2)


def test_examples_that_are_too_long_stop_a_fit(letters_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data.jsonl"
    texts = ["2" if number % 10 else "2 " * 100 for number in range(40)]
    data.write_text("".join(json.dumps({"prompt": f"{n}+1=?", "completion": text}) + "\n" for n, text in enumerate(texts)))
    fields: dict[str, Any] = {"data": [str(data)], "steps": 1, "batch_size": 4, "max_tokens": 40, "held_out_share": 0}
    fields |= {"model": str(letters_model), "output": tmp_path / "out", "device": "cpu", "loggers": []}
    with pytest.raises(
        UsageError, match="examples: 4 of 40 are longer than max_tokens, 40 tokens.*max_left_out to 0.1 or more"
    ):
        sft(SftConfig(**fields))
    with caplog.at_level(logging.WARNING, "verigym.trainer"):
        sft(SftConfig(**fields, max_left_out=0.1))
    assert "examples: 4 of 40 are longer than max_tokens (40)" in caplog.text
