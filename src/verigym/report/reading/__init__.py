"""Reads the inputs of a report as records (one per sample) and rows of metrics.

- `inputs`: finds out which kind of input a path is; `run_logs`, `score_files`, `evaluations`: a reader for each kind
"""
