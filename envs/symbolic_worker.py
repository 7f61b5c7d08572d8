"""The process in which Math-Verify runs: `python -m verigym.envs.symbolic_worker`, started by `symbolic.py`.

A zygote loads SymPy once and forks a child for every comparison, so nothing of one submission reaches the next, and a child
that hangs, crashes or eats memory is killed alone. The zygote passes the request on as bytes and never reads it; a child sees
the texts of one comparison and answers in JSON of bounded size through its own pipe. `symbolic.py` describes the frames.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from verigym.sandbox.confine import confine, parent_is

REQUEST = struct.Struct("!Iddq")  # payload bytes, CPU seconds, wall seconds, memory bytes
REPLY = struct.Struct("!cI")  # status, payload bytes
OK, TIME, WALL, MEMORY, CRASH, START = b"O", b"T", b"W", b"M", b"C", b"S"
MAX_REPLY = 4096
EXIT_MEMORY = 77
POLL_MS = 2_000
SIGNIFICANT = 1e-13  # a decimal stands for an irrational gold only if it is right to the precision of a double

# One text for every construction the parser knows: it learns its decisions on first meeting, and forks inherit them.
WARM_UP = (
    r"\frac{1}{2}", r"-\frac{3\sqrt{7}}{5}", r"\sqrt{2}+\sqrt[3]{x}", "x^2-3x+1", r"(x-1)(x+2)^2", r"2\pi r^2", "[0,1)",
    r"(-\infty,2]\cup(3,\infty)", r"\{1,2,-3\}", "2,1,x", "x=5", "y=2x+1", "x<3", r"1\le x\le 2", r"x\ge-2", "3+4i", "0.5x",
    "5!", r"\begin{pmatrix}1&-2\\3&4\end{pmatrix}", r"e^{i\pi}", r"\binom{5}{2}", r"\text{even}", r"90^\circ", r"5\%",
    r"\infty", "x_1", r"\sin\theta\cos(2x)", r"\log_2 8+\ln x", r"(3,-1,\frac{\pi}{2})", r"1\pm\sqrt{19}", r"|x|", "2^{-n}",
    r"\frac{x^2+1}{y-2}", r"2\cdot10^{3}", "f(x)=x^2", r"\sum_{k=1}^{n}k", "a/b", r"3\sqrt{2}-\frac{\pi}{4}",
)  # fmt: skip

Compare = Callable[[bytes], bytes]


def load() -> Compare:
    """Import Math-Verify, warm its caches, and return the comparison."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    # LaTeX only: the plain-expression extractor goes through SymPy's string parser. No units: "5m" is not 5.
    config = LatexExtractionConfig(
        boxed_match_priority=-1,
        normalization_config=NormalizationConfig(
            basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
        ),
    )

    def read(text: str) -> list[Any]:
        # No timeouts of its own, which are signals: the deadline is the kill.
        found: list[Any] = parse(f"$${text}$$", [config], fallback_mode="no_fallback", parsing_timeout=None)
        return [imaginary(value) for value in found]

    def equal(gold: list[Any], answer: list[Any]) -> bool:
        # 6 digits and 15 digits, the defaults, make 1e-7 equal 2e-7 and 2^-99 equal 2^-98.
        same = verify(gold, answer, float_rounding=10, numeric_precision=100, timeout_seconds=None)
        return bool(same) and near(gold[0], answer[0])

    def compare(payload: bytes) -> bytes:
        request = json.loads(payload)
        gold = read(request["gold"])
        answers = [read(answer) for answer in request["answers"]]
        parsed = bool(gold) and all(answers)
        same = parsed and all(equal(gold, answer) for answer in answers)
        return json.dumps({"gold": bool(gold), "answers": [bool(a) for a in answers], "equal": same}).encode()

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for text in WARM_UP:
        compare(json.dumps({"gold": text, "answers": [text]}).encode())
    compare(json.dumps({"gold": r"\tan^2(y)+1", "answers": [r"\sec^2(y)"]}).encode())
    return compare


