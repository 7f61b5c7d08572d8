"""Correct programs that careless graders reject."""

from __future__ import annotations

from verigym.sandbox.checks.panel.probe import Form, Probe


def _honest(name: str, source: str, form: Form = "print", language: str = "python") -> Probe:
    return Probe(name, source, "accepted", form, language, group="honest")


HONEST = (
    _honest("print", "print(2 * int(input()))\n"),
    _honest("descriptor 0", "import os\nprint(2 * int(os.read(0, 100)))\n"),
    _honest("open(0)", "print(2 * int(open(0).read()))\n"),
    _honest("/dev/stdin", "print(2 * int(open('/dev/stdin').readline()))\n"),
    _honest("binary streams", "import sys\nsys.stdout.buffer.write(b'%d\\n' % (2 * int(sys.stdin.buffer.readline())))\n"),
    _honest(
        "a global and a main guard",
        "x = 0\ndef main():\n    global x\n    x = 2 * int(input())\n    print(x)\nif __name__ == '__main__': main()\n",
    ),
    _honest(
        "a thread that is not joined", "import threading\nthreading.Thread(target=lambda: print(2 * int(input()))).start()\n"
    ),
    _honest(
        "deep recursion",
        """
import sys, threading
sys.setrecursionlimit(10**6)
threading.stack_size(1 << 26)
def depth(n): return n and 1 + depth(n - 1)
def main(): print(2 * int(input()) + depth(30000) - 30000)
t = threading.Thread(target=main); t.start(); t.join()
""",
    ),
    _honest("output in atexit", "import atexit\nn = int(input())\natexit.register(lambda: print(2 * n))\n"),
    _honest("exit()", "print(2 * int(input()))\nexit()\n"),
    _honest(
        "children",
        "import subprocess\nprint(subprocess.check_output(['/bin/sh', '-c', 'echo $((2 * %d))' % int(input())]).decode())\n",
    ),
    _honest("asyncio", "import asyncio\nasync def g(n): return 2 * n\nprint(asyncio.run(g(int(input()))))\n"),
    _honest(
        "temporary files",
        "import tempfile\nh = tempfile.TemporaryFile('w+')\nh.write(input()); h.seek(0)\nprint(2 * int(h.read()))\n",
    ),
    _honest(
        "its own source",
        "import inspect\ndef g(n): return 2 * n\nassert '2 * n' in inspect.getsource(g)\nprint(g(int(input())))\n",
    ),
    _honest("a noisy function", "print('loading')\ndef f(n):\n    print('{\"passed\": false}')\n    return 2 * n\n", "call"),
    _honest("an honest subclass of int", "class N(int): pass\ndef f(n): return N(2 * n)\n", "assert"),
    _honest("a LeetCode class", "class Solution:\n    def f(self, n: int) -> int: return 2 * n\n", "call"),
    _honest(
        "a caught MemoryError",
        "def f(n):\n    try: bytearray(1 << 62)\n    except (MemoryError, OverflowError): pass\n    return 2 * n\n",
        "unittest",
    ),
    _honest("an output file", "with open('output.txt', 'w') as h: print(2 * int(input()), file=h)\n", "file"),
    _honest("bash", "read -r n\necho $((2 * n))\n", "print", "bash"),
)
