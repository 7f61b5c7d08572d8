"""Prompts that a model has no room for: a few are left out and counted, many are an error that names the way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import UsageError
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.positions import fitting_model
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.models.codec import Codec
from verigym.trainer.tasks.mixture import Source, build_source


def settings(every: int, **more: Any) -> EvalConfig:
    sources = [{"environment": "long_prompts:LongPrompts", "options": {"every": every}, "name": "long"}]
    fields: dict[str, Any] = {"models": {"a": "m"}, "output": "out", "sources": sources, "workers": 0, "device": "cpu", **more}
    return EvalConfig(**fields)


def drawn(config: EvalConfig, prompts: int) -> list[Source]:
    return [build_source(SourceConfig(**source.model_dump()), 0, prompts) for source in config.sources]


@pytest.fixture
def codec(tiny_tokenizer: Any) -> Codec:
    return Codec(tiny_tokenizer)


def lengths(source: Source, codec: Codec) -> list[int]:
    return sorted({len(codec.encode(prompt)) for prompt in source.held_out})


def test_one_prompt_without_room_is_left_out(codec: Codec) -> None:
    config = settings(200)
    sources = drawn(config, 100)
    *short, long = lengths(sources[0], codec)
    tasks, left_out = fitting_model(config, "a", sources, codec, long + 29, 30)
    assert left_out == {"long": 1} and len(tasks) == 99
    tasks, left_out = fitting_model(config, "a", sources, codec, long + 30, 30)
    assert left_out == {"long": 0} and len(tasks) == 100
    assert fitting_model(config, "a", sources, codec, None, 30)[1] == {"long": 0}
    both = settings(200, max_prompt_tokens=short[-1])
    assert fitting_model(both, "a", sources, codec, long, 30)[1] == {"long": 1}, "counted once, whatever it is too long for"


def test_many_name_the_share_that_lets_it_go_on(codec: Codec) -> None:
    config = settings(10, max_new_tokens=30)
    sources = drawn(config, 40)
    long = lengths(sources[0], codec)[-1]
    with pytest.raises(UsageError) as caught:
        fitting_model(config, "a", sources, codec, long, 30)
    assert str(caught.value) == (
        f"model 'a' has {long} positions, and a prompt of {long} tokens with max_new_tokens (30) takes more. 4 of 40 prompts "
        "of source 'long' do not fit, more than a share of 0.01 (max_left_out): set max_left_out to 0.1 or more to go on "
        "without those that do not fit"
    )
    assert fitting_model(settings(10, max_left_out=0.1), "a", sources, codec, long, 30)[1] == {"long": 4}


def test_too_many_new_tokens_name_what_fits(codec: Codec) -> None:
    config = settings(200, max_new_tokens=9999)
    sources = drawn(config, 100)
    short = lengths(sources[0], codec)[-2]
    with pytest.raises(UsageError, match=rf"max_new_tokens \(9,999\) takes more.* can be {512 - short} here$"):
        fitting_model(config, "a", sources, codec, 512, 9999)
    fits = settings(200, max_new_tokens=512 - short)
    assert fitting_model(fits, "a", sources, codec, 512, 512 - short)[1] == {"long": 1}


def test_a_thinking_budget_counts(codec: Codec) -> None:
    config = settings(200, thinking_budgets=[500], max_new_tokens=30)
    sources = drawn(config, 100)
    short = lengths(sources[0], codec)[-2]
    with pytest.raises(UsageError, match=rf"lower the largest of thinking_budgets, or max_new_tokens, by {short + 28}$"):
        fitting_model(config, "a", sources, codec, 512, 540)


def test_a_source_of_which_nothing_fits_is_an_error(codec: Codec) -> None:
    config = settings(1, max_new_tokens=30, max_left_out=1)
    sources = drawn(config, 3)
    with pytest.raises(UsageError, match="all prompts of source 'long' are too long"):
        fitting_model(config, "a", sources, codec, 100, 30)
    with pytest.raises(UsageError, match="evaluate a model with more positions"):
        fitting_model(settings(1, max_new_tokens=30), "a", sources, codec, 100, 30)


def test_the_report_counts_what_was_left_out(tmp_path: Path, sums_model: Path, codec: Codec) -> None:
    fields: dict[str, Any] = {"models": {"a": str(sums_model)}, "output": tmp_path, "prompts": 10, "max_new_tokens": 4}
    config = settings(10, max_left_out=0.1, **fields)
    positions = json.loads((sums_model / "config.json").read_text())["max_position_embeddings"]
    assert positions < lengths(drawn(config, 10)[0], codec)[-1] < config.max_prompt_tokens
    report = json.loads(run_evaluation(config).read_text())
    assert report["left_out"] == {"a": {"long": 1}} and report["models"]["a"]["long"]["prompts"] == 9
    assert "| prompts left out, too long | 1 |" in (tmp_path / "report.md").read_text()


def test_a_model_that_is_not_there_is_told_before_another_is_sampled(tmp_path: Path, sums_model: Path) -> None:
    fields: dict[str, Any] = {"models": {"a": str(sums_model), "b": str(tmp_path / "nothing")}, "output": tmp_path / "out"}
    with pytest.raises(UsageError, match="there is no directory '.*nothing'"):
        run_evaluation(settings(10, max_new_tokens=4, **fields))
    assert not list((tmp_path / "out").glob("samples*"))
