"""Policy losses per token, to be minimised, and what goes with them, as pure functions.

- `table`: every policy loss by name, with what settings must know about it; a new one is a function and an entry there.
- `token_level`: one probability ratio a token (PPO's clip, CISPO, SAPO, DPPO, REINFORCE).
- `sequence_level`: one loss a completion (GSPO, GMPO).
- `aggregate`: weights of the tokens, from per-token losses to one number.
- `kl`: estimators of the KL to a reference model.
- `corrections`: weights for completions that another distribution than the policy has sampled.
- `common`: checked shapes, padding, bounded ratios.

Shapes: B rows (completions), T tokens. The policy losses share

- the call `loss(logp_BT, old_logp_BT, advantages, *, mask_BT=None, **own_settings) -> (loss_BT, metrics)`; they do not reduce;
- advantages `[B]` or `[B, T]`, which like the old log-probabilities are constants;
- outside `mask_BT` the loss and every gradient are 0, whatever stands there, nan and inf included. Without a mask,
  padded places need finite log-probabilities (0 will do): a weight of 0 hides a nan value, but not the nan in its gradient.
"""
