"""Per-token log-probabilities and entropies of completions under a model.

- `chunked`: computes them from hidden states, with logits in memory for a chunk of tokens at a time
- `forward`: runs the model on rows of prompt and completion, in micro-batches within a token budget
- `shared_prefix`: runs a prompt once, forward and backward, for all its completions
"""
