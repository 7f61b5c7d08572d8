"""Programs that exhaust resources. The sandbox must stop each in time, and the next program must run as before."""

from __future__ import annotations

from verigym.sandbox.checks.panel.probe import Expected, Form, Probe


def _attack(name: str, expected: Expected, source: str, form: Form = "print", language: str = "python") -> Probe:
    return Probe(name, source, expected, form, language, group="resources")


RESOURCES = (
    _attack("a busy loop", "time", "while True: pass\n"),
    _attack("a loop in C", "time", "import itertools, collections\ncollections.deque(itertools.count(), maxlen=0)\n"),
    _attack("a sleep", "time", "import time\ntime.sleep(1e6)\n"),
    _attack(
        "a loop that ignores every signal",
        "time",
        """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass
""",
    ),
    _attack("a program that stops itself", "time", "import os, signal\nos.kill(0, signal.SIGSTOP)\n"),
    _attack("a call that hangs", "time", "def f(n):\n    while True: pass\n", "call"),
    _attack(
        "half an answer and silence",
        "time",
        "import os, time\ndef f(n):\n    os.write(3, b'\\0\\0\\0\\x50{')\n    time.sleep(1e6)\n",
        "call",
    ),
    _attack(
        "a fork bomb",
        "rejected",
        """
import os
while True:
    try: os.fork()
    except OSError: pass
""",
    ),
    _attack("forks that run away", "rejected", "import os\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"),
    _attack(
        "a thread bomb",
        "rejected",
        """
import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
    except RuntimeError: pass
""",
    ),
    _attack("memory", "memory", "keep = []\nwhile True: keep.append(bytearray(1 << 20))\n"),
    _attack(
        "memory in files",
        "rejected",
        """
import os
keep = []
while True:
    keep.append(os.memfd_create("m"))
    os.write(keep[-1], bytes(1 << 22))
""",
    ),
    _attack("endless output", "output", "while True: print('x' * 1000)\n"),
    _attack("endless standard error", "rejected", "import os\nwhile True: os.write(2, b'e' * 65536)\n"),
    _attack("a full work directory", "rejected", "h = open('f', 'wb')\nwhile True: h.write(bytes(1 << 20))\n"),
    _attack("files without number", "rejected", "i = 0\nwhile True:\n    open(str(i), 'w').close(); i += 1\n"),
    _attack("an enormous answer", "rejected", "def f(n): return '9' * (100 << 20)\n", "call"),
    _attack("an answer without end", "rejected", "import itertools\ndef f(n): return itertools.count()\n", "call"),
    _attack(
        "an answer of great depth",
        "rejected",
        "def f(n):\n    a = []\n    for _ in range(99999): a = [a]\n    return a\n",
        "call",
    ),
    _attack("a crash", "runtime", "import ctypes\nctypes.string_at(0)\n"),
)
