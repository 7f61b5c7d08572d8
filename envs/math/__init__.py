"""The `math` environment: compares the final answer to a mathematical problem with the gold, the correct answer.

- `environment`: `MathEnvironment`, which extracts the answer and compares it in tiers, from cheap to costly.
- `tree`: the typed tree of an answer, the data that all packages share; `build` constructs trees, `numerals` reads number
  literals.
- `reading/`: parses LaTeX or plain text into a tree: tokens, then a recursive grammar with a depth limit.
- `equality/`: decides whether two expressions are equal, by exact values, canonical forms and values at sample points,
  within a budget of work.
- `judging/`: decides whether an answer makes the gold's claim. The gold's type (number, set, equation...) selects the
  comparison; options (`policy`) decide what mathematics leaves open.
- `symbolic/`: compares two trees with SymPy in another process. It sends trees, not text. Only the option `math_verify` passes
  the text of an answer to SymPy's parser, in a separate process.
"""
