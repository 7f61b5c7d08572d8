"""Groups of completions made by hand, for tests of what is counted and written."""

from __future__ import annotations

from collections.abc import Sequence

from letters import LettersEnvironment

from verigym.envs import Score
from verigym.trainer.engines.base import Generated
from verigym.trainer.rollout.collect import Group

RIGHT, WRONG = Score.correct(), Score.incorrect()
UNSCORED = Score.failed("crashed", "the worker process was killed by SIGKILL")


def group(
    source: str, scores: Sequence[Score], *, tokens: Sequence[int] | None = None, cut: Sequence[int] = (), text: str = "text"
) -> Group:
    """Make a group.

    Args:
        source: its label.
        scores: one a completion.
        tokens: the completions' lengths; 3 each where left out.
        cut: numbers of the completions that were cut off by the token limit.
        text: of the prompt and of every completion.
    """
    lengths = tokens or [3] * len(scores)
    return Group(
        source=source,
        prompt=LettersEnvironment().prompt(text),
        prompt_ids=(5, 6),
        generated=tuple(
            Generated((7,) * length, (-1.0,) * length, "length" if g in cut else "stop") for g, length in enumerate(lengths)
        ),
        texts=(text,) * len(scores),
        scores=tuple(scores),
    )
