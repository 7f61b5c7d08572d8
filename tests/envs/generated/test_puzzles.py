"""Families with levels: right by other means, near misses wrong, splits disjoint, levels harder, draws pinned."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from verigym.envs import Completion, Status, UsageError, load
from verigym.envs.contract.generated import split_of
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.generated.puzzles.expression import Unreadable, work_out

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "puzzles.jsonl").read_text().splitlines()]
# sha256 of the first twenty training prompts of levels 1 to 5: a change of these is a change of every run's data.
PINNED = {
    "fractions": "5cf582390c94b124",
    "algebra": "c9b89cee7e9f8f69",
    "counting": "e46d8112e924b61c",
    "dates": "81d1f14386ce1d61",
    "sorting": "5a8791147a842ab1",
    "logic": "3e6fc18789c3ba33",
    "strings": "b141f40e0c3ee83c",
    "graphs": "cc895c3065f458b4",
    "countdown": "4ace05ec78530940",
}
NAMES = tuple(PINNED)
LEVELS = range(1, 6)


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = load(case["environment"], **case.get("options", {}))
    score = env.score(env.prompt("q", **case["reference"]), case["completion"])
    assert score.status.value == case["expected"], score
    assert score.reward == float(case["expected"] == "correct")


def test_every_family_has_cases_of_each_sort() -> None:
    for name in (*NAMES, "arithmetic", "units", "bases", "story"):
        sorts = {case["sort"] for case in CASES if case["environment"] == name}
        assert sorts == {"accept", "reject", "exploit"}, name
    assert all((case["expected"] == "correct") is (case["sort"] == "accept") for case in CASES)


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_pinned(name: str) -> None:
    keys = [load(name, level=level).prompt_at("train", 0, index).key for level in LEVELS for index in range(20)]
    assert sha256_hex(" ".join(keys))[:16] == PINNED[name]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_gold_is_right_and_a_mutilated_gold_is_not(name: str, level: int) -> None:
    env = load(name, level=level)
    for index in range(15):
        prompt = env.prompt_at("test", 3, index)
        gold = env.gold(prompt)
        assert env.score(prompt, gold).status is Status.CORRECT, (prompt.text, gold)
        answer = gold.removeprefix("\\boxed{").removesuffix("}")
        for wrong in (f"{answer}, {answer}", f"{answer} or 7777", f"{answer}9{answer}", f"7777 {answer}", f"1000{answer}", ""):
            score = env.score(prompt, f"\\boxed{{{wrong}}}")
            assert score.reward == 0, (prompt.text, wrong, score)
        for text in (answer, prompt.text, f"<think>{gold}</think>", f"{gold} \\boxed{{nothing}}", f"<think>{gold}"):
            assert env.score(prompt, text).reward == 0, (prompt.text, text)


@pytest.mark.parametrize("name", NAMES)
def test_splits_share_no_question_whatever_seed_and_level(name: str) -> None:
    texts: dict[str, set[str]] = {"train": set(), "test": set()}
    for split, seed, level in itertools.product(texts, (0, 1), (1, 3)):
        env = load(name, level=level)
        texts[split] |= {env.prompt_at(split, seed, index).text for index in range(40)}
    assert not texts["train"] & texts["test"]
    assert {split_of(text) for text in texts["test"]} == {"test"}
    assert len(texts["train"]) > 120
    with pytest.raises(UsageError, match="train and test, not 'dev'"):
        load(name).prompt_at("dev", 0, 0)


def _figures(text: str) -> list[int]:
    return [int(figure) for figure in re.findall(r"[0-9]+", text)]


# What makes a task long to work out, read off its text.
HARD: dict[str, Callable[[str], float]] = {
    "fractions": lambda text: text.count("/") + max(_figures(text)) / 100,
    "algebra": lambda text: 3 * text.count("=") + len(re.findall(r"[xyz(]", text)),
    "counting": lambda text: max(_figures(text)) / 1000 + len(_figures(text)),
    "dates": lambda text: _figures(text)[0] * (10 if "weekdays" in text else 1),
    "sorting": lambda text: text.count(","),
    "logic": lambda text: text.count("says"),
    "strings": lambda text: text.count(";"),
    "graphs": lambda text: len(re.findall(r"[A-L]-[A-L]", text)) + 3 * ("length" in text),
    "countdown": lambda text: len(_figures(text)) * max(_figures(text)[1:]) ** 0.5,
}


@pytest.mark.parametrize("name", NAMES)
def test_levels_get_harder(name: str) -> None:
    means = []
    for level in LEVELS:
        env = load(name, level=level)
        means.append(sum(HARD[name](env.prompt_at("train", 0, index).text) for index in range(60)) / 60)
    if name == "dates":  # weekdays begin again with fewer of them, at ten times the work
        assert means[0] < means[1] < means[2] and means[3] < means[4] and means[3] > means[1]
    else:
        assert all(low < high for low, high in itertools.pairwise(means)), means


@pytest.mark.parametrize("level", [0, 6, "hard"])
def test_other_levels_are_refused(level: object) -> None:
    for name in ("fractions", "logic"):
        with pytest.raises(UsageError, match="level"):
            load(name, level=level)


def _drawn(name: str, count: int = 60) -> list[tuple[str, str]]:
    found = []
    for level in LEVELS:
        env = load(name, level=level)
        found += [env.drawn("train", 5, index)[:2] for index in range(count // 5)]
    return found


def test_fractions_by_the_other_reader() -> None:
    for question, answer in _drawn("fractions"):
        row = question.removeprefix("Work out ").partition(". ")[0]
        assert work_out(row)[0] == Fraction(answer)


def test_algebra_by_putting_the_solution_in() -> None:
    for question, answer in _drawn("algebra"):
        found = re.fullmatch(r"Solve (.+) = (.+) for x\.", question)
        if found is None:
            continue
        left, right = (
            work_out(
                re.sub(r"([0-9]?)(x|\((?=x))", lambda at: f"{at[1]}{'*' if at[1] else ''}{at[2]}", side).replace(
                    "x", f"({answer})"
                )
            )[0]
            for side in found.groups()
        )
        assert left == right, question


def test_counting_by_inclusion_and_exclusion() -> None:
    from math import lcm

    for question, answer in _drawn("counting"):
        start, end, *divisors = _figures(question)

        def upto(*parts: int, first: int = start, last: int = end) -> int:
            return last // lcm(*parts) - (first - 1) // lcm(*parts)

        total = sum(upto(one) for one in divisors[:2])
        if len(divisors) > 1:
            total -= upto(*divisors[:2]) * (2 if "exactly one" in question else 1)
        if len(divisors) > 2:
            p, q, r = divisors
            total -= upto(p, r) + upto(q, r) - upto(p, q, r)
        assert total == int(answer), question


def test_dates_by_the_ordinal_and_by_whole_weeks() -> None:
    for question, answer in _drawn("dates"):
        count = _figures(question)[0]
        day, found = date.fromisoformat(re.search(r"\d{4}-\d\d-\d\d", question)[0]), date.fromisoformat(answer)  # type: ignore[index]
        low, high = sorted((day.toordinal(), found.toordinal()))
        assert ("before" in question) is (found < day)
        if "weekdays" not in question:
            assert high - low == count
        else:
            between = range(low, high) if found < day else range(low + 1, high + 1)
            assert sum(date.fromordinal(at).weekday() < 5 for at in between) == count
            assert found.weekday() < 5
    assert date(2024, 2, 28) + timedelta(days=2) == date(2024, 3, 1)


def test_expressions_are_read_exactly_and_nothing_else_is_run() -> None:
    assert work_out("(1 + 2) * 3 - 4 / 8") == (Fraction(17, 2), [1, 2, 3, 4, 8], None)
    assert work_out(r"\frac{3}{1+5} \times 4 = 2") == (Fraction(2), [3, 1, 5, 4], Fraction(2))
    assert work_out("8 - 3 - 2")[0] == 3 and work_out("8 / 4 / 2")[0] == 1 and work_out("-(2-5)")[0] == 3
    bad = (
        "",
        "1 / 0",
        "2 ** 3",
        "1.5 + 1",
        "2(3)",
        "(1",
        "1)",
        "1 2",
        "abs(1)",
        "1e3",
        "1 = 2 = 3",
        "9 = 4 + 5 = 9",
        "4 + 5 = 3 * 3",
        "= 9",
        "9 =",
        "\u0663 + 1",
    )
    for text in (*bad, "(" * 200 + "1" + ")" * 200, "-" * 250 + "1", "1+" * 200 + "1", "__import__('os')", "9999999999"):
        with pytest.raises(Unreadable):
            work_out(text)


def test_any_right_expression_and_any_shortest_path_will_do() -> None:
    env = load("countdown")
    prompt = env.prompt("q", numbers=(2, 6, 9), target=66)
    assert env.gold(prompt) is None
    for right in ("(9+2)*6", "6*(2+9)", r"6 \cdot (9 + 2) = 66", "6*9+6*2"):
        assert env.score(prompt, f"\\boxed{{{right}}}").reward == float("6*9+6" not in right), right
    env = load("graphs")
    edges = [("A", "B", 1), ("B", "D", 2), ("A", "C", 2), ("C", "D", 1)]
    prompt = env.prompt("q", edges=edges, start="A", goal="D", answer="A-B-D")
    for path in ("A-B-D", "A-C-D", r"A \to C \to D"):
        assert env.score(prompt, f"\\boxed{{{path}}}").reward == 1


@pytest.mark.parametrize(
    ("name", "reference", "message"),
    [
        ("countdown", {"numbers": [2, 3], "target": 7, "answer": "2+3"}, "not 7"),
        ("countdown", {"numbers": [-2, 3], "target": 1}, "below 0"),
        ("countdown", {"numbers": [], "target": 1}, "numbers"),
        ("graphs", {"edges": [["A", "B", 0]], "start": "A", "goal": "B", "answer": "A-B"}, "shorter than 1"),
        (
            "graphs",
            {"edges": [["A", "B", 1], ["B", "C", 1], ["A", "C", 3]], "start": "A", "goal": "C", "answer": "A-C"},
            "shorter one",
        ),
        ("dates", {"answer": ""}, "answer"),
    ],
)
def test_references_that_cannot_be_judged_by_are_refused(name: str, reference: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(name).prompt("q", **reference)


def test_a_cut_off_completion_is_truncated() -> None:
    env = load("dates")
    score = env.score(env.prompt("q", answer="2020-01-01"), Completion(text="It is", finish_reason="length"))
    assert score.status is Status.TRUNCATED
    assert env.score(env.prompt("q", answer="2020-01-01"), "\\boxed{" + "1" * 3000 + "}").status is Status.INCORRECT


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_every_option(name: str) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "procedural.md").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith(f"| `{name}` |") for line in page)
    env = load(name)
    fields = dict(env.options_type.model_fields)
    if "unsimplified" in fields:  # the options of math are on its own page
        fields = {"level": fields["level"]}
    else:
        fields |= env.reference_type.model_fields
    for field, info in fields.items():
        words = " ".join((info.description or "").split())
        assert any(line.startswith(f"| `{field}` |") and line.endswith(f"| {words} |") for line in page), field
