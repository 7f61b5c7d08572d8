"""Models: loading, tokens, adapters, kernels.

- `path`: what a model's name stands for (no torch); `loading`: model and tokenizer, from a folder or the hub
- `codec`: between texts and tokens; `bridge`: from one turn of a conversation to the next; `control_tokens`: data forge no turn
- `lora`: adapters, and the policy in checkpoints; `liger`: fused kernels
- `scratch`: a small model and tokenizer from nothing; `optional`: imports of optional packages
"""
