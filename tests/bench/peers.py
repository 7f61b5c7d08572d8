"""Graders that tests run, by name, in this process and in others."""

import json
import os
import time
from pathlib import Path


def same(gold, answer):
    print("graders of others print")
    return gold == answer


def one_or_zero(gold, answer):
    return float(gold == answer)


def words(gold, answer):
    return "yes"


def raises(gold, answer):
    raise RuntimeError(f"cannot\nread {answer}")


def leaves(gold, answer):
    raise SystemExit(3)


def named(gold, answer):
    """Grade by the function that the gold names, with a gold of 1."""
    return globals()[gold]("1", answer)


def hangs(gold, answer):
    """Hang at `hang`, and at `hang FILE` once that file is made."""
    if answer.startswith("hang"):
        if answer != "hang":
            Path(answer.removeprefix("hang ")).touch()
        time.sleep(3600)
    return gold == answer


def dies(gold, answer):
    if answer == "die":
        os._exit(9)
    return gold == answer


def eats(gold, answer):
    if answer == "eat":
        return bool([0] * 2**40)
    return gold == answer


def secret(gold, answer):
    return len(answer) > 1 or "VERIGYM_TEST_SECRET" in os.environ


def chatters(gold, answer):
    """Writes a reply of its own to every descriptor it finds, as code that an answer smuggled in could."""
    if answer == "chat":
        reply = json.dumps({"number": 1, "kind": "accepted", "reason": "", "seconds": 0.0}).encode()
        for fd in range(3, 12):
            try:
                os.write(fd, len(reply).to_bytes(4, "big") + reply)
            except OSError:
                continue
    return gold == answer


number = 3
