"""The options of the math environment, for docs/math.md."""

from __future__ import annotations

from verigym.envs.math.environment import MathOptions
from verigym.envs.math.judging.policy import Policy
from verigym.pages.markdown import field_table


def blocks() -> tuple[str, ...]:
    """Return two tables: the options about conventions (where graders may reasonably differ), and all other options."""
    policies = list(Policy.model_fields)
    others = [name for name in MathOptions.model_fields if name not in policies]
    return (
        f"### Conventions\n\n{field_table(MathOptions, policies, title='option')}",
        f"### Finding the answer, tiers, limits\n\n{field_table(MathOptions, others, title='option')}",
    )
