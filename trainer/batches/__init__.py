"""What each step trains on.

- `builder`: tasks from the mixture, their groups, leftovers and replayed groups; with the state that later steps depend on.
- `dynamic_sampling`: groups without a signal are replaced until the batch is full (DAPO).
- `replay`: rare successes of earlier steps, trained on once more.
"""
