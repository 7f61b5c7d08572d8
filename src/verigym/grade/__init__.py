"""`verigym grade`: saved model outputs in, verdicts and a summary out, without any trainer.

`job` runs it: `reading/` gives rows and completions one at a time (`tasks` joins them to a data set), the Grader judges them,
and `out_file` appends each verdict, with `manifest` for what made it, `retries` for completions that are graded again and
`bad_rows` for rows that cannot be used. `summary` reads the finished file alone, so a resumed and an uninterrupted run agree;
`report` prints it. `hints` explains suspicious figures: `specimens` are texts to look at, `golds` finds golds that are whole
texts, `trials` tries other options. `diff` and `diff_report` compare two gradings. `lines` reads and writes lines, `progress`
shows how far a job is.
"""
