"""The cell: an isolated process that runs one program at a time for the supervisor (the process that opened the sandbox).

cell            serves runs over a socket that carries descriptors (back ends local and bubblewrap)
container_cell  serves runs over one byte stream, with `relay` (frames) and `stream_outputs` (pipes and channels)
zygote          pid 1 of the cell's namespaces: forks each run from a warm interpreter and reaps the processes that a run leaves
forker          does the same in the cell's own process if there is no zygote; also has the code that both share
prefork         a process forked ahead of its run, which waits for the run's specification
runs            sends the specification, and turns the waiting process into the program
run_dir         lays out, collects and removes the files of a run
warmup          executes every code path once before forking, so that forked processes share more memory pages
fd_passing, folders  helpers: descriptors over sockets, emptying a directory that a program wrote
"""
