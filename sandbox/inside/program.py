"""Makes a forked process behave like `python3 main.py`: the interpreter's state before the program, and the exit after it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _sitebuiltins
import _weakref
import atexit
import builtins
import gc
import io
import os
import sys
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any, NoReturn

_exit = os._exit
_prepared = False
_unregistered: list[Any] = []
"""The after-fork hook of `random`, registered only once a program runs that may fork."""
kept: list[Any] = []
"""Objects that existed before the program started, kept alive so that their finalizers do not run during the program."""


def prepare() -> None:
    """Set up the state that all programs share. Called once per process.

    A process that forks programs calls it before it forks.
    """
    global _prepared
    if _prepared:
        return
    forget_ourselves()
    open_streams()
    reset_signals()
    sys.dont_write_bytecode = True  # as PYTHONDONTWRITEBYTECODE says, which a fork does not read again
    for name in ("excepthook", "displayhook", "unraisablehook", "breakpointhook"):
        setattr(sys, name, getattr(sys, f"__{name}__"))
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    setattr(builtins, "help", _sitebuiltins._Helper())  # noqa: B010, not declared
    loaded: dict[str, Any] = sys.modules
    for name in ("random", "numpy.random"):
        if name in loaded:
            loaded[name].seed(0)
    gc.enable()
    _prepared = True


def enter(path: str, args: Sequence[str]) -> ModuleType:
    """Set up the state in which the program at `path` starts with the arguments `args`. Returns its empty `__main__` module."""
    path = _absolute(path)
    begin()
    sys.argv = [path, *args]
    sys.orig_argv = [sys.executable, path, *args]
    sys.path.insert(0, path.rpartition("/")[0] or "/")
    loaded: dict[str, Any] = sys.modules
    if "multiprocessing.process" in loaded:
        loaded["multiprocessing.process"].ORIGINAL_DIR = os.getcwd()
    return fresh_main(path)


def _absolute(path: str) -> str:
    return path if path[:1] == "/" else os.path.abspath(path)  # normalizing a path touches twenty memory pages


def begin() -> None:
    """Set up the state that programs cannot share. Called in the process of one program, after `prepare`."""
    prepare()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    if _unregistered:
        os.register_at_fork(after_in_child=_unregistered.pop())


def import_random() -> None:
    """Import `random` without its fork hook, which reseeds it and slows down the sandbox's forks. `begin` adds the hook."""
    if "random" in sys.modules:
        return
    register = os.register_at_fork
    os.register_at_fork = lambda **hooks: _unregistered.append(hooks["after_in_child"])
    try:
        import random  # noqa: F401
    finally:
        os.register_at_fork = register


def fresh_main(path: str, name: str = "__main__") -> ModuleType:
    """Return an empty module for the program at `path`, registered in `sys.modules` under `name`."""
    kept.append(sys.modules.get(name))
    main = type(sys)(name)
    main.__dict__.update(
        __annotations__={},
        __builtins__=builtins,
        __cached__=None,
        __file__=path,
        __loader__=SourceFileLoader(name, path),
        __spec__=None,
    )
    sys.modules[name] = main
    return main


def forget_ourselves() -> None:
    """Remove the sandbox's modules and importer from the places where programs could see them.

    Called once per process. A process that forks programs calls it before it forks.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if "MemoryFinder" not in (type(finder).__name__, _name(finder))]
    for name in [name for name in sys.modules if name.partition(".")[0] == "verigym"]:
        kept.append(sys.modules.pop(name))
    linecache = sys.modules.get("linecache")
    if linecache is not None:  # from Python 3.13 on it holds the text of `-c`
        linecache.cache.clear()


def _name(finder: object) -> str:
    return str(getattr(finder, "__name__", ""))


def open_streams() -> None:
    """Open the standard streams over descriptors 0 to 2 as Python does for pipes."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        kept.append(getattr(sys, name))
        stream: io.TextIOWrapper | None
        try:
            buffer = io.open(fd, f"{mode}b", -1, closefd=False)  # noqa: UP020, the test may have replaced `open`
        except OSError:
            stream = None
        else:
            buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
            errors = "backslashreplace" if name == "stderr" else "surrogateescape"
            stream = io.TextIOWrapper(buffer, "utf-8", errors, "\n", line_buffering=name == "stderr")
            stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def reset_signals() -> None:
    """Set the signal dispositions of a freshly started Python, except for SIGINT, and unblock all signals."""
    ignored = (_signal.SIGPIPE, _signal.SIGXFSZ)
    for number in range(1, _signal.NSIG):
        if number in (_signal.SIGKILL, _signal.SIGSTOP):
            continue
        wanted: Any = _signal.SIG_IGN if number in ignored else _signal.SIG_DFL
        try:
            if _signal.getsignal(number) is not wanted:
                _signal.signal(number, wanted)
        except (OSError, ValueError):
            continue
    _signal.set_wakeup_fd(-1)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def load(path: str) -> CodeType:
    """Compile the program at `path` and return its code. Exceptions, such as SyntaxError, are errors of the program."""
    path = _absolute(path)
    with open(path, "rb") as file:
        source = file.read()
    if b"\0" in source:
        raise SyntaxError("source code cannot contain null bytes")
    return compile(source, path, "exec", dont_inherit=True)


