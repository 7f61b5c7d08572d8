"""Environments that generate their own tasks: word and number problems (`families`, `running_sums`) and `puzzles/`."""
