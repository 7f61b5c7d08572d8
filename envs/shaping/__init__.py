"""Rewards for how an answer is written, not for whether it is right: length, repetition, effort.

These rewards ignore correctness, so an echo of the prompt or garbage may score. By default, `WeightedSum` requires that their
weights stay below the weight of the part that judges correctness.
"""
