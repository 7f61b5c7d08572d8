"""Decides whether an answer makes the gold's claim, by the gold's type. `policy` has options for what mathematics leaves open.

- `tiers`: the tiers for one answer and its golds: trees, SymPy, Math-Verify.
- `compare`: `judge_answer` and `same`, which call the comparisons below; `case` is the state that the comparisons share.
- `scalars`, `structures/`, `real_sets/`, `statements/`, `texts`, `choices`: comparisons by type; `quantities/`: units and
  decimals.
- `readings`, `names`, `notations`, `parameters`: recognise different ways to write the same thing, before the comparison.
- `question`, `shapes`, `guards/`: refuse answers that copy the question or leave the work undone.
- `golds`: extracts the answer from the formats in which data sets write golds.
"""
