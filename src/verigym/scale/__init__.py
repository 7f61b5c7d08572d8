"""How many servers and graders a run needs: a discrete-event model of its steps, calibrated by the metrics of runs.

- `lengths`: distributions of lengths and times, from their means and maxima
- `calibration`: what a run's own metrics say of its costs
- `simulation`: the model: servers that generate, workers that grade, the update
- `plans`: the model over several sizes, and the smallest that is enough
"""
