"""`verigym watch`: the live view of a run on a terminal. It reads the run's files and writes nothing.

- `state`: reads the logs into numbers; `sparkline`: draws small curves of block characters; `view`: makes the screen;
  `follow`: updates the screen in a loop
"""
