"""A run's records and warnings.

- `logs`: metrics.jsonl and samples.jsonl; `trackers`: TensorBoard, Weights & Biases, Trackio
- `progress`: the progress bar, and signals that stop a run; `console`: the first and last lines of a run's output
- `first_look`: whether answers can be read in a run's first samples, and what would help
- `detectors`: find warning signs in the metrics (pure); `watch`: runs all detectors; `grader_bugs`: exceptions of graders
- `reflection`: phrases of self-checks and backtracking (pure); `report`: curves and sample completions as a page
"""
