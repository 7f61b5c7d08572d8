"""Input of `verigym grade`: files become rows, rows become completions with their prompts.

`opening` chooses the reader by format (`rows_jsonl`, `rows_csv`, `rows_parquet`), `records` are what readers yield, `head`
reads the first rows, and `columns` and `completions` find prompt, completions and reference in a row.
"""
