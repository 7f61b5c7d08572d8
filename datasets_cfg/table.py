"""The page of all data sets and the one of all templates, made from the YAML files."""

from __future__ import annotations

from verigym.datasets_cfg.load import available, load_config
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.datasets_cfg.templates import available_templates, load_template

_GOLDS = {"all": "in each row", "some": "where there is one", "none": "none"}


def page() -> str:
    """Return docs/datasets_table.md."""
    configs = [load_config(name) for name in available()]
    lines = [
        "# Every data set",
        "",
        "Made by `verigym datasets list --markdown` from the files in `datasets_cfg/sets/`; a test keeps it current.",
        "Splits in *italics* are for measuring only. A hub repository without a commit is not pinned: `verigym datasets pin`.",
        "",
        "| name | what | splits | where | environment | gold | licence |",
        "|---|---|---|---|---|---|---|",
        *(row(config) for config in configs),
        "",
        "## What is known of each",
        "",
        *(line for config in configs for line in remarks(config)),
        "## Prompt templates",
        "",
        "| name | what | source |",
        "|---|---|---|",
        *(_template(name) for name in available_templates()),
        "",
    ]
    return "\n".join(lines)


def row(config: DatasetConfig) -> str:
    """Return a data set's line of the table."""
    splits = ", ".join(f"*{split}*" if split in config.evaluation_only else split for split in config.splits)
    cells = (
        f"`{config.name}`",
        config.description,
        splits,
        where(config),
        f"`{config.environment}`",
        _GOLDS[config.golds],
        config.licence,
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def where(config: DatasetConfig) -> str:
    """Return where the rows come from."""
    if config.generated:
        return "written by the environment"
    hub = config.hub
    found = (
        [f"hub `{hub.path}`{f' ({hub.config})' if hub.config else ''}{f' at {hub.revision[:8]}' if hub.revision else ''}"]
        if hub
        else []
    )
    return " or ".join(found + (["local files"] if config.files else []))


def remarks(config: DatasetConfig) -> list[str]:
    """Return what the description says about contamination and what was not checked, as lines of a list."""
    said = " ".join(filter(None, (config.contamination, config.note)))
    return [f"- `{config.name}` ([source]({config.url})): {' '.join(said.split())}", ""] if said else []


def _template(name: str) -> str:
    template = load_template(name)
    languages = f" Languages: {', '.join(template.languages)}." if template.languages else ""
    return f"| `{name}` | {template.description}{languages} | {template.source} |"
