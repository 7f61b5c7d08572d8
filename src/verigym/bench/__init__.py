"""`verigym bench`: compares graders on labelled answers. Only this command uses the package.

`cases` reads pairs of gold and answer with a label. `graders` has verigym's own grader and a grader that calls any function.
`isolated` runs Math-Verify or a callable in a confined process, which runs the program `isolated_worker`. `verdicts` holds and
counts the verdicts of each grader, `job` runs the graders, and `report` prints the tables.
"""
