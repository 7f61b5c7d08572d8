"""The `code` environment: judges programs by tests. Programs run in `verigym.sandbox`; this package decides the verdicts.

- `environment`: finds the program, has it built and tested, and returns the score.
- `functions`: an environment that generates its own tasks.
- `reference`: language, tests, limits and the rules for the verdict.
- `run_all` runs all tests in parallel, and `run_test` runs one test. `calls` runs all call tests, which call a function of the
  program, in one session.
- `verdict`: the score. Unless partial credit is given, the first failed test decides it. Tests count in the order in which the
  reference lists them.
- `output`, `values` and `compare`: compare bytes and decoded plain data, never in the program's process.
"""
