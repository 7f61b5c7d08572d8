"""A headless Chromium, driven through its DevTools protocol over a pipe, so that no package and no port is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from needs import CHROMIUM, lack, require

WAIT_S = 120.0
"""Most seconds for one answer; the machine may be busy."""

_STARTER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)  # the browser reads commands from 3 and writes answers to 4
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str | None:
    """The browser's path."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


class Page:
    """One tab."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer, self._buffer, self._number = reader, writer, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """All events so far: {"method": ..., "params": ...}."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, wait_s: float = WAIT_S) -> dict[str, Any]:
        end = time.monotonic() + wait_s
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self._reader, 2**20)
            if not data:
                raise EOFError("Chromium has ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def wait_for(self, method: str) -> dict[str, Any]:
        """Wait for an event that has not come before this call."""
        seen = len(self.events)
        while not any(event["method"] == method for event in self.events[seen:]):
            self._receive()
        return next(event for event in self.events[seen:] if event["method"] == method)

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until it has loaded."""
        self.send("Page.navigate", url="about:blank")
        answer = self.send("Page.navigate", url=path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        assert "errorText" not in answer, answer["errorText"]
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, expression: str) -> Any:
        """Return the value of an expression in the page; promises are awaited."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(str(details.get("exception", {}).get("description") or details["text"]))
        return result["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is truthy, and return its value."""
        end = time.monotonic() + WAIT_S
        while not (value := self.run(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)
        return value

    def enter(self, selector: str, value: object, event: str = "input") -> None:
        """Give a field a value, as a user does."""
        field, event = f"document.querySelector({json.dumps(selector)})", json.dumps(event)
        self.run(f"((one) => {{ one.value = {json.dumps(value)}; one.dispatchEvent(new Event({event})); }})({field})")

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Set the viewport and the colour scheme."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write a PNG of the viewport, or of the whole page."""
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of one kind."""
        return [event["params"] for event in self.events if event["method"] == method]


@contextmanager
def chromium(*flags: str) -> Iterator[Page]:
    """Start a headless browser with an own profile; skip the test where there is none, or where it does not start."""
    require("chromium")
    name = program()
    assert name is not None
    to_child, ours_out = os.pipe()
    ours_in, from_child = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
        ]
        command = [name, *options, "--remote-debugging-pipe", f"--user-data-dir={profile}", *flags, "about:blank"]
        starter = [sys.executable, "-c", _STARTER, str(to_child), str(from_child), *command]
        process = subprocess.Popen(
            starter,
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            try:
                page = Page(ours_in, ours_out)
            except (EOFError, OSError, TimeoutError) as error:
                lack("chromium", f"{name} does not start: {error}")
            yield page
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(ours_in)
            os.close(ours_out)
