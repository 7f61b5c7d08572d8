"""Pipelines: YAML files that chain stages, from a base model to an evaluation.

- `stage_kinds`: the table of the kinds of stages
- `plan`: reads and checks a pipeline's file; `checks`: checks a stage's settings before it runs
- `pipeline`: runs the stages and writes the manifest; `preview`: shows inputs, states, errors and costs without running
"""
