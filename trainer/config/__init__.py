"""Settings: every field with a sentence, unknown keys refused with a suggestion, presets by paper, overrides. Imports no torch.

- `run`: a GRPO run (`TrainConfig`, `read_config`), made of the groups below
- `sampling`, `update`, `engine`, `model`, `monitoring`: groups of fields; `engine` also has the table of engines
- `frozen`: base class of all settings
- `presets`: a paper's settings by its name
- `checks`: settings that another setting leaves without effect are refused
- `synonyms`: names of TRL and verl, and former names, each with the field to use
- `lookup`: functions that settings name, with their options
- `overrides`: `key=value` of the command line, and the place in the file that an error is about
"""
