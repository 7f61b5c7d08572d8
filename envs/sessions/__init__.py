"""Episodes of several turns in worker processes: hundreds of live sessions on a few workers.

`api` has `Sessions` and `Episode`. `engine` has the threads: one `owner` for each of the `workers`. A worker process runs
`child`, holds its sessions in a `host`, and sends messages that `wire` validates. `record` has what the parent process keeps of
an episode. `replay` reopens an episode in another process and finds out who is to blame for a crash. `answers` has the results
for callers, and `stats` the counts.
"""

from verigym.envs.sessions.answers import Answer, SessionLimit
from verigym.envs.sessions.api import Episode, Sessions
from verigym.envs.sessions.stats import SessionStats

__all__ = ["Answer", "Episode", "SessionLimit", "SessionStats", "Sessions"]
