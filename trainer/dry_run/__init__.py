"""`verigym train --dry-run`: the memory and time of a run before it starts.

- `estimate`: loads model, sources and graders, and puts the figures together
- `measure`: three small steps of the run itself, timed
- `formulas`: bytes and seconds as arithmetic
- `table`: what is printed
"""
