"""Code that runs inside the walls: standard library only, no imports from the rest of the package.

`backends/boot.py` sends all of it as one message, so a cell needs no file of ours.

walls/      isolation: namespaces, mounts, seccomp, Landlock, privileges, packages that programs may import
cell/       the process that forks, feeds and reaps one run at a time
program     makes a forked process look like `python3 main.py`
candidate/  the untrusted program's side of calls and tests
testside/   the trusted test's side
wire/       what crosses between these two: frames, values, shared containers
"""
