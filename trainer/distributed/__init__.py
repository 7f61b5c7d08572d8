"""Several processes that train one model.

- `world`: who the processes are, and their collective operations. A single process gets a trivial world.
- `torchrun`: the environment variables of torchrun, without torch.
- `balance`: which rows of an update each process runs.
- `fsdp`: `shard: optimizer`, weights, gradients and optimizer state sharded by FSDP2 between the passes.
- `full_shards`, `lock_step`: `shard: full`, a model that no process holds whole, whose layers all processes run together.
- `replicated`: adapters, whose base every process holds.
- `sharded_checkpoint`: checkpoints of a sharded model.
"""
