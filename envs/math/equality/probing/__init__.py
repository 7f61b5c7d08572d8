"""Compares two expressions by their values at points.

- `probe`: compares the values; `points` draws the points.
- `folds`, `roots`: where absolute values, roots and rational functions change sign, to compare on both sides.
"""
