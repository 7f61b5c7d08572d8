"""verigym's environments in other trainers: one module for each, which imports the trainer only when it is used.

`sources`: what is trained on, and rows that carry their own tasks. `scoring`: verdicts for one completion at a time.
`episodes`: tools and turns. `peers`: the table of trainers. Each adapter uses the Grader's workers, so that a verifier that
hangs or crashes is killed and costs no other item anything.
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
