"""Grading on several machines: a `Grader` that uses the worker processes on the nodes of a cluster.

- `engine`: the part on the driver, which decides which node gets which items, and what happens when nodes join or leave
- `nodes`: the interface of a cluster, and `NodeHost`, which grades on a node; both are independent of Ray
- `ray_cluster`: the implementation of this interface on Ray, and the only module that imports Ray

The packages `envs` and `trainer` do not import this package: `Grader(cluster="ray")` loads it by name.
"""
