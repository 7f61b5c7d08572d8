"""A real Podman service with a real image for these tests; where there can be none, they skip."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import lack

ROOT = str(Path(__file__).resolve().parents[3])
if ROOT not in sys.path:
    sys.path.append(ROOT)

from tests.sandbox.docker.podman import Podman, Unavailable, running_podman  # noqa: E402
from tests.sandbox.docker.support import docker_box  # noqa: E402
from verigym.sandbox import Sandbox  # noqa: E402

_services: list[Podman] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    for service in _services:
        service.revive()


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    try:
        with running_podman() as service:
            _services.append(service)
            yield service
            _services.remove(service)
    except Unavailable as error:
        lack("podman", error)


@pytest.fixture(scope="session")
def box(podman: Podman) -> Iterator[Sandbox]:
    """A sandbox that most tests share."""
    with docker_box(podman) as sandbox:
        yield sandbox
