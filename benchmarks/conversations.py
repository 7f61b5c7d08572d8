r"""How models from scratch learn to use tools and replies, and the same runs without them. The last line is one JSON object.

    python benchmarks/conversations.py [--seeds N] [--threads N] [--only NAME ...] [--output DIR]

- `calculator`: sums of long numbers. With a calculator the model copies the question into a call and the result into its
  answer; without one, after as many supervised steps on answers and as many of GRPO, it has to know the sum.
- `guessing`: a hidden number, higher or lower. No policy that ignores the replies wins more often than guesses/numbers
  (`number_guessing.blind_bound`), whatever it does.
- `mixture`: a source of many turns and one of one turn in one run.

Each begins with a short supervised cold start. A third of the calls in it are malformed, so that there is something for the
reward to mend. Accuracies are on held-out tasks, by greedy decoding.
"""

from __future__ import annotations

if __name__ == "__main__":
    # Grading and session processes import this file again, and need none of the rest.
    from conversation_parts.runs import main

    main(__doc__)
