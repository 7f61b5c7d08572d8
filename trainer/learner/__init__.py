"""The learner: policy, optimizer and updates.

- `learner`: `Learner`, which turns a step's groups into new weights, checkpoints and the final model.
- `objective`: builds the loss, KL and correction of an update from the settings.
- `update`: one batch's gradient, by micro-batches within a token budget.
- `critic`: the value model of PPO.
- `kl_reward`: the KL as a penalty in the reward.
- `optimizers`: AdamW in fp32 or 8 bits, learning rate schedules; an update is skipped if its gradient is not finite.
- `bad_batch`: batches with a loss or gradient that is not finite, saved for inspection.
"""
