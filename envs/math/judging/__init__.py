"""Decides whether an answer says what the gold says, by the gold's type. `policy` has options for matters of taste.

- `tiers`: the tiers for one answer and its golds: trees, SymPy, Math-Verify.
- `compare`: `judge_answer` and `same`, the entries to the comparisons below; `case` is the state that they share.
- `scalars`, `structures/`, `real_sets/`, `statements/`, `texts`, `choices`: comparisons by type; `quantities/`: units and
  decimals.
- `readings`, `names`, `notations`, `parameters`: other ways to write the same thing, read before comparing.
- `question`, `shapes`, `guards/`: answers that copy the question or leave the work undone are refused.
- `golds`: golds as data sets write them.
"""
