"""A sandbox for the commands that run programs."""

from __future__ import annotations

import pytest
from needs import lack

from verigym.sandbox import Sandbox, SandboxFailure, open_sandbox


@pytest.fixture
def box() -> Sandbox:
    """The local sandbox; the test skips where it does not work."""
    sandbox = open_sandbox("local")
    try:
        sandbox.check()
    except SandboxFailure as error:
        lack("sandbox", error)
    return sandbox
