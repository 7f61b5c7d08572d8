"""The trainer against TRL's GRPOTrainer, transformers' `generate` and itself. Prints ratios; the last line is one JSON object.

    python benchmarks/trainer.py [--threads N] [--repeats N] [--cpu] [--device cuda] [--only NAME ...]

TRL is not a dependency: docs/benchmarks.md says how to make the environment. Without it, what needs no TRL is measured. Both
sides of a ratio are timed in turns in one process with the same number of threads; figures are medians, with the least and the
most.
"""

from __future__ import annotations

if __name__ == "__main__":
    # Grading processes import this file again, and need none of the rest.
    from trainer_parts.measures import main

    main(__doc__)
