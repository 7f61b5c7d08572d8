"""docs/stages_table.md lists every field of every kind of stage, and says what the code says."""

from pathlib import Path

from verigym.trainer.pipelines.stage_kinds import KINDS

PAGE = (Path(__file__).parents[3] / "docs/stages_table.md").read_text(encoding="utf-8")


def test_each_field_has_a_sentence():
    for name, kind in KINDS.items():
        section = PAGE.split(f"## `{name}`\n")[1].split("\n## ")[0]
        for field in kind.config_type().model_fields if name != "grpo" else ():
            assert (f"| `{field}` |" in section) is (field != "output"), (name, field)
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) > 100 and not [row for row in rows if row.endswith("|  |")]
