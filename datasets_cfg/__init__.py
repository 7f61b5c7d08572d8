"""Data sets. A YAML file for each says where its rows are and how a row becomes a Prompt. Imports neither `datasets` nor torch.

`load`: the prompts of a split. `reading`, `json_rows`: the rows of a split, from files and the hub. `rows`: makes a task from a
row, with `fields` for paths and types and `adapters/` for published layouts. `templates`, `few_shot`: the wording of prompts.
`schema`: the YAML of a data set; `suites`: the YAML of a mixture; `yamlfile`: the reader of all YAML in the library, which
reports mistakes by file, line and field. `validate`: scores the gold of every row. `golds`: finds golds that are whole texts.
`overlap`: finds prompts that are in two splits. `pin`: writes revisions into a YAML file.
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
