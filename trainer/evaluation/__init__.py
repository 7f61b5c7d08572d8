"""Evaluation (`verigym eval`): models answer held-out prompts, k samples each; a report has metrics with intervals.

- `config`: the settings; `run`: runs the evaluation and writes the report; `tasks`: the held-out prompts
- `figures` (pure): the metrics, such as pass@k and best-of-k, with bootstrap intervals; `report`: tables and curves
- `endpoint` and `endpoint_samples`: a model behind an OpenAI-compatible server
- `thinking`: limits the thinking tokens of any engine to a budget
- `contamination` (pure) and `training_data`: find evaluation prompts that occur in training data
"""
