"""Inputs of a report, as records and rows of metrics.

- `inputs`: what a path is; `run_logs`, `score_files`, `evaluations`: readers of each kind
"""
