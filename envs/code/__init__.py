"""The `code` environment: judges programs by tests. Programs run in `verigym.sandbox`, verdicts are given here.

`environment` finds the program, has it built and tested, and returns the score; `functions` generates tasks of its own.
`reference` holds language, tests, limits and policy. `run_all` runs all tests in parallel, `run_test` one of them, `calls` all
call tests in one session; the first failure in the reference's order decides (`verdict`). `output`, `values` and `compare`
compare on bytes and decoded plain data, never in the program's process.
"""
