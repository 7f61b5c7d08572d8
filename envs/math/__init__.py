"""The `math` environment: compares the final answer to a mathematical problem with the gold, the correct answer.

- `environment`: `MathEnvironment`, which extracts the answer and compares it in tiers, from cheap to costly.
- `tree`: the typed tree of an answer, the data that all packages share; `build` constructs trees, `numerals` reads number
  literals.
- `reading/`: parses LaTeX or plain text into a tree: tokens, then a recursive grammar with a depth limit.
- `equality/`: decides whether two expressions are equal, by exact values, canonical forms and values at sample points,
  within a budget of work.
- `judging/`: decides whether an answer says what the gold says, by the gold's type; matters of taste are options
  (`policy`).
- `symbolic/`: compares two trees with SymPy in another process. Texts reach a parser of SymPy's only with the option
  `math_verify`, in a separate process.
"""
