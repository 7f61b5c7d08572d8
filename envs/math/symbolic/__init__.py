"""SymPy and Math-Verify in processes that can be killed.

- `client`: sends two trees to a worker, as JSON (`wire`).
- `worker`: the worker's side: `construct` builds SymPy expressions by constructors, `decide` proves or refutes equality.
- `math_verify`: Math-Verify on two texts, the last opinion.
"""
