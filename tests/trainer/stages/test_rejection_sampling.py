"""Rejection sampling: the data set holds what the rule keeps with where it comes from; stopped, it ends with the same."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import Status, UsageError, load
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.stages import sample_log as sample_log_module
from verigym.trainer.stages.config import SampleConfig, SftConfig
from verigym.trainer.stages.examples import read_examples
from verigym.trainer.stages.rejection_sampling import sample
from verigym.trainer.stages.sample_log import read_samples
from verigym.trainer.stages.sft import sft

# A task that an untrained model solves now and then: any text repeats little.
SOURCES = [{"environment": "arithmetic", "options": {"digits": 1}}]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Path:
    """The small model after a few demonstrations of one-digit sums: right now and then."""
    folder = tmp_path_factory.mktemp("taught")
    fields = {"demonstrations": SOURCES, "demonstration_count": 200, "steps": 150, "batch_size": 16, "eval_every": 0}
    settings: dict[str, Any] = {"device": "cpu", "threads": 1, "learning_rate": 1e-2, "loggers": [], **fields}
    return sft(SftConfig(model=str(small_model), output=folder, **settings))


@pytest.fixture(scope="module")
def config(taught: Path) -> Callable[..., SampleConfig]:
    def make(output: Path, **more: Any) -> SampleConfig:
        fields = {"prompts": 12, "samples": 6, "prompts_at_a_time": 4, "max_new_tokens": 40, "workers": 0, "seed": 7, **more}
        return SampleConfig(
            model=str(taught), output=output, sources=fields.pop("sources", SOURCES), device="cpu", threads=1, **fields
        )

    return make


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, config: Callable[..., SampleConfig]) -> Path:
    return sample(config(tmp_path_factory.mktemp("whole"), keep="all_correct", at_most=2))


def rows_of(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.read_text().splitlines()]


def timeless(log: Path) -> list[Any]:
    """The samples without how long each verdict took."""
    found = read_samples(log)
    return [[(one.prompt_key, s.text, s.tokens, s.score.status) for s in one.samples] for one in found]


@pytest.mark.slow
def test_what_is_kept_is_right_and_says_where_it_comes_from(whole: Path, taught: Path) -> None:
    rows, found = rows_of(whole), read_samples(whole.parent / "samples.jsonl")
    assert len(found) == 12 and all(len(one.samples) == 6 for one in found)
    right = {(one.prompt_key, s.text) for one in found for s in one.samples if s.correct and s.finish_reason == "stop"}
    assert rows, "the model is right now and then"
    assert {(row["prompt_key"], row["completion"]) for row in rows} <= right
    environment: Any = load("arithmetic", digits=1)
    for row in rows:
        assert row["environment"] == environment.grader
        assert row["model"] == model_digest(str(taught)) and row["seed"] == 7
        assert row["status"] == "correct" and row["reward"] == 1
        prompt = environment.prompt_at(row["metadata"]["split"], row["metadata"]["seed"], row["metadata"]["index"])
        assert prompt.key == row["prompt_key"]
        assert environment.score(prompt, row["completion"]).status is Status.CORRECT
    by_prompt = [row["prompt_key"] for row in rows]
    assert max(by_prompt.count(key) for key in by_prompt) <= 2
    assert len({(row["prompt_key"], " ".join(row["completion"].split())) for row in rows}) == len(rows)
    counts = json.loads((whole.parent / "summary.json").read_text())["counts"]["all"]
    assert counts["kept"] == len(rows)
    assert counts["correct"] == sum(s.correct for one in found for s in one.samples)
    assert (counts["prompts"], counts["completions"], counts["unscored"]) == (12, 72, 0)


def test_the_data_set_can_be_learnt_from(whole: Path) -> None:
    examples = read_examples(whole)
    assert [one.completion for one in examples] == [row["completion"] for row in rows_of(whole)]


def test_stopped_and_cut_short_it_goes_on_to_the_same_bytes(
    whole: Path, tmp_path: Path, config: Callable[..., SampleConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = sample_log_module.collect, []

    def collect(*arguments: Any, **named: Any) -> Any:
        asked.append(len(arguments[3]))
        if len(asked) == 2:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments, **named)

    monkeypatch.setattr(sample_log_module, "collect", collect)
    settings = config(tmp_path, keep="all_correct", at_most=2)
    with pytest.raises(Interrupted, match="stopped after 4 of 12 prompts"):
        sample(settings)
    assert not (tmp_path / "data.jsonl").exists()
    log = tmp_path / "samples.jsonl"
    log.write_bytes(log.read_bytes()[:-30])  # a kill in the middle of a line
    data = sample(settings)
    assert asked == [4, 4, 4, 4, 4], "of the block that was cut short nothing is kept"
    assert timeless(log) == timeless(whole.parent / "samples.jsonl")
    assert data.read_bytes() == whole.read_bytes()


def test_stopped_between_two_writes_it_ends_with_the_same_bytes(
    whole: Path, tmp_path: Path, config: Callable[..., SampleConfig]
) -> None:
    lines = (whole.parent / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "samples.jsonl").write_bytes(b"".join(lines[:5]))
    data = sample(config(tmp_path, keep="all_correct", at_most=2))
    assert data.read_bytes() == whole.read_bytes()


def test_another_rule_reads_the_same_samples(whole: Path, tmp_path: Path, config: Callable[..., SampleConfig]) -> None:
    (tmp_path / "samples.jsonl").write_bytes((whole.parent / "samples.jsonl").read_bytes())
    before = (tmp_path / "samples.jsonl").read_bytes()
    rows = rows_of(sample(config(tmp_path, keep="shortest_correct", at_most=1)))
    assert (tmp_path / "samples.jsonl").read_bytes() == before
    assert len({row["prompt_key"] for row in rows}) == len(rows)
    found = {one.prompt_key: one for one in read_samples(tmp_path / "samples.jsonl")}
    for row in rows:
        lengths = [s.tokens for s in found[row["prompt_key"]].samples if s.correct and s.finish_reason == "stop"]
        assert row["tokens"] == min(lengths)


@pytest.mark.parametrize("change", [{"seed": 8}, {"samples": 5}, {"temperature": 0.5}, {"max_new_tokens": 41}])
def test_other_settings_do_not_go_on(
    whole: Path, tmp_path: Path, config: Callable[..., SampleConfig], change: dict[str, Any]
) -> None:
    (tmp_path / "samples.jsonl").write_bytes((whole.parent / "samples.jsonl").read_bytes())
    with pytest.raises(UsageError, match="set `output` to a new folder"):
        sample(config(tmp_path, **change))


def test_conditions_on_parts_read_the_same_samples_and_are_counted(tmp_path: Path, config: Callable[..., SampleConfig]) -> None:
    sources = [{**SOURCES[0], "add": {"paragraphs": {"weight": 0, "options": {"unit": "characters"}}}}]
    rules: dict[str, Any] = {"keep": "best", "at_most": None, "sources": sources}
    everything = rows_of(sample(config(tmp_path, **rules)))
    lengths = sorted(row["components"]["paragraphs/longest"] for row in everything)
    bound = lengths[len(lengths) // 2]
    data = sample(config(tmp_path, **rules, keep_if={"paragraphs/longest": f"< {bound:g}"}))
    rows = rows_of(data)
    assert rows == [row for row in everything if row["components"]["paragraphs/longest"] < bound]
    counts = json.loads((tmp_path / "summary.json").read_text())["counts"]
    assert counts["all"] == counts["arithmetic"]
    assert counts["all"][f"removed by paragraphs/longest < {bound:g}"] >= len(everything) - len(rows) > 0
    removed = {name: count for name, count in counts["all"].items() if name.startswith("removed by ")}
    assert counts["all"]["kept"] + sum(removed.values()) == counts["all"]["completions"]
    with pytest.raises(
        UsageError, match="source 'arithmetic': keep_if: no verdict has 'paragraphs/longst' .*paragraphs/longest"
    ):
        sample(config(tmp_path, **rules, keep_if={"paragraphs/longst": "< 5"}))


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            {"language": ">= 0.95"},
            "source 'arithmetic' has no part 'language'; its parts are arithmetic; add it, with weight 0",
        ),
        ({"arithmetic": "1"}, "'1' is no comparison with a number"),
        ({"arithmetic": 1}, "string"),
    ],
)
def test_conditions_that_cannot_be_are_refused_before_anything_is_sampled(
    conditions: dict[str, Any], message: str, tmp_path: Path, config: Callable[..., SampleConfig]
) -> None:
    with pytest.raises(ValueError, match=message):
        config(tmp_path, keep_if=conditions)


def test_conditions_are_about_what_grades_the_source(tmp_path: Path, config: Callable[..., SampleConfig]) -> None:
    graded = [{**SOURCES[0], "graded_by": {"environment": "paragraphs"}}]
    config(tmp_path, sources=graded, keep_if={"paragraphs/longest": "<= 300"})
    with pytest.raises(ValueError, match="has no part 'arithmetic'; its parts are paragraphs"):
        config(tmp_path, sources=graded, keep_if={"arithmetic": ">= 1"})


def test_nothing_kept_is_said(tmp_path: Path, config: Callable[..., SampleConfig]) -> None:
    with pytest.raises(UsageError, match="none of 1 x 2 completions was kept by the rule all_correct"):
        sample(config(tmp_path, prompts=2, samples=1, max_new_tokens=1, keep="all_correct"))
    assert json.loads((tmp_path / "summary.json").read_text())["counts"]["all"]["kept"] == 0
    assert not (tmp_path / "data.jsonl").exists()


def test_a_source_with_episodes_is_refused(tmp_path: Path, config: Callable[..., SampleConfig]) -> None:
    sources = ({"environment": "number_guessing"},)
    with pytest.raises(UsageError, match="'number_guessing' has episodes of several turns, which this command does not play"):
        sample(config(tmp_path / "out", sources=sources, prompts=2))
