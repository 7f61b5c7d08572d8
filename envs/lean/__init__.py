"""The `lean` environment: judges proofs of a given statement.

Text comes first: `completion` finds the proof, `guard` (with `keywords` and `lexer`) refuses commands, `statement` and `task`
make the files. `toolchain` finds Lean. `compile` is stage 1 (compiling). `judging` is stage 2 (comparing and replaying, with
`judge/Judge.lean`). `verdict` makes a verdict from how the processes ended and from the file that the judge wrote. `controls`
runs the known submissions of `catalogue.jsonl` before anything is scored; `cache` stores verdicts. `screening` runs one of
`backends/` as a pre-check before the stages; `backends/comparator` checks once more after them.
"""
