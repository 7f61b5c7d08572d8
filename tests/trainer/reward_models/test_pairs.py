"""Preference pairs and labelled steps as files: what fits is read, what does not is named; pairs of graded completions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from verigym.cli import main
from verigym.envs import UsageError
from verigym.envs.contract.schema import Message
from verigym.trainer.reward_models.config import PairsConfig
from verigym.trainer.reward_models.figures import PairRow, pair_baselines, preferred, share, step_shares
from verigym.trainer.reward_models.labelled_solutions import estimates, read_labels, splits_of
from verigym.trainer.reward_models.pairs import (
    GradedCompletion,
    Preference,
    make_pairs,
    make_preferences,
    read_graded,
    read_preferences,
    split_by_prompt,
)

GOOD = {"prompt": "1+1=?", "chosen": "2", "rejected": "3"}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_pairs_are_read(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1=?"}]
    rows = [GOOD, {"prompt": chat, "chosen": "2", "rejected": "two\u2028lines", "margin": 1, "source": "hand"}, "", "  "]
    first, second = read_preferences(write(tmp_path / "pairs.jsonl", *rows))
    assert first == Preference((Message(role="user", content="1+1=?"),), "2", "3", 0.0)
    assert (second.margin, second.rejected, len(second.messages)) == (1.0, "two\u2028lines", 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "expected an object with prompt, chosen and rejected, got list"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ({"prompt": "a", "chosen": "b"}, "field 'rejected' is missing"),
        ({"prompt": "a", "rejected": "b", "chosen": 4}, "field 'chosen' must be a text, got int"),
        ({**GOOD, "chosen": " \n"}, "field 'chosen' is blank"),
        ({**GOOD, "rejected": "2"}, "fields 'chosen' and 'rejected' are the same text"),
        ({**GOOD, "margin": "1"}, "field 'margin' must be a number, got str"),
        ({**GOOD, "margin": True}, "field 'margin' must be a number, got bool"),
        ({**GOOD, "margin": -1}, "field 'margin' is -1; give at least 0"),
        ({**GOOD, "margin": float("nan")}, "not JSON: NaN is not JSON"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "rejected": "d"}', "not JSON: key 'rejected' occurs twice"),
        ({**GOOD, "margin": 10**400}, "field 'margin' must be a finite number"),
        ({**GOOD, "prompt": None}, "field 'prompt': expected a text or a list of messages"),
        ({**GOOD, "prompt": []}, "field 'prompt' has no message"),
        ({**GOOD, "prompt": [{"role": "user"}]}, "field 'prompt'"),
        ({**GOOD, "chosen": "\ud800"}, "field 'chosen' holds half a surrogate pair at character 0"),
        ({**GOOD, "prompt": "ab\udc00"}, "field 'prompt' holds half a surrogate pair at character 2"),
    ],
)
def test_a_bad_pair_is_named(tmp_path: Path, line: Any, message: str) -> None:
    path = write(tmp_path / "pairs.jsonl", GOOD, line)
    with pytest.raises(UsageError) as caught:
        read_preferences(path)
    assert f"pairs.jsonl:2: {message}" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe", None])
def test_a_file_without_pairs_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "pairs.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="pairs.jsonl"):
        read_preferences(path)


def test_no_prompt_is_on_both_sides() -> None:
    pairs = [Preference((Message(role="user", content=f"{n // 2}"),), f"a{n}", f"b{n}") for n in range(400)]
    train, held = split_by_prompt(pairs, 0.25, 1000)
    assert len(train) + len(held) == 400 and 50 < len(held) < 150
    assert not {one.key for one in train} & {one.key for one in held}
    assert split_by_prompt(pairs, 0.25, 7)[1] == held[:7] and split_by_prompt(pairs, 0.0, 7) == (pairs, [])


def graded(*rewards: float | None, prompt: str = "1+1=?") -> list[GradedCompletion]:
    messages = (Message(role="user", content=prompt),)
    return [GradedCompletion(messages, f"{prompt}{n}", reward) for n, reward in enumerate(rewards)]


def test_right_against_wrong_of_one_prompt() -> None:
    some = [*graded(1.0, 0.0, None, 0.0), *graded(1.0, 1.0, prompt="2+2=?"), *graded(1.0, 0.0)]
    pairs, counts = make_preferences(some, per_prompt=10, least_gap=0.5, gap_as_margin=2.0, seed=0)
    assert {(one.chosen, one.rejected) for one in pairs} == {("1+1=?0", "1+1=?1"), ("1+1=?0", "1+1=?3")}
    assert all(one.margin == 2.0 for one in pairs)
    assert counts == {"prompts": 2, "completions": 8, "unscored": 1, "prompts_without_a_pair": 1, "pairs": 2}
    assert make_preferences(some, per_prompt=10, least_gap=1.1, gap_as_margin=0, seed=0)[0] == []
    drawn_by_seed = [make_preferences(some, per_prompt=1, least_gap=0.5, gap_as_margin=0, seed=seed)[0] for seed in range(20)]
    (one,) = drawn_by_seed[0]
    drawn = {pairs[0].rejected for pairs in drawn_by_seed}
    assert one.margin == 0 and drawn == {"1+1=?1", "1+1=?3"}


def test_the_stage_of_pairs(tmp_path: Path) -> None:
    rows = [{"prompt": "1+1=?", "completion": text, "reward": reward} for text, reward in (("2", 1), ("3", 0), ("4", None))]
    data = write(tmp_path / "graded.jsonl", *rows)
    path = make_pairs(PairsConfig(output=tmp_path / "out", data=(data,)))
    assert read_preferences(path) == [Preference((Message(role="user", content="1+1=?"),), "2", "3")]
    assert json.loads((tmp_path / "out/summary.json").read_text())["counts"]["all"]["unscored"] == 1
    with pytest.raises(UsageError, match="keep: best and at_most: null"):
        make_pairs(PairsConfig(output=tmp_path / "none", data=(write(tmp_path / "same.jsonl", *rows[:1]),)))
    with pytest.raises(UsageError, match=r"graded.jsonl:1: field 'reward' is missing"):
        read_graded(write(data, {"prompt": "a", "completion": "b"}))


STEPS = {"prompt": "1+1=?", "steps": ["one ", "two"], "right": [3, 0], "scored": [4, 4]}


def test_labels_are_read(tmp_path: Path) -> None:
    other = {"prompt": "1+1=?", "steps": ["a", "b", "c"], "labels": [1, 0.25, None]}
    path = write(tmp_path / "labels.jsonl", {**STEPS, "split": "lines"}, {**STEPS, "scored": [4, 0]}, other)
    first, second, third = read_labels(path, "soft")
    assert (first.steps, first.labels) == (("one", "two"), (0.75, 0.0))
    assert second.labels == (0.75, None) and third.labels == (1.0, 0.25, None)
    assert read_labels(path, "hard")[0].labels == (1.0, 0.0)
    assert splits_of([path]) == {"split": "lines"}
    two = write(tmp_path / "two.jsonl", {**STEPS, "split": "lines"}, {**STEPS, "split": [","]})
    with pytest.raises(UsageError, match="steps were cut in 2 ways"):
        splits_of([two])
    assert splits_of([write(two, STEPS)]) == {}
    assert splits_of([write(two, {**STEPS, "split": [",", "</think>"]})]) == {"split": [",", "</think>"]}
    for hostile in (None, "by ear", [], [""], ["\ud800"], {"a": 1}, 3, [["x"]]):
        with pytest.raises(
            UsageError, match="two.jsonl:2: field 'split' must be one of paragraphs, lines, numbered, sentences"
        ):
            splits_of([write(two, STEPS, {**STEPS, "split": hostile})])


def test_estimates_by_hand() -> None:
    assert estimates((0, 1, 4, 0), (4, 4, 4, 0), "hard") == (0.0, 1.0, 1.0, None)
    assert estimates((0, 1, 4, 0), (4, 4, 4, 0), "soft") == (0.0, 0.25, 1.0, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": []}, "field 'steps' must be a list of texts"),
        ({"steps": ["a", " "]}, "field 'steps' must be a list of texts, at least one and none blank"),
        ({"steps": ["a", "\ud800"]}, "field 'steps' holds half a surrogate pair"),
        ({"right": [1]}, "field 'right' must be a list of 2 counts"),
        ({"right": [1.0, 0]}, "field 'right' must be a list of 2 counts"),
        ({"right": [True, 0]}, "field 'right' must be a list of 2 counts"),
        ({"scored": [1, -1]}, "field 'scored' must be a list of 2 counts"),
        ({"right": [5, 0]}, "field 'right': more roll-outs were right than field 'scored' has"),
        ({"labels": [1, 0]}, "fields 'labels' and 'right' both say"),
        ({"right": None, "scored": None}, "field 'right' must be a list of 2 counts"),
    ],
)
def test_a_bad_label_is_named(tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_labels(write(tmp_path / "labels.jsonl", STEPS, {**STEPS, **change}), "hard")
    assert f"labels.jsonl:2: {message}" in str(caught.value)


@pytest.mark.parametrize("labels", [[1], [2, 0], ["1", 0], [True, 0], [-1, 0], None, {}])
def test_bad_labels_of_another_origin(tmp_path: Path, labels: Any) -> None:
    with pytest.raises(UsageError, match="labels.jsonl:1: field 'labels' must be a list of 2 numbers"):
        read_labels(write(tmp_path / "labels.jsonl", {"prompt": "a", "steps": ["b", "c"], "labels": labels}), "hard")


def test_baselines_look_at_no_meaning() -> None:
    rows = [PairRow("a", 5, 3, True), PairRow("b", 3, 5, True), PairRow("c", 4, 4, False), PairRow("d", 9, 1, True)]
    found = pair_baselines(rows, rows)
    assert {name: one.value for name, one in found.items()} == {"longer": 0.625, "shorter": 0.375, "majority": 0.75}
    assert pair_baselines(rows, [PairRow("x", 1, 1, False)])["majority"].value == 0.25


def test_the_order_in_which_a_pair_is_shown_tells_nothing() -> None:
    messages = (Message(role="user", content="?"),)
    first = [Preference(messages, f"a{n}", f"b{n}").chosen_shown_first for n in range(400)]
    turned = [Preference(messages, f"b{n}", f"a{n}").chosen_shown_first for n in range(400)]
    assert 160 < sum(first) < 240 and turned == [not shown for shown in first]


def test_shares_are_over_prompts() -> None:
    assert [preferred(float(a), b) for a, b in ((1, 0), (1, 1), (0, 1))] == [2, 1, 0]
    assert preferred(numpy.float64(1), numpy.float64(0)) == 2, "numpy's truth values do not add up"
    one = share([2, 2, 0, 1], ["a", "a", "b", "c"])
    assert one.value == 0.625 and one.low is not None and one.high is not None and one.low <= 0.625 <= one.high
    assert share([2], ["a"]).low is None
    accuracy, floor = step_shares([0.9, 0.4, 0.6, 0.2], [1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"], True)
    assert (accuracy.value, floor.value) == (0.5, 0.5)
    with pytest.raises(ValueError, match="0 rows"):
        share([], [])


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        (
            "pairs",
            ["data=[absent.jsonl]"],
            "override 'data=[absent.jsonl]': field 'data': there is no file 'absent.jsonl'; give",
        ),
        ("pairs", ["data=absent.jsonl"], "override 'data=absent.jsonl': field 'data': Input should be a list"),
        ("reward-model", ["model=stage:base"], "override 'model=stage:base': field 'model': 'stage:base' names a stage"),
        ("reward-model", ["model=./no/model"], "override 'model=./no/model': model: there is no directory './no/model'"),
        ("reward-model", ["model=."], "model: the directory '.' has no config.json, so it holds no model"),
        (
            "reward-model",
            ["model=./no/model", "data=[graded.jsonl]"],
            "graded.jsonl:1: these are graded completions, not pairs",
        ),
        (
            "step-labels",
            ["sources=[{environment: storyy}]"],
            "source 'storyy': no environment is called 'storyy'; did you mean",
        ),
        (
            "step-labels",
            ["split=commas"],
            "field 'split': Input should be 'paragraphs', 'lines', 'numbered' or 'sentences'; got",
        ),
        ("step-labels", [], "stage.yaml:3: source 'storyx': no environment is called 'storyx'"),
    ],
)
def test_a_mistake_of_a_command_names_its_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    more: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graded.jsonl").write_text('{"prompt": "q", "completion": "a", "reward": 1}\n')
    Path("pairs.jsonl").write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    third = (
        "sources: [{environment: storyx}]\nmodel: ./m\nprompts: 2\n" if command == "step-labels" else "data: [pairs.jsonl]\n"
    )
    Path("stage.yaml").write_text(f"output: out\n\n{third}")
    assert main([command, "--config", "stage.yaml", *more]) == 2
    assert message in capsys.readouterr().err
