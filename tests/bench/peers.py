"""Graders that tests run, by name, in this process and in others."""

import json
import os
import time


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


def hangs(gold, answer):
    if answer == "hang":
        time.sleep(60)
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
    return "VERIGYM_TEST_SECRET" in os.environ


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
