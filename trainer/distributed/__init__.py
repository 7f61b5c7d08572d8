"""Several processes that train one model.

- `world`: who the processes are, and their collective operations. A single process gets a trivial world.
- `torchrun`: reads the environment variables that torchrun sets; does not import torch.
- `balance`: which rows of an update each process runs.
- `fsdp`: `shard: optimizer`; FSDP2 shards weights, gradients and optimizer state between the passes.
- `full_shards`, `lock_step`: `shard: full`; no process holds the whole model, and all processes run each layer together.
- `replicated`: adapters; every process holds them whole, on a frozen base that is whole or sharded.
- `sharded_checkpoint`: checkpoints of a sharded model.
"""
