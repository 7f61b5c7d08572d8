"""Services that tests ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import service_process
from service_process import Running
from warm_workers import AVAILABLE, WarmModule


@pytest.fixture(scope="package", autouse=True)
def one_context_for_tls() -> Iterator[None]:
    """Reading all certificates takes a tenth of a second for each client, and no client here speaks TLS."""
    import httpx

    with pytest.MonkeyPatch.context() as patch:
        made = httpx.create_ssl_context()
        patch.setattr("httpx._transports.default.create_ssl_context", lambda *args, **options: made)
        yield


IMPORTS = """
import uvicorn.lifespan.on, uvicorn.loops.auto, uvicorn.protocols.http.auto
import typer.rich_utils, verigym.cli.serve, verigym.serve.app, verigym.serve.server
import verigym.envs.math.environment, verigym.envs.grading.grader, verigym.envs.sessions
"""


@pytest.fixture(scope="package", autouse=True)
def services_start_warm() -> Iterator[None]:
    """Starting Python and importing the service is most of what many a test here would take."""

    def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
        stderr, cwd, env = options["stderr"].fileno(), str(options["cwd"]), options["env"]
        assert command[:2] == [sys.executable, "-m"]
        return WarmModule(IMPORTS, command[2:], cwd, env, stderr)

    with pytest.MonkeyPatch.context() as patch:
        if AVAILABLE:
            patch.setattr(service_process, "subprocess", SimpleNamespace(Popen=start, PIPE=subprocess.PIPE))
        yield


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """A function that starts services, which are ended after the test."""
    started: list[Running] = []

    def start(*arguments: str, ready: bool = True, **variables: str) -> Running:
        given = list(arguments)
        if "--port" not in given:
            given += ["--port", "0"]
        if "--workers" not in given:
            given += ["--workers", "1"]
        started.append(Running(given, variables, tmp_path / "errors.txt"))
        if ready:
            started[-1].wait_until_ready()
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.ended()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for the tests of a module that only ask."""
    errors = tmp_path_factory.mktemp("service") / "errors.txt"
    served = ["--env", "math", "--env", "arithmetic", "--env", "number_guessing", "--env", "counting_env:Counting"]
    running = Running([*served, "--port", "0", "--workers", "1", "--limit", "batch_items=200"], {}, errors)
    try:
        running.wait_until_ready()
        yield running
        assert running.stop() == 0
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.ended()
