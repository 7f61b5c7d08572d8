"""Episodes of several turns in worker processes: hundreds of live sessions on a few workers.

In the caller's process:

- `api`: `Sessions` and `Episode`, which callers use; `answers`: the results that they get; `stats`: the counts.
- `engine`: chooses a worker for each episode; `owner`: the thread of one worker; `workers`: the workers themselves.
- `record`: what is kept of an episode; `replay`: reopens an episode on a new worker after a crash, and finds out whether the
  model's turn or our side is to blame; `wire`: validates a worker's answers.

In a worker process: `child`, its main function, and `host`, which holds the open sessions.
"""

from verigym.envs.sessions.answers import Answer, SessionLimit
from verigym.envs.sessions.api import Episode, Sessions
from verigym.envs.sessions.stats import SessionStats

__all__ = ["Answer", "Episode", "SessionLimit", "SessionStats", "Sessions"]
