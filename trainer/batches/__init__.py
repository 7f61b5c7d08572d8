"""Batches: the groups that each step trains on. A group is the completions of one prompt, with their verdicts.

- `builder`: makes a batch of new groups, leftovers and replayed groups; keeps the state that later steps depend on.
- `dynamic_sampling`: samples more groups until enough of them have a signal to fill the batch (DAPO).
- `replay`: trains once more on rare successes of earlier steps.
- `ahead`, `stream`: sample later batches while the policy is updated (`overlap`).
"""
