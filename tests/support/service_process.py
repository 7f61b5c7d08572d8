"""A real service in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from needs import require

require("fastapi", "httpx")

import httpx  # noqa: E402

from verigym.client import Client, RetryPolicy  # noqa: E402

HERE = Path(__file__).parent
START_S = 120
ONCE = RetryPolicy(patience_s=0)
HEADERS = {"Content-Type": "application/json"}


class Running:
    """A service process."""

    def __init__(self, arguments: list[str], variables: dict[str, str], errors: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if name != "VERIGYM_TOKEN"}
        self.errors = errors
        with errors.open("a") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "verigym", "serve", *arguments],
                cwd=HERE,  # where counting_env is
                env={**clean, **variables},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line.startswith("serving "):
            self.stop()
            raise AssertionError(errors.read_text())
        self.url = self.line.split(" on ")[1].split(";")[0]
        self.port = int(self.url.rpartition(":")[2])

    def wait_until_ready(self) -> None:
        with Client(self.url, retries=ONCE) as client:
            end = time.monotonic() + START_S
            while not client.ready():
                assert time.monotonic() < end and self.process.poll() is None, self.errors.read_text()
                time.sleep(0.05)

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.terminate()
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(START_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def metric(self, start: str, **headers: str) -> float:
        """The value of the one line of /metrics that begins so."""
        (value,) = self.metrics(start, **headers)
        return value

    def metrics(self, start: str, **headers: str) -> list[float]:
        """The values of the lines of /metrics that begin so."""
        text = httpx.get(f"{self.url}/metrics", headers=headers, trust_env=False).text
        return [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(start)]


def math_item(number: int = 4, said: int = 4, **more: Any) -> dict[str, Any]:
    """An item whose gold is `number`, and whose completion says `said`."""
    reference = {"answer": str(number)}
    completion = f"It is \\boxed{{{said}}}."
    return {"environment": "math", "prompt": "2+2?", "reference": reference, "completion": completion, **more}
