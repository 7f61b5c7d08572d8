"""A run's records and warnings.

- `logs`: metrics.jsonl and samples.jsonl; `trackers`: TensorBoard, Weights & Biases, Trackio
- `progress`: the progress bar, and signals that stop a run; `console`: the first and the last lines
- `detectors`: warning signs in the metrics (pure); `watch`: all of them over a run; `grader_bugs`: exceptions of graders
- `reflection`: phrases of self-checks and backtracking (pure); `report`: curves and sample completions as a page
"""
