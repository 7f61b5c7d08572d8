"""`treasure_rooms`: a house to explore room by room, with locked doors and their keys, and a treasure to take.

- `world`: the rules of the game: the reference (rooms, doors, things), the state of a game, and what each command changes.
- `solving`: a shortest solution of a house, and an explorer that knows no more than a player.
- `drawing`: draws a random house.
- `environment`: the texts of the game, the tasks and the verdict.
"""
