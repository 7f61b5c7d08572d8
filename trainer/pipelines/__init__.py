"""Pipelines: YAML files that chain stages, from a base model to an evaluation.

- `stage_kinds`: the table of the kinds of stages
- `plan`: a pipeline's file, read and checked; `checks`: what can be checked before a stage runs
- `pipeline`: runs the stages and writes the manifest; `preview`: inputs, states, errors and costs without running
"""
