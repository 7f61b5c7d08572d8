"""Stands for a process of the server's: `python -S -I client.py SOCKET ARGUMENTS...` does what `python ARGUMENTS...` does.

Signals go on to that process, and this one ends as it ends. Imports as little as it can: it is started hundreds of times.
"""

import json
import os
import signal
import socket
import sys

server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
asked = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}
signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
message = json.dumps(asked).encode() + b"\n"
sent = socket.send_fds(server, [message], [0, 1, 2])
server.sendall(message[sent:])
lines = server.makefile()
pid = int(lines.readline())
for number in signals:
    signal.signal(number, lambda number, frame: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
status = int(lines.readline())
if os.WIFSIGNALED(status):
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = os.WTERMSIG(status)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
sys.exit(os.WEXITSTATUS(status))
