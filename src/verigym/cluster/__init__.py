"""Grading on several machines: a Grader whose workers are those of a cluster's nodes.

- `engine`: the driver's side: which node gets which items, what happens when nodes come and go
- `nodes`: what the engine asks of a cluster, and the host that grades on a node; neither knows what carries the calls
- `ray_cluster`: the same on Ray, the only module that imports it

Nothing here is imported by `envs` or `trainer`: `Grader(cluster="ray")` finds it by name.
"""
