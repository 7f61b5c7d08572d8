"""vLLM as an engine: in this process, or on servers that the policy's weights are pushed to.

- `in_process`: the engine in this process, over `calls`, which has every call of vLLM's Python interface
- `remote`: the engine over servers; `server`: one server, kept at the current weights; `client`: its HTTP requests
- `serve`: starts a server (`python -m verigym.trainer.engines.vllm.serve`); `receiver`: its middleware, which takes weights
"""
