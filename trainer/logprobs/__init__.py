"""Per-token log-probabilities and entropies of completions under a model.

- `chunked`: from hidden states, with logits in memory for a chunk of tokens at a time
- `forward`: of rows with their own prompt, in micro-batches of a token budget
- `shared_prefix`: of groups whose prompt runs once, forward and backward
"""
