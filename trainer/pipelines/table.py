"""The fields of each kind of stage as a page, docs/stages_table.md: `python -m verigym.trainer.pipelines.table`."""

from __future__ import annotations

from verigym.trainer.config.table import table
from verigym.trainer.pipelines.kinds import KINDS
from verigym.trainer.pipelines.plan import PipelineFields

SETS_ITSELF = "| `output` |"
"""The pipeline names each stage's folder."""


def page() -> str:
    """Return docs/stages_table.md."""
    parts = [
        "# Fields of pipelines and stages",
        "Made by `python -m verigym.trainer.pipelines.table`; a test keeps it current. See [stages.md](stages.md).",
        "## Fields of a pipeline",
        table(PipelineFields),
    ]
    for name, kind in KINDS.items():
        parts.append(f"## `{name}`")
        makes = f"Makes a {kind.makes}." if kind.makes != "data" else "Makes data."
        about = f"{kind.about[0].upper()}{kind.about[1:]}. {makes}"
        if name == "grpo":
            parts.append(f"{about} They are listed in [training.md](training.md).")
            continue
        parts.append(about)
        parts.append("\n".join(line for line in table(kind.config_type()).splitlines() if not line.startswith(SETS_ITSELF)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
