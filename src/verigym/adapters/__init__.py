"""verigym's environments in other trainers: one adapter module per trainer, which imports the trainer only when it is used.

`sources`: the environments and data sets to train on, and data set rows, each of which holds a whole task. `scoring`: grades
one completion at a time. `episodes`: plays tasks with tools or several turns. `peers`: the table of supported trainers. Each
adapter grades in the worker processes of `Grader`: a verifier that hangs or crashes is killed there, and no other completion is
affected.
"""

from verigym.adapters.scoring import Always, Scorer, Told, Unscored, UnscoredError
from verigym.adapters.sources import COLUMN, Sources, open_held_out, open_sources, row_of

__all__ = [
    "COLUMN",
    "Always",
    "Scorer",
    "Sources",
    "Told",
    "Unscored",
    "UnscoredError",
    "open_held_out",
    "open_sources",
    "row_of",
]
