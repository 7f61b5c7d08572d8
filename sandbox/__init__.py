"""Runs untrusted programs. Imports nothing of ours, so that it can be read and audited alone.

`open_sandbox("local").run("print(6 * 7)").stdout`
"""

import importlib
from typing import TYPE_CHECKING

from verigym.sandbox.backends import BACKENDS, open_sandbox, typed_options
from verigym.sandbox.box import Sandbox
from verigym.sandbox.languages import LANGUAGES, Language, register_language
from verigym.sandbox.session import Answer, CannotCross, Ended, Loaded, Raised, Session
from verigym.sandbox.spec import Limits, Program, RunResult, RunStatus, SandboxFailure
from verigym.sandbox.testing import TestSuite, TestVerdict

if TYPE_CHECKING:
    from verigym.sandbox.backends.bubblewrap import BubblewrapSandbox
    from verigym.sandbox.backends.container import ContainerSandbox
    from verigym.sandbox.backends.local import LocalSandbox

__all__ = [
    "BACKENDS",
    "LANGUAGES",
    "Answer",
    "BubblewrapSandbox",
    "CannotCross",
    "ContainerSandbox",
    "Ended",
    "Language",
    "Limits",
    "Loaded",
    "LocalSandbox",
    "Program",
    "Raised",
    "RunResult",
    "RunStatus",
    "Sandbox",
    "SandboxFailure",
    "Session",
    "TestSuite",
    "TestVerdict",
    "open_sandbox",
    "register_language",
    "typed_options",
]

_BACK_ENDS = {"BubblewrapSandbox": "bubblewrap", "ContainerSandbox": "container", "LocalSandbox": "local"}


def __getattr__(name: str) -> object:
    """Import a back end when its class is asked for: whoever runs no program need not wait for any."""
    if name not in _BACK_ENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.backends.{_BACK_ENDS[name]}"), name)
