"""Policy losses per token (to be minimised), aggregation, KL estimators and off-policy corrections, as pure functions.

- `table`: every policy loss by name, with the properties that decide which settings fit it; a new loss needs an entry there.
- `token_level`: losses with one probability ratio per token (PPO's clip, CISPO, SAPO, DPPO, REINFORCE).
- `sequence_level`: losses with one value per completion (GSPO, GMPO).
- `aggregate`: weights of the tokens, which turn per-token losses into one number.
- `kl`: estimators of the KL to a reference model.
- `corrections`: weights for completions that were sampled from another distribution than the policy.
- `common`: checks shapes, neutralises padding, bounds ratios.

Shapes: B rows (completions), T tokens. All policy losses have this in common:

- They are called as `loss(logp_BT, old_logp_BT, advantages, *, mask_BT=None, **own_settings) -> (loss_BT, metrics)`. The
  result is a loss per token, not a sum or mean.
- Advantages are `[B]` or `[B, T]`. Like the old log-probabilities, they are constants: no gradient flows into them.
- Outside `mask_BT` the loss and every gradient are 0, even where the inputs are nan or inf. Without a mask, padded positions
  need finite log-probabilities, such as 0. If the loss of a padded position is nan, a weight of 0 keeps it out of the sum, but
  the gradient still becomes nan.
"""
