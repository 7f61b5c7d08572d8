"""`verigym gpu-check`: does everything that only a GPU can show hold on this one? Ten minutes, no network, a report to send.

Each check (`checks.CHECKS`) runs in a process of its own, so that one that runs out of memory or breaks CUDA does not end the
others.
"""
