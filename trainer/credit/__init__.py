"""Credit assignment: from verdicts to the rows that the learner trains on.

- `rows`: each source's advantage, applied to its groups; checks of settings that an advantage would ignore.
- `training_row`: `TrainingRow`, a completion with the advantages and the mask of its tokens.
- `step_rewards`: rewards of a completion's steps, as advantages of its tokens.
- `overlong`: length in the reward, DAPO's soft punishment or a fixed reward where truncated.
"""
