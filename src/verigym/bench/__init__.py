"""`verigym bench`: compares graders on labelled answers. Grading needs nothing of it.

`cases` reads labelled pairs, `graders` are ours and any callable, `isolated` runs Math-Verify or a callable in a confined
process (`isolated_worker`), `verdicts` holds and counts what each says, `job` runs them and `report` prints the table.
"""
