"""Comparing answers to reasoning-gym's tasks: cases as data, none of which needs the library."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from cpu_time import within

from verigym.envs import Completion, Status, UsageError, load
from verigym.envs.reasoning_gym.comparing import KINDS
from verigym.envs.reasoning_gym.golds import gold_of
from verigym.envs.reasoning_gym.strict import every_box_can_move, every_car_can_move
from verigym.envs.reasoning_gym.tasks import REFUSED, TASKS

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "reasoning_gym.jsonl").read_text().splitlines()]
DOCS = Path(__file__).resolve().parents[3] / "docs" / "reasoning_gym.md"


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = load("reasoning_gym", task=case["task"])
    prompt = env.prompt("q", task=case["task"], answer=case["answer"])
    score = env.score(prompt, case["completion"])
    assert score.status == case["expected"], score.reason
    assert (score.reward == 1) is (case["sort"] == "accept")


def test_every_kind_has_cases_of_each_sort() -> None:
    seen = {(TASKS[case["task"]].how, case["expected"]) for case in CASES}
    assert {(kind, verdict) for kind in KINDS for verdict in ("correct", "incorrect")} <= seen


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_any_text_gets_a_verdict_in_linear_time(kind: str) -> None:
    for gold in ("12", "[[1, 2]]", "a is a b", "1/2", "1 + 2", "2 + 3i"):
        for text in ("\ud800", "9" * 10_000, "[" * 10_000, "1/" * 5_000, "9e999", "1e-999", "a is a b," * 1_000, "0x" * 4_000):
            assert KINDS[kind](text, gold) is False


def test_refused_tasks_say_why() -> None:
    for name, why in REFUSED.items():
        with pytest.raises(UsageError, match=f"task '{name}' .* not supported: {re.escape(why)}"):
            load("reasoning_gym", task=name)
    with pytest.raises(UsageError, match="did you mean 'sudoku'"):
        load("reasoning_gym", task="sudokku")
    with pytest.raises(UsageError, match="'seed' is set by prompt_at"):
        load("reasoning_gym", config={"seed": 1})


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("simple_integration", "__import__('os').getpid()"),
        ("simple_integration", "x.func"),
        ("simple_integration", "lambda x: x"),
        ("simple_integration", "Integral(x)"),
        ("polynomial_multiplication", "exec(1)"),
        ("n_queens", "exit()"),
        ("rubiks_cube", "U99999999"),
        ("boxnet", "[{'a': 1 + 1}]"),
        ("kakurasu", "1 1\n2 1"),
    ],
)
def test_only_the_alphabet_of_a_task_reaches_the_library(task: str, text: str) -> None:
    """Here without the library at all: what does not fit is judged before it would be asked."""
    env = load("reasoning_gym", task=task)
    score = env.score(env.prompt("q", task=task, answer="?", seed=1), rf"\boxed{{{text}}}")
    assert score.status is Status.INCORRECT and "form" in score.reason


def test_shapes_take_linear_time() -> None:
    for task in TASKS.values():
        for text in ("a" * 10_000, "1 " * 5_000, "(" * 10_000, "A-1 " * 2_500, "[" + '"fill A",' * 1_000, "up " * 3_300 + "x"):
            if task.shape is not None:
                task.shape.fullmatch(text)


@pytest.mark.parametrize(
    ("task", "first", "piece"),
    [
        ("quantum_lock", "A", "   B"),
        ("tower_of_hanoi", "Move disk 1 from Peg 1 to Peg 2", "\n\n\n\nMove disk 1 from Peg 1 to Peg 2"),
        ("cryptarithm", "A=1", "  ,  B  =  2"),
        ("word_ladder", "A", "  ,  B"),
        ("rush_hour", "A+1", " , ,A+1"),
        ("graph_color", '{"1":1', '  ,  "1"  :  1'),
        ("simple_integration", "1.5", "+1.5*sin(x)"),
    ],
)
def test_blanks_between_moves_are_read_in_one_way(task: str, first: str, piece: str) -> None:
    """Where two parts of a repeated piece could share its blanks, a wrong end would take the power of the pieces to see."""
    shape = TASKS[task].shape
    assert shape is not None
    for _ in within(2):
        assert shape.fullmatch(first + piece * 150 + "!") is None
        assert shape.fullmatch(first + piece * 20_000 + "!") is None
    end = "}" if task == "graph_color" else ""
    assert shape.fullmatch(first + piece * 150 + end)


def test_a_task_with_many_right_answers_needs_its_seed() -> None:
    env = load("reasoning_gym", task="sokoban")
    score = env.score(env.prompt("q", task="sokoban", answer="U"), r"\boxed{UD}")
    assert score.error is not None and score.error.kind == "gold_invalid"


def test_the_answer_in_tags() -> None:
    env = load("reasoning_gym", task="gcd", answer_in="tag")
    prompt = env.prompt("q", task="gcd", answer="2")
    assert env.score(prompt, env.gold(prompt) or "").reward == 1
    assert env.score(prompt, r"\boxed{2}").status is Status.NO_ANSWER
    assert env.score(prompt, Completion(text="two", finish_reason="length")).status is Status.TRUNCATED


# A car (AA) that one other (B, upright) bars: B goes up one square, then A to the right by four.
BOARD = "oooooo" + "ooBooo" + "AABooo" + "oooooo" * 3


def test_the_way_out_of_rush_hour() -> None:
    item = {"metadata": {"board_config": BOARD}}
    way = gold_of("rush_hour", item)
    assert way == "B-1 A+4"
    assert every_car_can_move(item, way)
    assert not every_car_can_move(item, "A+4")
    assert not every_car_can_move(item, "B-2 A+4")
    assert not every_car_can_move(item, "C+1")
    assert gold_of("rush_hour", {"metadata": {"board_config": "oooooo" * 2 + "AAxooo" + "oooooo" * 3}}) == ""


def test_boxes_are_carried_square_by_square() -> None:
    squares = {"0.5_0.5": ["box_red"], "0.5_1.5": [], "1.5_0.5": [], "1.5_1.5": ["target_red"]}
    item = {"metadata": {"initial_state": squares}}
    plan = json.loads(gold_of("boxnet", item))
    assert len(plan) == 3
    assert every_box_can_move(item, json.dumps(plan))
    assert not every_box_can_move(item, json.dumps(plan * 2))
    assert not every_box_can_move(item, json.dumps([{"Agent[0.5, 0.5]": "move(box_red, square[1.5, 1.5])"}]))
    assert not every_box_can_move(item, json.dumps([{"Agent[0.5, 0.5]": "move(box_red, target_red)"}]))
    assert squares["0.5_0.5"] == ["box_red"]


def test_the_page_has_every_task() -> None:
    page = DOCS.read_text(encoding="utf-8")
    for name, task in TASKS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{task.how}` |"))
        assert f" {name}" in row.replace(",", ""), name
    for name, why in REFUSED.items():
        assert f"| `{name}` | {why} |" in page
    assert f"{len(TASKS)} of its 106, " in page
    assert len(TASKS) + len(REFUSED) == 106
