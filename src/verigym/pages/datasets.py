"""Tables of the data sets and the prompt templates for docs/datasets_table.md, made from the YAML files."""

from __future__ import annotations

from verigym.datasets_cfg.load import available, load_config
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.datasets_cfg.templates import available_templates, load_template
from verigym.pages.markdown import table

_GOLDS = {"all": "in each row", "some": "where there is one", "none": "none"}


def blocks() -> tuple[str, ...]:
    """Return the whole page docs/datasets_table.md as one part."""
    configs = [load_config(name) for name in available()]
    sets = ("name", "what", "splits", "where", "environment", "gold", "licence")
    parts = [
        "# Every data set",
        "Made by `verigym datasets list --markdown` from the files in `datasets_cfg/sets/`; a test keeps it current.\n"
        "Splits in *italics* are for measuring only. A hub repository without a commit is not pinned: `verigym datasets pin`.",
        table(sets, map(_set_row, configs)),
        "## What is known of each",
        *filter(None, map(_remarks, configs)),
        "## Prompt templates",
        table(("name", "what", "source"), map(_template_row, available_templates())),
    ]
    return ("\n\n".join(parts),)


def _set_row(config: DatasetConfig) -> tuple[str, ...]:
    splits = ", ".join(f"*{split}*" if split in config.evaluation_only else split for split in config.splits)
    return (
        f"`{config.name}`",
        config.description,
        splits,
        _origin(config),
        f"`{config.environment}`",
        _GOLDS[config.golds],
        config.licence,
    )


def _origin(config: DatasetConfig) -> str:
    """Return where the rows come from."""
    if config.generated:
        return "written by the environment"
    places = ["local files"] if config.files else []
    if hub := config.hub:
        subset = f" ({hub.config})" if hub.config else ""
        revision = f" at {hub.revision[:8]}" if hub.revision else ""
        places.insert(0, f"hub `{hub.path}`{subset}{revision}")
    return " or ".join(places)


def _remarks(config: DatasetConfig) -> str:
    """Return what the description says about contamination and what was not checked, as an item of a list, or nothing."""
    words = " ".join(filter(None, (config.contamination, config.note)))
    return f"- `{config.name}` ([source]({config.url})): {' '.join(words.split())}" if words else ""


def _template_row(name: str) -> tuple[str, str, str]:
    template = load_template(name)
    languages = f" Languages: {', '.join(template.languages)}." if template.languages else ""
    return f"`{name}`", f"{template.description}{languages}", template.source
