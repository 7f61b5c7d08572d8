"""Guards: refuse answers that equal the gold but do not do the work that the question asks for.

- `echo`, `copied`, `equations`: answers that repeat the question.
- `unworked`, `worked`: answers with arithmetic left to do.
- `factored`: answers with too few factors.
- `reduced`: recognises the usual forms of results, for the other guards.
"""
