"""The `math` environment and its packages: reading, comparing values, judging by the gold's type, and SymPy in a process.

- `environment`: `MathEnvironment`: extracts the answer and lets the tiers decide.
- `tree`: the typed tree of an answer, the data that all packages share; `build` constructs trees, `numerals` reads number
  literals.
- `reading/`: LaTeX or plain text to a tree: tokens, then a recursive grammar with a depth limit.
- `equality/`: whether two expressions are equal: exact, canonical and probed values, within a budget of work.
- `judging/`: whether an answer says what the gold says, by the gold's type; matters of taste are options (`policy`).
- `symbolic/`: asks SymPy, in another process, about two trees. Texts reach a parser of SymPy's only by the option
  `math_verify`,
  in a process of its own.
"""
