"""Credit assignment: from verdicts to the rows that the learner trains on.

- `rows`: applies each source's advantage to its groups; refuses settings that the advantage would ignore.
- `training_row`: `TrainingRow`, a completion with the advantages and the mask of its tokens.
- `step_rewards`: turns rewards of a completion's steps into advantages of its tokens.
- `turn_rewards`: turns rewards of an episode's turns into advantages of its tokens.
- `overlong`: changes rewards by length: DAPO's soft punishment, or a fixed reward for truncated completions.
"""
