"""Advantages: how much better a completion is than others, as pure functions of the rewards.

- `table`: every advantage by name, with what settings must know about it; a new one is a function and an entry there.
- `group`: compared with the other completions of the prompt (GRPO, Dr. GRPO, RLOO, MaxRL, pass@k, OPO).
- `batch`: scaled by the whole batch (Lite PPO, REINFORCE++), or made of several rewards a completion (GDPO).
- `steps`: of tokens, from rewards of steps (process supervision).
- `gae`: of tokens, from a critic's values, and the critic's loss.
- `common`: checked rewards, and which groups differ.

Shapes: P prompts, G samples a prompt. Row-major flattening of `[P, G]` gives the B = P*G rows of a batch. The functions of
`group` and `batch` but `gdpo` share

- the call `advantage(rewards_PG, scored_PG, *, lengths_PG=None, **own_settings) -> advantages_PG`;
- a completion without a score (its verifier failed) leaves its group *before* mean and standard deviation are taken,
  gets advantage 0, and must also be masked from the loss. Whatever stands in its place, nan included, is ignored;
- a group whose scored rewards are all equal, or with fewer than two of them, gives exactly 0 (`reinforce++`, which knows
  no groups: a batch). There is nothing to compare, and a rounding residue divided by its own standard deviation would be
  a full-sized gradient of noise. Rewards that differ only by rounding count as equal: see `common.EQUAL_RELATIVE`.
"""
