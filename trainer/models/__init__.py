"""Models: loading, tokens, adapters, kernels.

- `path`: resolves a model's name (without torch); `loading`: loads model and tokenizer, from a folder or the hub
- `codec`: converts texts to tokens and back; `control_tokens`: keeps special tokens in data from forging a turn
- `bridge`: makes the tokens between two turns of a conversation
- `lora`: adapters, and the policy in checkpoints; `liger`: fused kernels
- `scratch`: makes a small model with random weights and its tokenizer; `optional`: imports optional packages
"""
