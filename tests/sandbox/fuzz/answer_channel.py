"""Fuzzes what a candidate can send: frames and values in this process, and real candidates that write noise on their channel.

    python tests/sandbox/fuzz/answer_channel.py --minutes 10 --seed 0

Must hold: the supervisor never dies, nothing but `FrameError` and `CodecError` comes out of the parsers, what comes out is
exact plain data, and no noise is ever taken for the right answer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import time
from typing import Any

from verigym.sandbox import Answer, Limits, Program, Session, TestSuite, open_sandbox
from verigym.sandbox.inside.wire import frames
from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import CodecError

SECRET = 987_654_321_123_456_789
TAGS = [
    "i",
    "f",
    "t",
    "s",
    "fs",
    "d",
    "b",
    "ba",
    "c",
    "frac",
    "dec",
    "dt",
    "date",
    "time",
    "td",
    "r",
    "dq",
    "it",
    "el",
    "np",
    "h",
    "x",
]
LIMITS = Limits(wall_s=2, cpu_s=2, memory_mb=256)
PLAIN = (type(None), bool, int, float, str, list, tuple, dict, set, frozenset, bytes, bytearray, complex, range, type(...))

# Writes noise of the frames' own shape, then goes on as an honest candidate with a wrong answer.
NOISY = """
import os, random
rng = random.Random({seed})
def noise():
    for blob in {blobs!r}:
        try: os.write(3, blob)
        except OSError: pass
if {early}: noise()
def f(n):
    noise()
    return 0
"""


def value(rng: random.Random, depth: int = 0) -> Any:
    """A value of the codec's JSON, right, nearly right or wrong."""
    roll = rng.random()
    if depth > 5 or roll < 0.4:
        return rng.choice(
            [
                None,
                True,
                0,
                1,
                -1,
                2**53,
                0.5,
                1e308,
                "",
                "a",
                "\ud800",
                "ff",
                "-ff",
                "nan",
                "inf",
                "1/0",
                "2020-01-01",
                "é" * 50,
                10**30,
            ]
        )
    if roll < 0.6:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if roll < 0.65:
        deep: Any = 0
        for _ in range(rng.choice([50, 99, 101, 500, 3000])):
            deep = [deep] if rng.random() < 0.5 else {"t": [deep]}
        return deep
    return {rng.choice(TAGS): value(rng, depth + 1) for _ in range(rng.choice([1, 1, 1, 1, 0, 2]))}


def message(rng: random.Random) -> dict[str, Any]:
    """A frame's object."""
    fields = {"id": rng.choice([0, 1, 2, "1", None, 1.0, True]), "value": value(rng)}
    for name in ("changed", "out", "error", "cannot", "op", "names", "meta", "passed", "stage", "tests"):
        if rng.random() < 0.15:
            fields[name] = rng.choice(
                [value(rng), "done", "loaded", True, [[0, value(rng)]], {"type": "ValueError", "mro": [], "args": []}]
            )
    return fields


def blob(rng: random.Random) -> bytes:
    """Bytes that may be a frame."""
    try:
        data = json.dumps(message(rng)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        data = b"[" * 5000
    if rng.random() < 0.4:
        mutable = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            mutable[rng.randrange(len(mutable))] = rng.randrange(256)
        data = bytes(mutable)
    size = len(data) if rng.random() < 0.8 else rng.choice([0, 1, len(data) + 1, len(data) * 2, 2**31, 2**32 - 1])
    return size.to_bytes(4, "big") + data


def check_plain(found: Any) -> None:
    """Assert that a decoded value is what its type says: no subclasses, no surprises."""
    todo = [found]
    while todo:
        one = todo.pop()
        if type(one) in (list, tuple, set, frozenset):
            todo += one
        elif type(one) is dict:
            todo += [*one.keys(), *one.values()]
        else:
            assert type(one) in PLAIN or type(one).__module__ in (
                "decimal",
                "fractions",
                "datetime",
                "collections",
                "numpy",
                "builtins",
            ), type(one)


def parsers(rng: random.Random) -> None:
    """One round in this process."""
    data = blob(rng)
    try:
        parsed = frames.parse(data[4:])
    except frames.FrameError:
        return
    try:
        check_plain(decode(parsed.get("value")))
    except CodecError:
        return


def answer(session: Session) -> object:
    """The first answer, if there is one."""
    reply = session.call("f", [SECRET])
    return reply.value if isinstance(reply, Answer) else None


def live(rng: random.Random) -> None:
    """One round with a real candidate."""
    blobs = [blob(rng) for _ in range(rng.randrange(1, 4))]
    program = Program(source=NOISY.format(seed=rng.randrange(2**32), blobs=blobs, early=rng.random() < 0.5))
    box = open_sandbox("local")
    if rng.random() < 0.5:
        with box.session(program, LIMITS) as session:
            found = answer(session)
            check_plain(found)
            assert type(found) is not int or found != 2 * SECRET
    else:
        verdict = box.test(program, TestSuite(kind="assert", code=f"assert f({SECRET}) == {2 * SECRET}"), LIMITS)
        assert not verdict.passed and verdict.fault == "candidate", verdict


def main() -> None:
    """Run for so many minutes and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    rounds = {"parsers": 0, "live": 0}
    while time.monotonic() < end:
        for kind, times, do in (("parsers", 300, parsers), ("live", 5, live)):
            for _ in range(times):
                key = f"{arguments.seed}/{kind}/{rounds[kind]}"
                do(random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")))
                rounds[kind] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{rounds['parsers']:,} frames parsed, {rounds['live']:,} noisy candidates: none accepted; peak {peak} MiB")


if __name__ == "__main__":
    main()
