"""The math environment's options as Markdown tables, for docs/math.md: `python -m verigym.bench.options`."""

from __future__ import annotations

from collections.abc import Iterable

from verigym.envs.math.environment import MathOptions
from verigym.envs.math.judging.policy import Policy


def table(names: Iterable[str]) -> str:
    """Return a row for each option: name, default, what it means."""
    lines = ["| option | default | what |", "|---|---|---|"]
    for name in names:
        field = MathOptions.model_fields[name]
        words = " ".join((field.description or "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | `{_shown(field.get_default(call_default_factory=True))}` | {words} |")
    return "\n".join(lines)


def sections() -> str:
    """Return the tables of policies and of everything else."""
    policies = list(Policy.model_fields)
    others = [name for name in MathOptions.model_fields if name not in policies]
    return f"### Matters of taste\n\n{table(policies)}\n\n### Finding the answer, tiers, limits\n\n{table(others)}\n"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    print(sections(), end="")
