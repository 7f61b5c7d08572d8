import json
from collections import Counter
from pathlib import Path

import pytest
from cpu_time import within
from needs import needs

from verigym.envs.process.arithmetic import TooMuchArithmetic, first_error, verify
from verigym.envs.process.claims import chains

DATA = Path(__file__).resolve().parents[4] / "shared/data/process_bigbench_mistake/multistep_arithmetic.jsonl"


def test_the_first_wrong_step_is_named():
    steps = ["Let A = (2 * 3) = 6.", "Let B = (1 - 5) = 4.", "Then A + B = 6 + -4 = 3."]
    assert first_error(steps) == 1
    verdict = verify(steps)[1]
    assert verdict.claims == 1 and "1 - 5 is -4, not 4" in verdict.wrong.replace("(", "").replace(")", "")
    assert first_error(["Let A = (2 * 3) = 6."]) is None
    assert first_error([]) is None


def test_a_wrong_value_carried_on_is_no_second_error():
    verdicts = verify(["A = 2 + 2 = 5.", "A + 1 = 5 + 1 = 6."])
    assert [bool(verdict.wrong) for verdict in verdicts] == [True, False]


@pytest.mark.parametrize(
    "text",
    ["1+1=2 " * 12_500, "=" * 25_000, "(" * 12_500 + "=1", "1" * 25_000 + "=1", "111," * 7_500 + "1=1", "a=" * 12_500,
     "9^9^9^9^9=1 " * 1_250, "1+" * 12_500 + "1=2", "\\frac{" * 5_000 + "=1", "1\n" * 12_500 + "=1", "**" * 12_500 + "=1",
     "[" * 12_500 + "]" * 12_500, "((1)]" * 7_500 + "=1", "12 +\n" * 7_500 + "1=2", "12\n+ 5\n" * 5_000 + "=1",
     "1=2, " * 7_500, "(1/2) 3 " * 5_000 + "=1", "1:2=3:" * 7_500, "101_2" * 7_500, "f(1," * 10_000 + "=1",
     "1 (a b) + " * 3_750 + "=1", "\u5341" * 25_000 + "=1", "\u00b2\u207a" * 20_000 + "=1", "\u246b\u2795" * 15_000 + "=1",
     "1." + " " * 25_000 + "+", "12 \u2014 " * 7_500 + "=1", "&times;" * 5_000 + "=1"],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_hostile_text_takes_bounded_time(text):
    for _ in within(2):  # a quadratic reading takes four or more
        try:
            verify([text])
        except TooMuchArithmetic as much:
            assert "more" in str(much)


@pytest.mark.slow
@needs("shared data")
def test_first_errors_of_bigbench_mistake_are_found_far_above_the_majority():
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    majority = Counter(row["mistake_index"] for row in rows).most_common(1)[0][1] / len(rows)
    found = sum(first_error(row["steps"]) == row["mistake_index"] for row in rows) / len(rows)
    assert majority == pytest.approx(76 / 300)
    assert found >= 0.93  # 281 of 300; of the 19 others, most are wrong steps that the annotators passed


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("1,000,000 + 1 = 1,000,001", ("1000000+1", "1000001")),
        ("1,000,000.5 + 1 = 2", ("1000000.5+1", "2")),
        ("1{,}000 + 1 = 2", ("1000+1", "2")),
    ],
)
def test_commas_of_thousands(text, sides):
    (chain,) = chains(text)
    assert tuple(side.texts[0] for side in chain.sides) == sides


def test_what_follows_a_comma_that_parts_no_thousands_is_the_rest_of_a_number():
    (chain,) = chains("1,000,0000 + 1 = 2")
    assert not chain.sides[0].whole
    assert verify(["1,000,0000 + 1 = 2"]) == [(0, "", 1)]
