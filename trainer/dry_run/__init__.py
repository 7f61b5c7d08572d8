"""`verigym train --dry-run`: the memory and time of a run before it starts.

- `estimate`: loads model, sources and graders; makes the tables of memory and time, and prints them
- `measure`: three small steps of the run itself, timed
- `formulas`: bytes and seconds as arithmetic
"""
