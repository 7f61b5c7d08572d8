"""Decides whether two expressions are equal, in the grader's own process and within a counted budget of work.

- `values`: `compare_values`, which tries exact values, canonical forms and probing in this order.
- `budget`: the budget, and the exceptions of a comparison that cannot be decided.
- `canonical`, `polynomial`: canonical forms, which are quotients of polynomials over atoms (symbols, roots of primes, pi...).
- `matrices`, `indices`, `conjugates`: rewrite matrices, symbols with an index, and symbols with a bar before the comparison.
- `numbers/`: exact and many-digit values; `probing/`: comparison at points.
- `unsimplified`: whether an answer is less simplified than the gold.
"""
