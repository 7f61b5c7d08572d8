"""Code that runs in isolated processes: standard library only, no imports from the rest of the package.

`backends/boot.py` sends all of this code to such a process as one message, so the process needs no file of verigym.

walls/      isolation: namespaces, mounts, seccomp, Landlock, privileges, packages that programs may import
cell/       the process that forks, feeds and reaps one run at a time
program     makes a forked process look like `python3 main.py`
candidate/  the untrusted program's side of calls and tests
testside/   the trusted test's side
wire/       the data that these two sides exchange: frames, values, and lists or dicts that both sides can mutate
"""
