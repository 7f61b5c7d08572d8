"""Stages that train reward models: on preference pairs (Bradley-Terry), and on labelled steps (process reward models).

- `config`: their settings; `losses` and `figures`: pure functions
- `pairs` (stage `pairs`), `pair_model`, `training` (stage `reward-model`)
- `math_shepherd`, `step_labelling` (stage `step-labels`), `labelled_solutions`
- `process_model`, `process_training` (stage `prm`)
"""
