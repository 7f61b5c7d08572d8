# ruff: noqa: E501, programs are data
"""Programs run as `python3 main.py` runs them: the same output, the same end. The real interpreter is the reference."""

from __future__ import annotations

import re

import pytest

SAME = {
    "world": """
import sys, os, __main__, builtins, signal, gc
print(__name__, __file__, sys.path[0] == os.getcwd(), sorted(globals()), __main__ is sys.modules["__main__"], vars() is vars(__main__))
print(type(exit).__name__, quit, help, __spec__, __package__, __builtins__ is builtins, type(__loader__).__name__, __annotations__)
print(signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), gc.isenabled())
print(sys.excepthook is sys.__excepthook__, sys.argv[1:], [m for m in sys.modules if m.startswith("verigym.")])
for s in (sys.stdin, sys.stdout, sys.stderr):
    print(s, s.encoding, s.errors, s.line_buffering, s.write_through, s.buffer, s.buffer.raw, s.fileno(), s.isatty(), s.newlines)
""",
    "streams": "import sys\nprint(repr(sys.stdin.readline()), repr(sys.stdin.buffer.read()))\nprint('\\udcff\\r\\n', end='')",
    "binary": "import sys\nsys.stdout.buffer.write(b'\\xff%d' % len(sys.stdin.buffer.readline()))",
    "input": "try:\n    while True: print(input('? '))\nexcept EOFError as e: print('end', e)",
    "eof": "a = input(); b = input(); c = input(); d = input()",
    "open0": "print(open(0).read())",
    "dev_stdin": "print(open('/dev/stdin').read())",
    "os_read": "import os\nos.write(1, os.read(0, 100))",
    "rebinding": "import sys, functools\ninput = sys.stdin.readline\nprint = functools.partial(print, flush=True)\nprint(input())",
    "exit": "exit(3)",
    "exit_none": "import sys\nsys.exit()",
    "exit_text": "import sys\nsys.exit('why')",
    "exit_large": "import sys\nsys.exit(2**40 + 5)",
    "exit_huge": "import sys\nsys.exit(2**80)",
    "exit_negative": "raise SystemExit(-1)",
    "exit_object": "raise SystemExit([1])",
    "exit_true": "raise SystemExit(True)",
    "os_exit": "import os\nprint('lost')\nos._exit(4)",
    "error": "def f():\n    raise ValueError('x')\ntry:\n    f()\nexcept ValueError as e:\n    raise KeyError('y') from e",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "syntax": "x = 1\nif x\n    y",
    "indent": "  x = 1\n y = 2",
    "encoding": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))",
    "bad_encoding": b"print('\xe9')",
    "bom": b"\xef\xbb\xbfprint('bom')",
    "recursion": "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(900))\nf(10**6)",
    "hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1/0",
    "bad_hook": "import sys\ndef hook(*a): raise KeyError('hook')\nsys.excepthook = hook\n1/0",
    "exit_hook": "import sys\nsys.excepthook = lambda *a: sys.exit(9)\n1/0",
    "thread_error": "import threading\ndef f(): 1/0\nt = threading.Thread(target=f, name='t')\nt.start(); t.join()\nprint('on')",
    "threads": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('thread'))).start()\nprint('main')",
    "daemon": "import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()\nprint('main')",
    "atexit": "import atexit, os\natexit.register(lambda: os.write(1, b'end'))\natexit.register(print, 'first')\nprint('main')",
    "atexit_error": "import atexit\natexit.register(lambda: 1/0)\natexit.register(print, 'x')",
    "del": "class D:\n    def __del__(self): print('del', NAME)\nNAME = 'n'\nd = D()\nother = [D()]; other.append(other)\nprint('main')",
    "file": "f = open('left.txt', 'w')\nf.write('unflushed')\nimport atexit\natexit.register(lambda: print('x'))",
    "closed_stdout": "import sys\nprint('x')\nsys.stdout.close()",
    "no_stdout": "import os\nprint('x')\nos.close(1)",
    "own_stdout": "import sys, os\nclass W:\n    def write(self, s): os.write(1, s.upper().encode())\n    def flush(self): os.write(1, b'!')\n"
    "sys.stdout = W()\nprint('abc')",
    "no_flush": "import sys, os\nclass W:\n    def write(self, s): os.write(1, s.upper().encode())\nsys.stdout = W()\nprint('abc')",
    "swapped": "import sys, io\nprint('a')\nsys.stdout = io.StringIO()\nprint('b')",
    "rewrapped": "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-16')\nprint('a')",
    "fork": "import os\nprint('before', flush=True)\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('after', pid == 0)",
    "mp_fork": "import multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n"
    "    mp.set_start_method('fork')\n    with mp.Pool(2) as p: print(p.map(f, range(5)))",
    "mp_spawn": "import multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n    mp.set_start_method('spawn')\n"
    "    q = mp.Queue()\n    p = mp.Process(target=q.put, args=(f(3),)); p.start(); print(q.get()); p.join(); print(p.exitcode)\n"
    "    with mp.Pool(1) as pool: print(pool.map(f, [2]))",
    "futures": "from concurrent.futures import *\ndef f(x): return x + 1\nif __name__ == '__main__':\n"
    "    with ThreadPoolExecutor() as t: print(list(t.map(f, [1])))\n    with ProcessPoolExecutor(1) as p: print(list(p.map(f, [1])))",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    p = await asyncio.create_subprocess_exec('echo', 'hi')\n"
    "    await p.wait()\n    print('done')\nasyncio.run(f())",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(input())'], input=b'x', capture_output=True).stdout)",
    "pickle": "import pickle, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\nprint(pickle.loads(pickle.dumps(P(1))), P)",
    "import_main": "x = 5\nfrom __main__ import x as y\nimport typing\ndef f(a: 'int'): pass\nprint(y, typing.get_type_hints(f))",
    "source": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getmodule(f), inspect.getfile(f))",
    "annotations": "from __future__ import annotations\nx: y = 1\nprint(__annotations__)",
    "pipe": "import signal, os\nr, w = os.pipe(); os.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError: print('broken pipe')",
    "interrupt": "raise KeyboardInterrupt",
    "warning": "import warnings\nwarnings.warn('careful', DeprecationWarning)",
    "globals": "def f():\n    global n\n    n = 1\nf(); print(n, globals()['n'], eval('n + 1'))",
    "exec": "exec('y = 2'); print(y)\nprint([k for k in dir() if k[:1] != '_'])",
}


