"""Computes values of trees: `exactly` (exact rationals), `evaluate` and `numeric` (many digits).

`integers` has exact functions of integers and fractions, `remainders` the remainders of very large integers.
"""
