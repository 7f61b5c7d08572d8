"""Conformance checks of environments: `check_env`, which `verigym check` runs. The modules, in the order of the checks:

- `hacks`: completions that must not be rewarded, made from a prompt and its gold completion.
- `cases`: all completions to try for a sample prompt, and the function that has them judged.
- `client` and `worker`: the processes in which the environment runs, with limits of time and memory.
- `playing`: plays episodes in such a process. `turns`: forged and hostile model turns that a session must withstand.
- `checks`: report rows on the contract, the verdicts and the scores; `task_checks`: rows on generated tasks;
  `episode_checks`: rows on the episodes of interactive environments.
- `report`: the rows as data and as a table.
- `check`: `check_env`, which puts them together.
"""

from verigym.envs.conformance.check import check_env
from verigym.envs.conformance.report import CheckRow, ConformanceError, FailureCause, Report

__all__ = ["CheckRow", "ConformanceError", "FailureCause", "Report", "check_env"]
