"""Compares two expressions by their values at points.

- `probe`: compares the values; `points` draws the points.
- `folds`, `roots`: find where the arguments of absolute values and roots change sign, and points on both sides of each change.
"""
