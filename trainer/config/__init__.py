"""Settings of a run. Each field has a description, and unknown keys are refused with a suggestion. Imports no torch.

- `run`: a GRPO run (`TrainConfig`, `read_config`), made of the groups below
- `sampling`, `episodes`, `update`, `engine`, `model`, `monitoring`: groups of fields; `engine` also has the table of engines
- `step_settings`: the settings that a GRPO run and the other training stages have in common
- `frozen`: base class of all settings
- `presets`: the settings of a paper, by the paper's name
- `checks`: refuses settings that have no effect because of another setting
- `synonyms`: names of settings in TRL and verl, and former names, each with the field to use
- `lookup`: finds the functions that settings name, and binds their options
- `overrides`: `key=value` arguments of the command line, and the line of the file that an error is about
"""
