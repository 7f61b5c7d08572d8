"""`verigym grade`: reads saved model outputs, and writes verdicts and a summary; no trainer is needed.

`job` runs a grading. `reading/` yields rows and completions one at a time, and `tasks` finds their tasks in a data set. A
`Grader` judges the completions, and `out_file` appends the verdicts to a file. `manifest` records the settings and versions
that made the file, `retries` replaces lines of completions that are graded again, and `bad_rows` lists rows that cannot be
used. `summary` reads only the finished file, so a resumed and an uninterrupted run give the same summary; `report` prints it.
`hints` explains suspicious results: `specimens` samples texts to look at, `golds` finds golds that are whole texts, not short
answers, and `envs.option_trials` tries other options. `diff` and `diff_report` compare two gradings. `lines` reads and writes
lines.
`progress` shows how far a job is.
"""
