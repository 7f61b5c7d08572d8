"""Evaluation: held-out accuracy by source and overall, pass@k, and failures apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from groups import RIGHT, UNSCORED, WRONG, group
from letters import LettersEnvironment

from verigym.envs import Score
from verigym.envs.grading import Grader
from verigym.trainer.config.run import build_config
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.held_out import evaluate, evaluation_metrics
from verigym.trainer.tasks.mixture import Source, build_source

LETTERS = LettersEnvironment()


def source(label: str, weight: float = 1.0) -> Source:
    return Source(label, LETTERS, weight, LETTERS.prompt, ())


def test_the_mean_over_sources_follows_their_weights() -> None:
    groups = [group("a", [RIGHT]), group("a", [WRONG]), group("b", [RIGHT]), group("b", [RIGHT])]
    metrics = evaluation_metrics(groups, [source("a", 3.0), source("b", 1.0)], 1)
    assert metrics["a/accuracy"] == 0.5
    assert metrics["b/accuracy"] == 1
    assert metrics["accuracy"] == pytest.approx((3 * 0.5 + 1 * 1) / 4)
    assert metrics["a/completion_tokens"] == 3
    assert not [name for name in metrics if "pass" in name]


def test_the_mean_over_sources_knows_the_least_share() -> None:
    groups = [group("a", [RIGHT]), group("b", [WRONG])]
    least = Source("b", LETTERS, 1.0, LETTERS.prompt, (), min_share=0.4)
    assert evaluation_metrics(groups, [source("a", 9.0), least], 1)["accuracy"] == pytest.approx(0.6)


def test_tokens_that_the_policy_read_are_not_counted() -> None:
    found = group("a", [RIGHT, WRONG])
    read = replace(found.generated[0], loss_mask=(True, False, False))
    metrics = evaluation_metrics([replace(found, generated=(read, found.generated[1]))], [source("a")], 1)
    assert metrics["a/completion_tokens"] == (1 + 3) / 2


def test_partial_credit_is_not_correct() -> None:
    metrics = evaluation_metrics([group("a", [Score.partial(0.9)]), group("a", [RIGHT])], [source("a")], 1)
    assert metrics["accuracy"] == 0.5


def test_unscored_completions_are_counted_and_in_no_mean() -> None:
    groups = [group("a", [RIGHT]), group("a", [UNSCORED]), group("b", [UNSCORED]), group("b", [UNSCORED])]
    metrics = evaluation_metrics(groups, [source("a", 1.0), source("b", 9.0)], 1)
    assert (metrics["a/unscored"], metrics["b/unscored"]) == (1, 2)
    assert metrics["a/accuracy"] == 1
    assert metrics["accuracy"] == 1, "a source without a verdict has no weight"
    assert "b/accuracy" not in metrics
    nothing = evaluation_metrics(groups[2:], [source("b")], 1)
    assert nothing == {"b/unscored": 2, "b/judge_exceptions": 0}


def test_pass_at_k_is_over_groups_that_were_scored_whole() -> None:
    groups = [
        group("a", [WRONG, RIGHT, WRONG, WRONG]),
        group("a", [WRONG, WRONG, WRONG, WRONG]),
        group("a", [RIGHT, UNSCORED, RIGHT, RIGHT]),
    ]
    metrics = evaluation_metrics(groups, [source("a")], 4)
    assert metrics["a/pass@4"] == 0.5
    assert metrics["a/accuracy"] == pytest.approx(4 / 11)
    assert metrics["a/unscored"] == 1
    assert "a/pass@2" not in evaluation_metrics([group("a", [RIGHT, UNSCORED])], [source("a")], 2)


@pytest.mark.parametrize(("samples", "temperature"), [(1, 0.0), (3, 1.0)])
def test_the_same_prompts_and_draws_every_time(
    samples: int, temperature: float, tiny_model: Any, tiny_tokenizer: Any, tmp_path: Path
) -> None:
    fields = {"model": "m", "output": str(tmp_path), "sources": [{"environment": "letters"}], "max_new_tokens": 6}
    fields |= {"eval_samples": samples, "eval_temperature": temperature, "eval_prompts": 5}
    config = build_config(fields, "test")
    codec = Codec(tiny_tokenizer)
    engine = NativeEngine(tiny_model, codec, rows_at_a_time=64, dtype="fp32")
    found = []
    for seed in (0, 1):  # the run's seed orders training; held-out prompts stay what they are
        sources = [build_source(config.sources[0], seed, config.eval_prompts, {"letters": LETTERS})]
        torch.manual_seed(seed)
        with Grader(LETTERS, workers=0) as grader:
            found.append(evaluate(engine, codec, sources, {"letters": grader}, config))
    (metrics, groups), (again, same) = found
    assert metrics == again
    assert [part.texts for part in groups] == [part.texts for part in same]
    assert len(groups) == 5
    right = sum(score.reward or 0 for part in groups for score in part.scores)
    assert metrics["letters/accuracy"] == metrics["accuracy"] == pytest.approx(right / (5 * samples))
    assert ("letters/pass@3" in metrics) == (samples == 3)


def test_no_held_out_prompts_no_metrics(tiny_model: Any, tiny_tokenizer: Any, tmp_path: Path) -> None:
    sources = [{"environment": "letters", "eval_split": None}]
    config = build_config({"model": "m", "output": str(tmp_path), "sources": sources}, "test")
    built = [build_source(config.sources[0], 0, 8, {"letters": LETTERS})]
    codec = Codec(tiny_tokenizer)
    engine = NativeEngine(tiny_model, codec, rows_at_a_time=64, dtype="fp32")
    with Grader(LETTERS, workers=0) as grader:
        _, groups = evaluate(engine, codec, built, {"letters": grader}, config)
    assert groups == []
