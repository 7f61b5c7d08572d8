"""Rewards for how an answer is written, not for whether it is right: length, repetition, effort.

These rewards ignore correctness, so a completion that repeats the prompt or is garbage may score too. Therefore `WeightedSum`
by default requires that the weights of these rewards stay below the weight of the part that judges correctness.
"""