def execute(code: CodeType, namespace: dict[str, Any]) -> BaseException | None:
    """Run `code` in `namespace`.

    Returns the exception that `code` raised, without the sandbox's frames in the traceback; None if it raised none.
    """
    depth, frame = 2, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    del frame
    # Leaves the program as many frames as if it had been started alone.
    sys.setrecursionlimit(1000 + depth)
    failed: BaseException | None = None
    try:
        exec(code, namespace)  # noqa: S102
    except BaseException as error:
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace is not None else None
        failed = error
    # As Python does after the last line of a file, before it prints errors and runs atexit.
    for name in ("stderr", "stdout"):
        _flush(name, say=False)
    return failed


def report(error: BaseException) -> int:
    """Print `error`, which ended the program, to standard error, as Python does. Returns the exit code."""
    if isinstance(error, SystemExit):
        return _exit_code(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as left:
        return _exit_code(left)
    except BaseException as second:
        second.__traceback__ = second.__traceback__.tb_next if second.__traceback__ else None
        second.__context__ = None
        _print("Error in sys.excepthook:")
        sys.__excepthook__(type(second), second, second.__traceback__)
        _print("\nOriginal exception was:")
        sys.__excepthook__(type(error), error, error.__traceback__)
    sys.last_value = sys.last_traceback = None
    return -_signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _exit_code(error: SystemExit) -> int:
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF if -(2**63) <= code < 2**63 else 255
    _print(str(code))
    return 1


def _print(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except Exception:  # noqa: S110, standard error is gone
        pass


def finish(code: int) -> NoReturn:
    """End the process with the exit code `code` as Python does: threads, atexit, finalizers, flushing.

    The caller must not hold a reference to `__main__`.
    """
    threading = sys.modules.get("threading")
    if threading is not None:
        _quietly(threading._shutdown)
    _quietly(atexit._run_exitfuncs)
    flushed = flush()
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__", None))
    main = sys.modules.pop("__main__", None)
    if main is not None:
        reference = _weakref.ref(main)
        del main
        _quietly(gc.collect)
        main = reference()
        if main is not None:
            _clear(main.__dict__)
            _quietly(gc.collect)
    flush()  # the original streams; a program that replaced them may have detached them
    if code == -_signal.SIGINT:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
        code = 130
    _exit(code if flushed else 120)


def _quietly(call: Any) -> None:
    try:
        call()
    except BaseException as error:
        _print(f"Exception ignored in: {call!r}\n{type(error).__name__}: {error}")


def _clear(names: dict[str, Any]) -> None:
    for private in (True, False):
        for name in list(names):
            if type(name) is str and name != "__builtins__" and (not private or (name[:1] == "_" and name[1:2] != "_")):
                names[name] = None


def flush() -> bool:
    """Flush the standard streams. Returns False if that failed."""
    done = [_flush(name) for name in ("stdout", "stderr")]
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream not in (sys.stdout, sys.stderr):
            try:
                stream.flush()  # type: ignore[union-attr]
            except Exception:  # noqa: S112, closed or detached by the program
                continue
    return all(done)


def _flush(name: str, *, say: bool = True) -> bool:
    stream = getattr(sys, name, None)
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except BaseException as error:
        if name == "stdout" and say:
            _print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}")
        return False
    return True
