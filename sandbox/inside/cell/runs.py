"""One run inside the cell: sends a waiting process its specification, and turns that process into the program.

The cell never reads programs or their inputs: programs, inputs and channels arrive as descriptors and are passed on.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import marshal
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verigym.sandbox.inside.cell import run_dir
from verigym.sandbox.inside.cell.forker import ForkFailed, RunStarter
from verigym.sandbox.inside.cell.prefork import SETUP_FAILED, note
from verigym.sandbox.inside.walls import cpu_affinity
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.build import Walls
from verigym.sandbox.inside.walls.privileges import resource_limits

_HIGH = 128  # descriptors that occupy needed numbers are moved above this
_ANY = 1024  # above every descriptor of the cell, a bound for kernels without close_range(2)
_NOTHING = "nothing"
_NOT_EXECUTABLE = 126  # the exit code that shells use
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",  # each thread would reserve 64 MiB of address space for an arena
}


def start(starter: RunStarter, place: run_dir.RunDir, header: Mapping[str, Any], fds: Sequence[int], note_fd: int) -> bool:
    """Start the run that `header` describes.

    Args:
        starter: forks the process of the run.
        place: the directory in which the run's files are created.
        header: the description of the run; `header["fds"]` gives the role of each descriptor in `fds`.
        fds: descriptors of the run's files, streams and channels.
        note_fd: descriptor to which the reason of a failed setup is written.

    Returns:
        Whether a process was started. If True, the caller must wait for its end.
    """
    walls, limits = starter.walls, header["limits"]
    files, streams, channels = {}, {}, []
    for name, fd in zip(header["fds"], fds, strict=True):
        if name.startswith("file:"):
            files[name[len("file:") :]] = fd
        elif name == "channel":
            channels.append(fd)
        else:
            streams[name] = fd
    mode, stdout_fd = header["mode"], -1
    try:
        place.create(limits, files, header["executable"])
        if header["stdout_file"]:
            streams["stdout"] = stdout_fd = place.unnamed()
        elif walls.uid is not None:
            os.fchown(streams["stdout"], walls.uid, walls.uid)  # so that the run may open /dev/stdout
        if walls.uid is not None:
            os.fchown(streams["stderr"], walls.uid, walls.uid)
    except OSError as error:
        os.write(note_fd, note(f"{type(error).__name__}: {error}"))
        mode = _NOTHING
    starter.set_core(header["core"])
    spec = marshal.dumps(
        (
            mode,
            header["source"],
            header["prelude"],
            header["argv"],
            header["env"],
            resource_limits(walls, limits),
            header["core"],
        )
    )
    places = [streams[name] for name in ("stdin", "stdout", "stderr")]
    started = True
    try:
        starter.start(spec, [*places, *channels], note_fd)
    except OSError as error:
        os.write(note_fd, note(f"the process that was to run it is not there: {error}"))
        started = not isinstance(error, ForkFailed)
    if stdout_fd >= 0:
        os.close(stdout_fd)
    return started


def become(walls: Walls, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
    """Turn this freshly forked process into the run that `spec` describes.

    Args:
        walls: the isolation of the run.
        spec: the specification that `start` made.
        fds: descriptors of the run; they become 0, 1, 2, ...
        note_fd: descriptor to which the reason of a failed setup is written.

    Raises:
        OSError: the process could not be set up.
    """
    mode, source, prelude, argv, env, limits, number = marshal.loads(spec)  # noqa: S302, made by the cell, above
    cpu_affinity.here.start_run(number)
    if mode == _NOTHING:
        return
    for kind, values in limits:
        resource.setrlimit(kind, values)
    free = len(fds)
    if note_fd <= free or any(fd <= free for fd in fds):
        note_fd, *fds = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in (note_fd, *fds))
    os.chdir(f"{walls.run_dir}/{run_dir.WORK}")
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
    if env:
        os.environ.update(env)
    if mode == "exec":
        _execute(argv, note_fd, free)
    os.closerange(free, _ANY)
    path = f"{walls.run_dir}/{run_dir.WORK}/{source}"
    if mode == "tests":
        _module(_HARNESS).serve_tests(3, 4)
    calls = _module(_CALLS)
    if mode == "calls":
        calls.serve_calls(path, 3, prelude)
    calls.run_program(path, argv, prelude)


def _execute(argv: list[str], note_fd: int, free: int) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # those that Python changes at its start
        signal.signal(number, signal.SIG_DFL)
    os.dup2(note_fd, free, inheritable=False)  # open until exec, to tell a missing tool from a failing program
    os.closerange(free + 1, _ANY)
    try:
        os.execve(argv[0], argv, os.environ)
    except OSError as error:
        text = f"{argv[0]}: {error.strerror}"
        if argv[0][:2] == "./":  # the program's own executable: its fault
            os.write(2, f"{text}\n".encode())
            os._exit(_NOT_EXECUTABLE)
        os.write(free, note(text))
        os._exit(SETUP_FAILED)


def _module(name: str) -> Any:
    return _loaded.get(name) or importlib.import_module(name)


def prepare_for_runs(walls: Walls, path: Sequence[str], *, warm: bool = True) -> None:
    """Set up the environment variables that all runs share, and preload modules that most programs import.

    The objects that exist afterwards are frozen, so that the garbage collector ignores them.

    Args:
        walls: the isolation of runs.
        path: folders from which runs import installed packages.
        warm: whether to preload modules; False for a process that serves a single run.
    """
    import gc

    sys.path.extend(path)
    os.environ.clear()
    temporary = "/tmp" if walls.mounts else f"{walls.run_dir}/tmp"
    os.environ.update(ENVIRONMENT, HOME=f"{walls.run_dir}/{run_dir.WORK}", TMPDIR=temporary)
    sys.stdout = sys.stderr = sys.stdin = None
    program = importlib.import_module(_PROGRAM)
    program.import_random()  # it is seeded before a program sees it
    if not warm:
        return
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(name)
    _loaded.update((name, importlib.import_module(name)) for name in (_CALLS, _HARNESS))
    warmup = importlib.import_module(_WARMUP)
    with _like_a_run():
        program.prepare()  # from here on our modules cannot be imported by name
        warmup.warm_up()
    vars(sys.modules["__main__"]).pop("boot", None)  # the sources of our modules, no longer needed
    gc.collect()
    sys_.trim_memory()  # every resident page is shared with, and released by, each fork
    gc.freeze()


@contextlib.contextmanager
def _like_a_run() -> Iterator[None]:
    """Give descriptors 0 to 2 the types that they have in a run: Python inspects them when it opens streams."""
    before = [os.dup(fd) for fd in range(3)]
    out, into = os.pipe()
    try:
        os.dup2(into, 1)
        os.dup2(into, 2)
        yield
    finally:
        for fd, was in enumerate(before):
            os.dup2(was, fd)
            os.close(was)
        os.close(out)
        os.close(into)


_CALLS, _HARNESS, _PROGRAM, _WARMUP = (
    f"verigym.sandbox.inside.{name}" for name in ("candidate.calls", "testside.harness", "program", "cell.warmup")
)
_loaded: dict[str, Any] = {}
# Modules that most programs import. Each page of a module is mapped and unmapped in every run: with datetime, decimal and
# fractions, a test costs a sixteenth more; with inspect, hashlib, shutil and the like, an eighth.
_PRELOADED = """
abc ast atexit bisect collections collections.abc copy enum functools heapq itertools json math
operator random re signal string struct sys time typing
""".split()
