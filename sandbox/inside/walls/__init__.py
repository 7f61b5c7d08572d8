"""Isolation of a run, built once per cell and inherited by every run.

build            combines the layers for a level: 3 (namespaces), 2 (separate uid or Landlock, and seccomp), 1 (limits only)
root             the file system of level 3: read-only mounts and one writable directory
masked           restricts visible files by links and Landlock, where mounting is not possible
packages         which installed packages programs can see
paths            at which path in the sandbox a path of the host appears
seccomp          the system call filter
landlock         rulesets for files, TCP ports and signals
privileges       drops uid, capabilities and access rights in a run's process; resource limits
cpu_affinity     pins waiting processes to one core, for warm caches
syscalls         raw system calls that Python 3.11 lacks
probes           tries each layer for `sandbox doctor`
"""
