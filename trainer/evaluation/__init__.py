"""`verigym eval`: k samples per held-out prompt by one model or several, with intervals.

- `config`: the settings; `run`: from models to the report; `tasks`: the held-out prompts
- `figures` (pure): pass@k, majority, best-of-k with bootstrap intervals; `report`: tables and curves
- `thinking`: budgets of thinking tokens around any engine
- `contamination` (pure) and `training_data`: prompts that occur in training data
"""
