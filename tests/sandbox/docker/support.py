"""What the tests of the docker back end share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.sandbox.docker.podman import IMAGE, Podman
from verigym.sandbox.backends.container import ContainerSandbox


@contextlib.contextmanager
def docker_box(podman: Podman, **options: Any) -> Iterator[ContainerSandbox]:
    """A sandbox of its own, closed at the end."""
    sandbox = ContainerSandbox(**{"image": IMAGE, "base_url": podman.url, "workers": 2, **options})
    try:
        yield sandbox
    finally:
        sandbox.close()
