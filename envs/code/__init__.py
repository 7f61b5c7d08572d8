"""The `code` environment: judges programs by tests. Programs run in `verigym.sandbox`; this package decides the verdicts.

- `environment`: finds the program, has it built and tested, and returns the score.
- `functions`: an environment that generates its own tasks.
- `reference`: language, tests, limits and the rules for the verdict.
- `run_all` runs all tests in parallel, `run_test` runs one test, and `calls` runs all call tests in one session.
- `verdict`: the score. The first failed test, in the reference's order, decides it.
- `output`, `values` and `compare`: compare bytes and decoded plain data, never in the program's process.
"""