def near(gold: Any, answer: Any) -> bool:
    """Whether two constants agree to thirteen significant digits; True of what is no real constant.

    Math-Verify takes what is nearly zero for zero, so that 1/2004! equals 1/2006!.
    """
    if not (getattr(gold, "is_number", False) and getattr(answer, "is_number", False)):
        return True
    left, right = gold.evalf(40), answer.evalf(40)
    if not all(value.is_Float or value.is_Rational for value in (left, right)):
        return True
    if any(value.is_Float and value._prec == 1 for value in (left, right)):
        return True  # a zero that only shows as rounding noise: nothing to compare with
    return bool(abs(left - right) <= max(abs(left), abs(right)) * SIGNIFICANT)


def imaginary(value: Any) -> Any:
    """Return the value with every free `i` as the imaginary unit; the parser makes it a variable, real or not by spacing."""
    from sympy import I

    units = [symbol for symbol in getattr(value, "free_symbols", ()) if symbol.name == "i"]
    return value.xreplace(dict.fromkeys(units, I)) if units else value


def run_child(compare: Compare, payload: bytes, cpu_s: float, memory_bytes: int, reply: int, zygote: int) -> None:
    """Confine this fresh fork, compare, write the answer, and end."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        confine(memory_bytes=memory_bytes, cpu_s=int(cpu_s) + 2, file_bytes=0, processes=0, die_with_parent=True)
        if parent_is(zygote):
            os.write(reply, compare(payload)[:MAX_REPLY])
            code = 0
    except MemoryError:
        code = EXIT_MEMORY
    finally:
        os._exit(code)


def supervise(pid: int, reply: int, requests: int, wall_s: float) -> tuple[bytes, bytes]:
    """Wait for a child's answer, its end or its deadline; kill it and what it started in any case."""
    deadline = time.monotonic() + wall_s
    poll = select.poll()
    poll.register(reply, select.POLLIN)
    poll.register(requests, 0)  # only its hang-up matters here: whoever asked is gone
    data, late = b"", False
    while len(data) <= MAX_REPLY:
        left = deadline - time.monotonic()
        events = dict(poll.poll(max(0, int(left * 1000)) + 1)) if left > 0 else {}
        if requests in events:
            _kill(pid)
            os._exit(0)
        if not events:
            late = left <= 0 or time.monotonic() >= deadline
            if late:
                break
            continue
        chunk = os.read(reply, MAX_REPLY + 1)
        if not chunk:
            break
        data += chunk
    # The status of a child that has ended is settled; one that closed its pipe and lingers dies here.
    _kill(pid)
    _, status = os.waitpid(pid, 0)
    if late:
        return WALL, b""
    if os.WIFSIGNALED(status):
        return (TIME if os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU) else CRASH), b""
    if os.WEXITSTATUS(status) == EXIT_MEMORY:
        return MEMORY, b""
    return (OK, data) if os.WEXITSTATUS(status) == 0 and 0 < len(data) <= MAX_REPLY else (CRASH, b"")


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def serve(requests: int, replies: int) -> None:
    """Answer requests until whoever asks is gone."""
    parent = os.getppid()
    try:
        compare = load()
    except Exception as error:
        _send(replies, START, f"{type(error).__name__}: {error}"[:MAX_REPLY].encode())
        return
    confine(network=False)
    gc.freeze()  # the collector of a fork would copy every page it visits
    _send(replies, OK, b"")
    zygote = os.getpid()
    while (header := _read(requests, REQUEST.size, parent)) is not None:
        size, cpu_s, wall_s, memory_bytes = REQUEST.unpack(header)
        payload = _read(requests, size, parent)
        if payload is None:
            return
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            for fd in (receive, requests, replies):
                os.close(fd)
            run_child(compare, payload, cpu_s, memory_bytes, send, zygote)
        os.close(send)
        try:
            status, data = supervise(pid, receive, requests, wall_s)
        finally:
            os.close(receive)
        _send(replies, status, data)


def _read(fd: int, size: int, parent: int) -> bytes | None:
    """Read exactly so many bytes; None when the other end is closed or the parent is gone."""
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while len(data) < size:
        # Another fork of the parent may hold the pipe open, so its end alone is not relied upon.
        if not poll.poll(POLL_MS):
            if not parent_is(parent):
                return None
            continue
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def _send(fd: int, status: bytes, data: bytes) -> None:
    frame = REPLY.pack(status, len(data)) + data
    while frame:
        frame = frame[os.write(fd, frame) :]


def main() -> None:
    """Take over stdin and stdout as the channel, so that nothing printed can be taken for a reply."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        serve(requests, replies)
    sys.exit(0)


if __name__ == "__main__":
    main()
