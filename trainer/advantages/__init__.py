"""Advantages: how much better a completion is than others, as pure functions of the rewards.

- `table`: all advantages by name, with the properties by which a run's settings are checked. To add an advantage, write a
  function and add an entry there.
- `group`: advantages within a group, which is all completions of one prompt (GRPO, Dr. GRPO, RLOO, MaxRL, pass@k, OPO).
- `batch`: advantages scaled by the whole batch (Lite PPO, REINFORCE++), or made of several rewards per completion (GDPO).
- `steps`: advantages of tokens, from rewards of steps (process supervision).
- `turns`: advantages of an episode's turns, from rewards of turns.
- `gae`: advantages of tokens, from a critic's values; also the critic's loss.
- `common`: checks of the rewards, and which groups have different rewards.

Shapes: P prompts, G samples per prompt. Row-major flattening of `[P, G]` gives the B = P*G rows of a batch. The following
holds for all functions of `group` and `batch` except `gdpo`:

- The call is `advantage(rewards_PG, scored_PG, *, lengths_PG=None, **own_settings) -> advantages_PG`.
- A completion without a score (its verifier failed) is left out of its group *before* mean and standard deviation are
  taken. It gets advantage 0, and must also be masked from the loss. Its entry in `rewards_PG` is ignored and may be nan.
- A group gives exactly 0 if its scored rewards are all equal, or if fewer than two are scored: there is nothing to compare.
  Rewards that differ only by rounding count as equal: see `common.EQUAL_RELATIVE`. Without this rule, the tiny differences
  between such rewards would be divided by an equally tiny standard deviation, and give noise as a full-sized gradient.
  `reinforce++` applies this rule to the whole batch instead of a group, because it ignores groups.
"""
