"""Engines: they sample completions from the policy. `ENGINES` of trainer/config/engine.py is their table.

- `base`: the interface; `build`: makes the engine of a run
- `native/`: our own decode loop, the default; `hf`: transformers' `generate`; `vllm/`: vLLM in this process, or on servers
- `sampling`: a completion's sampling parameters, for vLLM
- `weights`: the policy's weights, for engines that sample from their own copy of them
- `snapshot`: a copy of the policy to sample from while the policy is updated
"""
