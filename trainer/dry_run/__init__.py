"""`verigym train --dry-run`: the memory and time of a run before it starts.

- `estimate`: loads model, sources and graders; makes the tables of memory and time, and prints them
- `measure`: small steps of the run itself, timed; `kept`: bytes that a forward pass keeps for the backward pass
- `formulas`: bytes as arithmetic; `speed`: lengths of completions, and seconds, as arithmetic
- `proposals`: settings that would lower the memory
- `shares`: the memory of each of several processes
"""
