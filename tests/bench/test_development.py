"""The development cases of the math grader, as the acceptance counts them."""

import json
from pathlib import Path

from needs import needs

from verigym.cli import main

CASES = Path(__file__).parents[3] / "shared/data/math_equivalence/cases.jsonl"


@needs("shared data")
def test_few_false_negatives_and_no_false_positive(tmp_path, capsys):
    report = tmp_path / "report.json"
    main(["bench", "math", str(CASES), "--out", str(report)])
    figures = json.loads(report.read_text())
    assert list(figures["groups"]) == ["answers", "unboxed, extract=last"] and figures["policy_rows_left_out"] == 35
    (boxed,), (unboxed,) = (group.values() for group in figures["groups"].values())
    shown = capsys.readouterr().out
    assert (boxed["labelled_right"], boxed["labelled_wrong"], unboxed["rows"]) == (290, 83, 54)
    assert boxed["false_positives"] == unboxed["false_positives"] == 0, shown
    assert boxed["false_negatives"] <= 4, shown
    assert boxed["latency_s"]["max"] < 10
