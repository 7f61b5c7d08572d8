"""`verigym gpu-check`: checks on this machine's GPU everything that tests on a CPU cannot show, and writes a report to send.

It takes about ten minutes and needs no network. Each check (`checks.CHECKS`) runs in its own process, so that a check that runs
out of memory or breaks CUDA does not end the others.
"""
