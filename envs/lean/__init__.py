"""The `lean` environment: judges proofs of a given statement.

Text first: `completion` finds the proof, `guard` (with `keywords` and `lexer`) refuses commands, `statement` and `task` make
the files. `toolchain` finds Lean, `compile` is stage 1, `judging` is stage 2 with `judge/Judge.lean`. `verdict` turns how
processes ended and the judge's own file into a verdict. `controls` runs the known submissions of `catalogue.jsonl` before
anything is scored; `cache` keeps verdicts. `screening` puts one of `backends/` before the stages; `comparator` comes after
them.
"""
