"""What the tests of the sandbox share."""

from __future__ import annotations

import pytest
from needs import lack

from verigym.sandbox import Sandbox, SandboxFailure, open_sandbox


@pytest.fixture(scope="module")
def box() -> Sandbox:
    box = open_sandbox("local")
    try:
        box.check()
    except SandboxFailure as error:
        lack("sandbox", error)
    return box
