"""Evaluation (`verigym eval`): one or several models answer held-out prompts, k samples each; figures have intervals.

- `config`: the settings; `run`: runs the evaluation and writes the report; `tasks`: the held-out prompts
- `figures` (pure): pass@k, majority, best-of-k with bootstrap intervals; `report`: tables and curves
- `thinking`: limits the thinking tokens of any engine to a budget
- `contamination` (pure) and `training_data`: find evaluation prompts that occur in training data
"""
