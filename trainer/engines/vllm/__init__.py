"""vLLM as an engine: in this process, or on servers that the policy's weights are pushed to.

- `in_process`: the engine in this process; `calls`: all its calls of vLLM's Python interface
- `remote`: the engine over servers; `shared`: the same for several training processes; `request_queue`: open requests
- `fleet`: all servers of a run; `server`: one server and its weights; `client`: HTTP requests to a server
- `serve`: starts a server (`python -m verigym.trainer.engines.vllm.serve`); `receiver`: its middleware, which takes weights
"""
