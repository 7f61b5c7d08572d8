"""Games that a model plays over several turns, graded by their rules.

- `base`: a game, the session that plays it, and the environment that replays a saved episode to judge it.
- `number_guessing`: a hidden whole number, with `higher` and `lower` as replies.
- `treasure_rooms`: a house to explore; the model sees only the room that it is in.
"""
