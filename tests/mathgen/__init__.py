"""Generators for the math grader's tests and benchmark: golds of public data sets, right rewrites and wrong mutations of them.

All work on text and use nothing of `verigym.envs.math`, so that a misreading there cannot hide itself. Everything is seeded by
a hash of what it is made for, so every run makes the same texts.
"""
