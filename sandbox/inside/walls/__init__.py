"""Isolation of a run, built once per cell and inherited by every run.

build            puts the walls together for a level: 3 (namespaces), 2 (own uid or Landlock, and seccomp), 1 (limits only)
root             the file system of level 3: read-only mounts and one writable directory
masked           the same restriction by links and Landlock, where nothing can be mounted
packages, paths  which installed packages are shown, and where paths of the host appear inside
seccomp          the system call filter
landlock         rulesets for files, TCP ports and signals
privileges       drops uid, capabilities and access rights in a run's process; resource limits
cpu_affinity     pins waiting processes to one core, for warm caches
syscalls         raw system calls that Python 3.11 lacks
probes           tries each layer for `sandbox doctor`
"""
