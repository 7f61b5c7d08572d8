"""The generators of right rewrites and wrong mutations: enough of them, the same in every run, and what they claim to be."""

import pytest
from mathgen.golds import DATASETS, Gold, load
from mathgen.mutations import MUTATIONS, mutations
from mathgen.rewrites import REWRITES, rewrites
from mathgen.text import elements, kind, plain_number, split_top
from mathgen.value import differ, value
from needs import lack

OWN = (
    "7", "-12", "1,024", r"12{,}345", "0.125", r"\frac{3}{4}", r"-\frac{7}{2}", r"7\frac34", r"2\sqrt{5}", r"3+4i", "x^2+3x-4",
    r"8\pi - 16", r"\frac{\pi}{6}", "(1, -2)", r"\left(\frac12, 3\right)", r"\{-3, 3, 5\}", r"[0, \infty)", "-2, 1", "x = 5",
    r"(-\infty, -5] \cup [5, \infty)", "y = 2x + 3", r"1 \le x < 4", r"\text{Friday}", r"\text{(B)}", "C", r"75^\circ", r"25\%",
    r"\$18.90", r"25 \text{ cm}^2", "506_7", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\sin 2x", "4.5e33", "3:1",
    r"1 \pm \sqrt{2}", "$69$,$84$", r"$5$ or $9$", "MR=SRMC", r"\frac{1}{4-\omega^{2}}", r"\sqrt[3]{4}",
)  # fmt: skip
GOLDS = [Gold("own", index, "What is it?", text) for index, text in enumerate(OWN)]


@pytest.mark.parametrize("gold", GOLDS, ids=lambda gold: gold.text)
def test_ten_of_each_and_all_different(gold: Gold) -> None:
    for made in (rewrites(gold), mutations(gold)):
        texts = [text for _, text in made]
        assert len(texts) == 10
        assert len({gold.text, *texts}) == 11


@pytest.mark.parametrize("gold", GOLDS, ids=lambda gold: gold.text)
def test_an_independent_evaluator_agrees(gold: Gold) -> None:
    assert not [(name, text) for name, text in rewrites(gold, 20) if differ(gold.text, text)]
    assert not [(name, text) for name, text in mutations(gold, 20) if differ(gold.text, text) is False]


@pytest.mark.parametrize("gold", GOLDS[::4], ids=lambda gold: gold.text)
def test_the_same_in_every_run_and_other_ones_for_the_next_gold(gold: Gold) -> None:
    assert rewrites(gold) == rewrites(gold)
    assert mutations(gold) == mutations(gold)
    assert mutations(gold) != mutations(gold._replace(row=gold.row + 1))


@pytest.mark.slow
def test_every_generator_makes_something() -> None:
    seen = {name.split("+")[0] for gold in GOLDS for name, _ in rewrites(gold, 60)}
    assert set(REWRITES) - seen <= {
        "leading_zero",
        "root_as_power",
        "reversed_set",
        "matrix_fractions",
        "name_and_set",
        "moved_to_one_side",
    }
    seen = {name for gold in GOLDS for name, _ in mutations(gold, 60)}
    assert set(MUTATIONS) - seen <= {
        "i_dropped",
        "comparison_changed",
        "letter_changed",
        "word_hedged",
        "part_of_union_dropped",
    }


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_golds_of_a_data_set(dataset: str) -> None:
    loaded = load(dataset)
    if loaded.absent:
        lack("shared data", loaded.absent)
    expected = {
        "math5000": 5000,
        "math500": 500,
        "gsm8k_test": 1319,
        "gsm8k_train": 7473,
        "aime24": 30,
        "amc23": 40,
        "minerva": 272,
    }
    expected |= {"olympiadbench": 675, "gaokao2023en": 385, "svamp": 1000}
    assert len(loaded.golds) + loaded.empty == expected[dataset]
    assert loaded.empty == (2 if dataset == "gaokao2023en" else 0)
    assert all(gold.text and gold.question for gold in loaded.golds)
    for gold in loaded.golds[:: max(1, len(loaded.golds) // 12)]:
        assert len(rewrites(gold)) == len(mutations(gold)) == 10, gold.text
        assert not [text for _, text in rewrites(gold) if differ(gold.text, text)], gold.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", "integer"), ("-.5", "decimal"), (r"\frac12", "fraction"), (r"3\frac{1}{2}", "mixed"), (r"8 \%", "percent"),
        (r"\$4", "money"), (r"30^\circ", "degrees"), (r"5\text{ cm}^2", "quantity"), ("1101_4", "base"),
        (r"\text{(C)}", "choice"),
        (r"\text{odd}", "words"), ("1, 2", "list"), ("(1, 2)", "tuple"), ("[1, 2)", "interval"), (r"\{1\}", "set"),
        (r"(1,2)\cup(3,4)", "union"), (r"\begin{pmatrix}1\end{pmatrix}", "matrix"), ("x=1", "relation"),
        (r"2\sqrt{2}-1", "scalar"),
        ("x+1", "expression"), ("1:58 am", "clock"), ("$5$ or $9$", "prose"),
    ],
)  # fmt: skip
def test_kinds(text: str, expected: str) -> None:
    assert kind(text) == expected


def test_reading_texts() -> None:
    assert plain_number(r"1,\!234.5") == "1234.5"
    assert plain_number("12,34") is None
    assert split_top("(1,2), {3,4}, 5") == ["(1,2)", " {3,4}", " 5"]
    assert elements(r"\left[1, (2,3)\right)") == (r"\left[", ["1", " (2,3)"], r"\right)")
    assert value(r"\frac{1}{2}+2^{3}\cdot\sqrt{4}") == 16.5
    assert differ(r"\sqrt{8}", r"2\sqrt2") is False
    assert differ("x+1", "y+1") is True
    assert differ("x+1", r"\text{odd}") is None
