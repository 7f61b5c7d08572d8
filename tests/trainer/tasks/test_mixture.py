"""The mixture: weights, keyed order, held-out tasks that are held out, and what a checkpoint restores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from verigym.envs import Prompt, UsageError
from verigym.envs.generated.families import split_of
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.tasks.curriculum import Curriculum
from verigym.trainer.tasks.mixture import LOOK_ON, Mixture, Source, build_source, shares_of

DATA = Path(__file__).resolve().parents[3].parent / "shared/data"


def source(weight: float = 1.0, **fields: object) -> Source:
    return build_source(SourceConfig(weight=weight, **fields), seed=3, eval_prompts=8)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    return [source(3.0, environment="arithmetic"), source(1.0, environment="units")]


def batch(mixture: Mixture, step: int, count: int, fits: Callable[[Prompt], bool] | None = None) -> list[str]:
    return [mixture.draw(source, fits).text for source in mixture.plan(step, count)]


def test_counts_follow_the_weights_in_every_step(sources: list[Source]) -> None:
    mixture = Mixture(sources, 0)
    total: Counter[str] = Counter()
    for step in range(20):
        counts = Counter(source.label for source in mixture.plan(step, 10))
        assert counts["arithmetic"] in (7, 8)
        total += counts
    assert sum(total.values()) == 200
    assert abs(total["arithmetic"] - 150) <= 10


@pytest.mark.parametrize(
    ("weights", "least", "expected"),
    [
        ((3, 1), (0, 0), (0.75, 0.25)),
        ((98, 1, 1), (0, 0.125, 0.125), (0.75, 0.125, 0.125)),
        ((9, 1), (0.5, 0.5), (0.5, 0.5)),
        ((1, 1, 2), (0.5, 0, 0), (0.5, 0.5 / 3, 1 / 3)),
        ((8, 4, 1), (0, 0.3, 0.3), (0.4, 0.3, 0.3)),  # the second falls short only once the third has its share
        ((1,), (0,), (1.0,)),
    ],
)
def test_shares_follow_the_weights_above_the_least_share(
    weights: Any, least: Any, expected: Any, sources: list[Source]
) -> None:
    parts = [replace(sources[0], weight=w, min_share=m) for w, m in zip(weights, least, strict=True)]
    assert shares_of(parts) == pytest.approx(expected)


def test_a_least_share_is_kept_in_every_step(sources: list[Source]) -> None:
    parts = [replace(sources[0], weight=99.0), replace(sources[1], min_share=0.25)]
    mixture = Mixture(parts, 0)
    for step in range(20):
        assert Counter(source.label for source in mixture.plan(step, 8))["units"] == 2


def test_the_same_state_draws_the_same_tasks(sources: list[Source]) -> None:
    whole = Mixture(sources, 0)
    steps = [batch(whole, step, 6) for step in range(5)]
    resumed = Mixture(sources, 0)
    for step in range(3):
        batch(resumed, step, 6)
    second = Mixture(sources, 0)
    second.restore(resumed.drawn)
    assert [batch(second, step, 6) for step in (3, 4)] == steps[3:]


def test_other_sources_are_refused(sources: list[Source]) -> None:
    with pytest.raises(UsageError, match="sources"):
        Mixture(sources, 0).restore({"math": 3})


def test_held_out_tasks_never_occur_in_training(sources: list[Source]) -> None:
    assert all(part.endless for part in sources)
    for part in sources:
        held_out = {prompt.text for prompt in part.held_out}
        assert len(held_out) == 8
        assert all(split_of(text) == "test" for text in held_out)
        assert not held_out & {part.train(index).text for index in range(500)}


def test_prompts_that_do_not_fit_are_passed_over(sources: list[Source]) -> None:
    mixture = Mixture(sources[:1], 0)
    drawn = batch(mixture, 0, 5, fits=lambda prompt: len(prompt.text) < 7)
    assert all(len(text) < 7 for text in drawn)
    assert mixture.drawn["arithmetic"] > 5
    with pytest.raises(UsageError, match="max_prompt_tokens"):
        mixture.draw(sources[0], fits=lambda prompt: False)


def test_a_curriculum_passes_over_known_tasks_and_brings_hard_ones_again(sources: list[Source]) -> None:
    arithmetic = sources[0]
    curriculum = Curriculum(["arithmetic"], 0, hard_share=0.0, easy_share=0.0, hard_below=0.2, easy_above=0.8)
    mixture = Mixture([arithmetic], 0, curriculum)
    first = [mixture.draw(arithmetic) for _ in range(4)]
    for prompt, rate in zip(first, (0.0, 0.5, 1.0, 0.5), strict=True):
        curriculum.observe("arithmetic", prompt.key, rate)
    mixture.drawn["arithmetic"] = 0  # as at the start of the next epoch of a data set
    assert [mixture.draw(arithmetic) for _ in range(2)] == [first[1], first[3]]
    curriculum.hard_share = 1.0
    for _ in range(2):
        curriculum.next_step()
        assert mixture.draw(arithmetic) == first[0]
    assert mixture.draw(arithmetic) not in first, "once a step"


def test_a_task_that_is_passed_over_is_not_measured(sources: list[Source]) -> None:
    arithmetic = sources[0]
    curriculum = Curriculum(["arithmetic"], 0, hard_share=0.0, easy_share=0.0, hard_below=0.2, easy_above=0.8)
    mixture = Mixture([arithmetic], 0, curriculum)
    first = mixture.draw(arithmetic)
    curriculum.observe("arithmetic", first.key, 1.0)
    mixture.drawn["arithmetic"] = 0
    measured: list[Prompt] = []
    second = mixture.draw(arithmetic, lambda prompt: not measured.append(prompt))  # type: ignore[func-returns-value]
    assert measured == [second] != [first]


def test_a_curriculum_takes_what_there_is_where_no_task_is_normal(sources: list[Source]) -> None:
    arithmetic = sources[0]
    curriculum = Curriculum(["arithmetic"], 0, hard_share=0.0, easy_share=0.0, hard_below=0.2, easy_above=0.8)
    one = replace(arithmetic, train=lambda index: arithmetic.train(0))
    mixture = Mixture([one], 0, curriculum)
    prompt = mixture.draw(one)
    curriculum.observe("arithmetic", prompt.key, 1.0)
    assert mixture.draw(one) == prompt
    assert mixture.drawn["arithmetic"] == 1 + LOOK_ON + 1


def test_a_gate_puts_the_format_before_the_reward() -> None:
    gated = source(environment="units", format={})
    prompt = gated.train(0)
    answer = prompt.references["units"].model_dump()["answer"]
    assert gated.environment.score(prompt, f"<think>so</think>\\boxed{{{answer}}}").reward == 1
    assert gated.environment.score(prompt, f"\\boxed{{{answer}}}").reward == 0


@needs("shared data")
def test_a_data_set_is_shuffled_anew_each_epoch_and_seen_whole() -> None:
    part = source(dataset="gsm8k", data_dir=DATA)
    size = 7473
    first = [part.train(index).metadata["row_index"] for index in range(size)]
    second = [part.train(index).metadata["row_index"] for index in range(size, size + 50)]
    assert sorted(first) == list(range(size))
    assert first[:50] != second
    assert first[:50] != list(range(50))
    assert {prompt.metadata["split"] for prompt in part.held_out} == {"test"}
    assert not part.endless


@needs("shared data")
def test_a_split_that_is_for_evaluation_only_is_not_trained_on() -> None:
    with pytest.raises(UsageError, match="'test' of data set 'gsm8k' is for evaluation only"):
        source(dataset="gsm8k", split="test", eval_split=None, data_dir=DATA)


OVERLAPPING = """
name: mine
description: Sums.
licence: CC0-1.0
url: https://example.org
files: {train: train.jsonl, test: test.jsonl}
evaluation_only: [test]
environment: math
columns: {question: string, answer: string}
prompt: "{question}"
reference: {answer: {column: answer}}
"""


@pytest.mark.parametrize("shared", [0, 2])
def test_held_out_prompts_that_are_trained_on_are_counted(
    shared: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mine.yaml").write_text(OVERLAPPING)
    for split, numbers in (("train", range(10)), ("test", range(10 - shared, 16 - shared))):
        rows = [json.dumps({"question": f"{n}+1?", "answer": str(n + 1)}) for n in numbers]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows))
    config = SourceConfig(dataset=str(tmp_path / "mine.yaml"), name="sums", data_dir=tmp_path, template="think")
    build_source(config, seed=0, eval_prompts=100)
    said = [record.getMessage() for record in caplog.records]
    begin = "source 'sums': 2 of 6 prompts of mine/test stand in mine/train too (rows: 1 is 9, 2 is 10); "
    assert [message[: len(begin)] for message in said] == ([begin] if shared else [])


def test_neighbouring_seeds_do_not_share_their_tasks() -> None:
    a, b = (build_source(SourceConfig(environment="arithmetic"), seed=seed, eval_prompts=1) for seed in (0, 1))
    first, second = ({part.train(index).text for index in range(300)} for part in (a, b))
    assert len(first & second) < 30


def test_a_mistake_in_a_source_names_it_once() -> None:
    for source, message in (
        (SourceConfig(environment="arithmetics"), "source 'arithmetics': no environment is called 'arithmetics'; did you mean"),
        (SourceConfig(environment="arithmetic", name="mine", options={"digitts": 2}), "source 'mine': options of 'arithmetic'"),
        (SourceConfig(environment="math"), "source 'math': environment 'math' generates no tasks"),
    ):
        with pytest.raises(UsageError) as caught:
            build_source(source, 0, 1)
        assert str(caught.value).startswith(message) and str(caught.value).count("source '") == 1


def test_added_rewards_may_weigh_as_much_where_a_source_says_so() -> None:
    fields = {"environment": "units", "add": {"format": {"weight": 1.0, "options": {"preset": "r1"}}}}
    with pytest.raises(UsageError, match="a wrong answer could outrank a right one"):
        build_source(SourceConfig.model_validate(fields), 0, 1)
    built = build_source(SourceConfig.model_validate({**fields, "added_may_dominate": True}), 0, 1)
    assert built.environment.reward_range == (0.0, 2.0)
    with pytest.raises(ValueError, match="added_may_dominate is about added rewards"):
        SourceConfig.model_validate({"environment": "units", "added_may_dominate": True})
