"""Several processes that train one model.

- `world`: who the processes are, and their collective operations. A single process gets a trivial world.
- `torchrun`: the environment variables of torchrun, without torch.
- `balance`: which rows of an update each process runs.
- `fsdp`: weights, gradients and optimizer state sharded by FSDP2.
- `sharded_checkpoint`: checkpoints of a sharded model.
"""
