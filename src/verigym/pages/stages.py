"""Tables of the fields of pipelines and of each kind of stage, for docs/stages_table.md."""

from __future__ import annotations

from verigym.pages.markdown import field_table
from verigym.trainer.pipelines.plan import PipelineFields
from verigym.trainer.pipelines.stage_kinds import KINDS

SET_BY_PIPELINE = "| `output` |"
"""Start of the table row for the field `output` of a stage. This row is left out, because the pipeline
itself chooses the folder."""


def blocks() -> tuple[str, ...]:
    """Return the whole page docs/stages_table.md as one part."""
    parts = [
        "# Fields of pipelines and stages",
        "Made by `python -m verigym.pages stages`; a test keeps it current. See [stages.md](stages.md).",
        "## Fields of a pipeline",
        field_table(PipelineFields),
    ]
    for name, kind in KINDS.items():
        parts.append(f"## `{name}`")
        makes = f"Makes a {kind.makes}." if kind.makes != "data" else "Makes data."
        about = f"{kind.about[0].upper()}{kind.about[1:]}. {makes}"
        if name == "grpo":
            parts.append(f"{about} They are listed in [training.md](training.md).")
            continue
        parts.append(about)
        rows = field_table(kind.config_type()).splitlines()
        parts.append("\n".join(row for row in rows if not row.startswith(SET_BY_PIPELINE)))
    return ("\n\n".join(parts),)
