"""Engines: they sample completions from the policy. `ENGINES` of trainer/config/engine.py is their table.

- `base`: the interface; `build`: makes the engine of a run
- `native/`: our own decode loop, the default; `hf`: transformers' `generate`; `vllm/`: vLLM in this process, or on servers
- `sampling`, `weights`: what engines outside the policy get: sampling parameters of a completion, and the policy's weights
"""
