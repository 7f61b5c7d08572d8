"""Whether two expressions are equal, decided in the trusted process within a counted budget of work.

- `values`: `compare_values`, which tries exact values, canonical forms and probing in this order.
- `budget`: the budget, and the exceptions of a comparison that cannot be decided.
- `canonical`, `polynomial`: quotients of polynomials over atoms.
- `matrices`, `indices`, `conjugates`: rewrite matrices, indexed symbols and bars before the comparison.
- `numbers/`: exact and many-digit values; `probing/`: comparison at points.
- `unsimplified`: whether an answer is left unsimplified.
"""
