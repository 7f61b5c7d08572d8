"""Runs untrusted programs. This package imports no other part of verigym, so it can be read and audited alone.

Example: `open_sandbox("local").run("print(6 * 7)").stdout`.
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


def __getattr__(name: str) -> object:
    """Import the class of a back end on first use, so that importing this package loads none of them."""
    for target in BACKENDS.values():
        module, _, class_name = target.partition(":")
        if class_name == name:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
