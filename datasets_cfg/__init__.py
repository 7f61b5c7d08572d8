"""Data sets: one YAML each says where its rows are and how a row becomes a Prompt. No `datasets` and no torch at import.

`load`: the prompts of a split. `reading`, `json_rows`: its rows, from files and the hub. `rows`: from a row to a task, with
`fields` for paths and types and `adapters/` for published layouts. `templates`, `few_shot`: the wording. `schema`: a data
set's YAML; `suites`: that of a mixture; `yamlfile`: the reader of all YAML in the library, which names mistakes by file, line
and field. `validate`: scores every row's own gold. `golds`: finds golds that are whole texts.
`overlap`: prompts that stand in two splits. `pin`: writes revisions into a YAML file.
"""

from verigym.datasets_cfg.load import PromptDataset, available, load, load_config, load_sample
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.datasets_cfg.validate import Failure, Report, validate

__all__ = [
    "DatasetConfig",
    "Failure",
    "PromptDataset",
    "Report",
    "available",
    "load",
    "load_config",
    "load_sample",
    "validate",
]
