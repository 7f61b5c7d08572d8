"""`treasure_rooms`: a house to explore room by room, with locked doors and their keys, and a treasure to take.

- `world`: the reference (rooms, doors, things), the state of a game and what a command changes: the rules, written once.
- `solving`: whether a house can be won, a shortest solution, and an explorer that knows no more than a player.
- `drawing`: a house by random draws.
- `environment`: the game in words, the tasks and the verdict.
"""
