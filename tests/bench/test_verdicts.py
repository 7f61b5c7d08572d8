import pytest

from verigym.bench.cases import Case
from verigym.bench.job import Outcome
from verigym.bench.verdicts import Tally, Verdict, percentile


def case(expected):
    return Case(1, 1, ("1",), "1", r"\boxed{1}", expected, "answer", False)


def test_percentiles_are_values_that_occurred():
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50.0, 95.0, 99.0, 100.0]
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) is None


def test_figures_by_hand():
    tally = Tally()
    given = [
        (True, "accepted"), (True, "rejected"), (True, "no_answer"), (True, "error"),
        (False, "rejected"), (False, "accepted"), (False, "limit"), (False, "error"),
    ]  # fmt: skip
    for expected, kind in given:
        tally.add(case(expected), Verdict(kind, "", 0.25))
    figures = tally.figures()
    assert figures["latency_s"] == {"median": 0.25, "p95": 0.25, "p99": 0.25, "max": 0.25}
    del figures["latency_s"]
    assert figures == {
        "rows": 8,
        "labelled_right": 4,
        "labelled_wrong": 4,
        "false_negatives": 3,
        "false_positives": 1,
        "no_answers": 1,
        "errors": 2,
        "limits": 1,
        "accuracy": 3 / 8,  # an error is never right, not even about a wrong answer
        "rows_per_second_and_core": 4.0,
    }
    assert Tally().figures()["accuracy"] is None


@pytest.mark.parametrize(
    ("expected", "kinds", "listed"),
    [
        (True, ("accepted", "accepted"), False),
        (False, ("rejected", "no_answer"), False),
        (True, ("accepted", "rejected"), True),
        (True, ("rejected", "rejected"), True),
        (False, ("rejected", "error"), True),
    ],
)
def test_what_a_disagreement_is(expected, kinds, listed):
    outcome = Outcome(["a", "b"])
    found = outcome.add(case(expected), {name: Verdict(kind, "", 0.0) for name, kind in zip("ab", kinds, strict=True)})
    assert (found is not None, outcome.disagreements) == (listed, listed)
    assert outcome.cases == 1 and outcome.our_errors == 0
