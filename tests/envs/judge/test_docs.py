"""docs/judge.md and docs/reward_model.md show the options as they are."""

from pathlib import Path

import pytest

from verigym.envs.contract.base import Options
from verigym.envs.judge.options import JudgeOptions
from verigym.envs.reward_model.environment import RewardModelOptions

DOCS = Path(__file__).resolve().parents[3] / "docs"


def table(options: type[Options]) -> str:
    lines = ["| option | default | what |", "|---|---|---|"]
    for name, field in options.model_fields.items():
        words = " ".join((field.description or "").split()).replace("|", "\\|")
        value = field.get_default(call_default_factory=True)
        shown = str(value).lower() if isinstance(value, bool) else '""' if value == "" else str(value)
        lines.append(f"| `{name}` | `{shown}` | {words} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("page", "options"), [("judge.md", JudgeOptions), ("reward_model.md", RewardModelOptions)])
def test_the_table_of_options_is_the_code_s_own(page: str, options: type[Options]) -> None:
    assert table(options) in (DOCS / page).read_text(encoding="utf-8"), f"paste this into docs/{page}:\n{table(options)}"
