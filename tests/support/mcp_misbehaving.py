"""An MCP server by hand, which starts in milliseconds and breaks the protocol where it is told to.

Words on the command line: `deaf` never answers, `mute` ends at once, `junk` first prints what is no message, `stubborn` stays
when its input ends and ignores SIGTERM, `child` leaves a process behind, `extra` has one tool more, `twins` two tools whose
names are one for a model, `none` no tools, `schema` one whose schema is none, `pages` a list without end; `modern` knows no
handshake.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

WORDS = sys.argv[1:]
OBJECT = {"type": "object"}
BY = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"], "additionalProperties": False}
ODD = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "(?=b)", "format": "uri"}, "format": {"type": "integer"}},
}
SCHEMAS: dict[str, Any] = {"count": BY, "odd": ODD}
NAMES = ["count", "odd", "sleep", "error", "die", "junk", "long", "structured", "nothing", "wrong", "left", "change", "ask"]
if "extra" in WORDS:
    NAMES.append("extra")
if "twins" in WORDS:
    NAMES += ["a-b", "a.b"]
if "none" in WORDS:
    NAMES.clear()
if "schema" in WORDS:
    SCHEMAS["count"] = {"type": "object", "properties": {"by": {"type": "integral"}}}
if "stubborn" in WORDS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
left = subprocess.Popen(["sleep", "1000"], start_new_session=True).pid if "child" in WORDS else 0
count = 0
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if "modern" in WORDS else {}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    global count
    if name == "count":
        count += arguments["by"]
        return {"content": [{"type": "text", "text": f"{count} {os.environ.get('VERIGYM_SEED')} {os.getcwd()}"}]}
    if name == "sleep":
        time.sleep(1000)
    if name == "error":
        raise ValueError(arguments)
    if name == "die":
        print("first words", file=sys.stderr)
        print("last \x1b[1mwords", file=sys.stderr, flush=True)
        os._exit(7)
    if name == "junk":
        print("hello, world", flush=True)
        time.sleep(1000)
    if name == "long":
        sys.stdout.write("x" * (17 * 2**20))
        sys.stdout.flush()
        time.sleep(1000)
    if name == "structured":
        return {"content": [], "structuredContent": {"b": 1, "a": [2]}}
    if name == "wrong":
        return {"content": "no list of parts"}
    if name == "left":
        return {"content": [{"type": "text", "text": f"{left} {os.getpid()}"}]}
    if name == "change":
        send({"method": "notifications/tools/list_changed"})
    if name == "ask":
        request = {"messages": [], "maxTokens": 5}
        send({"id": "mine", "method": "sampling/createMessage", "params": request})
        return {"content": [{"type": "text", "text": json.dumps(json.loads(sys.stdin.readline()).get("error"))}]}
    return {"content": []}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if "modern" in WORDS and request["method"] == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN}
    if "modern" in WORDS and request["method"] == "initialize":
        raise ValueError(
            {"code": -32022, "message": "too old", "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"}}
        )
    if request["method"] == "initialize":
        info = {"name": "by hand", "version": "0"}
        return {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if request["method"] == "tools/list":
        listed = [{"name": name, "description": f"To {name}.", "inputSchema": SCHEMAS.get(name, OBJECT)} for name in NAMES]
        return {"tools": listed, **({"nextCursor": "more"} if "pages" in WORDS else {}), **MODERN}
    return {**call(request["params"]["name"], request["params"].get("arguments") or {}), **MODERN}


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            try:
                send({"id": request["id"], "result": answer(request)})
            except ValueError as error:
                send({"id": request["id"], "error": error.args[0]})


if "mute" in WORDS:
    print("no licence was found", file=sys.stderr)
    sys.exit(3)
if "junk" in WORDS:
    print("Welcome to the server!", flush=True)
if "deaf" in WORDS:
    time.sleep(1000)
serve()
while "stubborn" in WORDS:
    time.sleep(1000)
