"""Native generation: our decode loop over the policy itself.

- `engine`: the engine; `generate`: the loop, in which waiting rows take the places of finished ones (a row is a completion)
- `decoders`: batched decoders; `llama_step`: one decoding step of the Llama family over the model's own weights
- `prefix_cache`: keys and values with each prompt stored once; `growing_cache`: transformers' cache with room to grow;
  `static_cache`: buffers of a fixed size, for `cuda_graphs`
"""
