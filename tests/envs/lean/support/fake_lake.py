"""Stands in for `lake` and the REPL behind it, without a Lean. `lake env PROGRAM` speaks the REPL's protocol.

Requests are JSON objects, an empty line after each; answers are the same. What it answers depends on the words of the command.
Every request is noted in the file that FAKE_REPL_LOG names.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

POSITION = {"line": 1, "column": 0}


def answer(command: str, environments: int) -> dict[str, Any]:
    """Return the REPL's answer; a command that is a comment or a proof makes a new environment."""
    if "import Absent" in command:
        return {"message": "unknown module prefix 'Absent'"}
    reply: dict[str, Any] = {"env": environments}
    if "exact wrong" in command:
        reply["messages"] = [{"severity": "error", "pos": POSITION, "endPos": None, "data": "unknown identifier 'wrong'"}]
    if "sorry" in command:
        reply["sorries"] = [{"proofState": 0, "pos": POSITION, "endPos": POSITION, "goal": "⊢ 1 + 1 = 2"}]
        reply["messages"] = [{"severity": "warning", "pos": POSITION, "endPos": POSITION, "data": "declaration uses 'sorry'"}]
    return reply


def serve() -> None:
    """Answer requests until standard input ends."""
    environments, lines = 0, list[str]()
    for line in sys.stdin:
        if line.strip():
            lines.append(line)
            continue
        request = json.loads("".join(lines))
        lines = []
        with open(os.environ["FAKE_REPL_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps(request) + "\n")
        if "hang" in request["cmd"]:
            time.sleep(600)
        if "die" in request["cmd"]:
            sys.exit(1)
        if "babble" in request["cmd"]:
            print("this is no JSON\n", flush=True)
            continue
        print(json.dumps(answer(request["cmd"], environments)) + "\n", flush=True)
        environments += 1
        if "leave" in request["cmd"]:
            sys.exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "--version":
        print("Lake version 5.0.0 (Lean version 4.28.0)")
    elif sys.argv[1] == "env":
        serve()
    elif sys.argv[1] != "build":
        sys.exit(f"no lake {sys.argv[1:]}")
