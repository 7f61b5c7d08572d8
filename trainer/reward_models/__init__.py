"""Stages that train reward models: on preference pairs (Bradley-Terry), and on labelled steps (process reward models).

- `config`: settings of these stages; `losses` and `figures`: pure functions
- Preference pairs: `pairs` (stage `pairs`), `pair_model`, `training` (stage `reward-model`)
- Labels of steps: `math_shepherd`, `step_labelling` (stage `step-labels`), `labelled_solutions`
- Process reward models: `process_model`, `process_training` (stage `prm`)
"""