@pytest.mark.parametrize("name", SAME)
def test_it_is_as_if_python_had_been_started(run_python, name):
    ours, real = run_python(SAME[name], "one\r\ntwö\nthree".encode(), "a", "b c")
    assert (ours.out, ours.returncode) == (real.stdout, real.returncode), (ours.err.decode(), real.stderr.decode())
    plain = [re.sub(rb"0x[0-9a-f]+", b"0x", text) for text in (ours.err, real.stderr)]
    if name in ("recursion", "no_stdout", "no_flush", "interrupt"):
        plain = [text.strip().splitlines()[-1:] for text in plain]  # the wording of the interpreter's own last words
    if name not in ("no_flush", "bad_encoding", "exit_huge"):  # nor what 3.13 says of an exit code that is no integer of C's
        assert plain[0] == plain[1]


def test_frames_left_for_recursion(run_python):
    ours, real = run_python("def f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nprint(f(1))")
    assert abs(int(ours.out) - int(real.stdout)) <= 1


def test_random_is_seeded_where_it_is_already_loaded(run_python):
    outs = {
        run_python("import random\nprint(random.random(), random.randint(1, 99))", preload="random")[0].out for _ in range(2)
    }
    assert outs == {b"0.8444218515250481 98\n"}


def test_a_failing_flush_ends_with_120(run_python):
    source = "import os, sys\nprint('x' * 100)\nr, w = os.pipe(); os.close(r); os.dup2(w, 1)"
    ours, real = run_python(source)
    assert ours.returncode == real.returncode == 120
