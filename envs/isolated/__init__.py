"""Comparisons of answers in isolated processes: `client` sends requests, and `worker` forks a confined child for each one."""
