"""Estimates how many servers and grading workers a run needs, with a discrete-event simulation of its training steps.

- `lengths`: distributions of lengths and times, from their means and maxima
- `calibration`: estimates the costs of a step from the metrics of finished runs
- `simulation`: simulates servers that generate, workers that grade, and the update
- `plans`: simulates several sizes, and finds the smallest number of workers that is enough
"""
