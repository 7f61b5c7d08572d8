"""Comparisons in isolated processes: `client` sends requests, `worker` forks a confined child for each."""
