"""What commands share.

`options` and their `completion`; `values`, which reads an option's text; `json_output` for `--json`; `stopping` by signals.
"""
