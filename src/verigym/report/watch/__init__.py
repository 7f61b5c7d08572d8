"""`verigym watch`: the live view of a run on a terminal. It reads the run's files and writes nothing.

- `state`: what the logs say, as numbers; `sparkline`: small curves of block characters; `view`: the screen; `follow`: the loop
"""
