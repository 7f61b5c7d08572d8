r"""Program of the process that runs another grader: `python -m verigym.bench.isolated_worker TARGET MEMORY_MB`.

`isolated.py` starts this process, and kills it when it takes too long. TARGET is `module:function`, or `math-verify`, which
hands the model's text to `parse_expr`. A message in either direction is a frame: four bytes with the length of the JSON
text (big-endian), then the text. The process first sends `{"ready": version}` or `{"failed": why}`. It then answers each
request `{"number": n, "golds": [...], "answer": text, "completion": text}` with `{"number": n, "kind": ..., "reason": ...,
"seconds": ...}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

from verigym.bench.cases import boxed
from verigym.bench.graders import ask, resolve
from verigym.bench.verdicts import Kind
from verigym.sandbox.confine import confine

LENGTH = struct.Struct("!I")
MAX_FRAME = 64 * 2**20
MAX_REPLY = 2**16
MATH_VERIFY = "math-verify"

Judge = Callable[[Sequence[str], str, str], tuple[Kind, str]]


def math_verify() -> Judge:
    r"""Return a judge that calls Math-Verify as its documentation recommends, with Math-Verify's own time limit.

    The limit is 5 s per call, by signals. The gold is put into a `\boxed{}` like the answer, so that the same extraction reads
    both.
    """
    from math_verify import parse, verify

    def judge(golds: Sequence[str], answer: str, completion: str) -> tuple[Kind, str]:
        found = parse(completion)
        if not found:
            return "no_answer", "nothing was extracted"
        unread = 0
        for gold in golds:
            wanted = parse(boxed(gold))
            if wanted and verify(wanted, found):
                return "accepted", f"read as {_show(found)}"
            unread += not wanted
        if unread == len(golds):
            return "error", "the gold does not parse"
        return "rejected", f"read as {_show(found)}"

    judge(["1"], "1", r"\boxed{1}")
    return judge


def _show(found: object) -> str:
    try:
        return " ".join(str(found).split())[:200]
    except (ValueError, RecursionError, MemoryError):  # an integer of too many digits
        return "something too large to show"


def _callable(target: str) -> Judge:
    call = resolve(target)

    def judge(golds: Sequence[str], answer: str, completion: str) -> tuple[Kind, str]:
        return ask(call, golds, answer)

    return judge


def judged(judge: Judge, request: object) -> dict[str, object]:
    """Return the reply of `judge` to one `request`."""
    assert isinstance(request, dict)
    start = time.perf_counter()
    try:
        kind, reason = judge(request["golds"], request["answer"], request["completion"])
    except MemoryError:
        kind, reason = "limit", "out of memory"
    except BaseException as error:  # its own timeouts may not be Exceptions
        kind, reason = "error", " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return {"number": request["number"], "kind": kind, "reason": reason, "seconds": time.perf_counter() - start}


def serve(target: str, memory_mb: int, requests: int, replies: int) -> None:
    """Load the grader `target`, and answer requests until the parent process closes the stream.

    Args:
        target: `math-verify` or `module:function`.
        memory_mb: limit on the address space of this process.
        requests: file descriptor from which requests are read.
        replies: file descriptor to which replies are written.
    """
    # Before anything of others is imported: a process with threads cannot leave its network.
    confine(network=False, die_with_parent=True)
    try:
        judge = math_verify() if target == MATH_VERIFY else _callable(target)
        name = f"{MATH_VERIFY} {version('math-verify')}" if target == MATH_VERIFY else target
    except BaseException as error:
        send(replies, {"failed": " ".join(str(error).split())[:300] or type(error).__name__})
        return
    limited = target == MATH_VERIFY  # a callable of yours may write files and start processes
    confine(memory_bytes=memory_mb << 20, file_bytes=0 if limited else None, processes=0 if limited else None)
    send(replies, {"ready": name})
    while (request := receive(requests)) is not None:
        send(replies, judged(judge, request))


def send(fd: int, value: object) -> None:
    """Write one frame."""
    data = json.dumps(value).encode()
    frame = LENGTH.pack(len(data)) + data
    while frame:
        frame = frame[os.write(fd, frame) :]


def receive(fd: int) -> object | None:
    """Return the value of the next frame from `fd`, or None at the end of the stream."""
    header = _read(fd, LENGTH.size)
    data = None if header is None else _read(fd, LENGTH.unpack(header)[0])
    return None if data is None else json.loads(data)


def _read(fd: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(fd, min(size - len(data), 2**20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def main() -> None:
    """Serve requests on the original stdin and stdout.

    What the grader itself prints is discarded, so that it cannot be mistaken for a reply.
    """
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        serve(sys.argv[1], int(sys.argv[2]), requests, replies)


if __name__ == "__main__":
    main()
