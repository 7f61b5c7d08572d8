"""Modules that several commands share.

`options`: options of several commands. `completion`: shell completion of their values. `values`: parses the values.
`json_output`: the option `--json`. `stopping`: exit codes after a signal.
"""
