"""Episodes of several turns in worker processes: hundreds of live sessions on a few workers.

`api` has `Sessions` and `Episode`, and `engine` the threads, an `owner` for each of the `workers`. Their processes run `child`
with a `host` of sessions, and say what `wire` reads. `record` is what this side keeps of an episode; `replay` opens it anew in
another process and finds who is to blame. `answers` is what callers get, `stats` counts.
"""

from verigym.envs.sessions.answers import Answer, SessionLimit
from verigym.envs.sessions.api import Episode, Sessions
from verigym.envs.sessions.stats import SessionStats

__all__ = ["Answer", "Episode", "SessionLimit", "SessionStats", "Sessions"]
