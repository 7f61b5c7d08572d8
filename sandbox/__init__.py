"""Runs untrusted programs. Imports nothing of ours, so that it can be read and audited alone.

`open_sandbox("local").run("print(6 * 7)").stdout`
"""

from verigym.sandbox.backends import BACKENDS, open_sandbox, typed_options
from verigym.sandbox.box import Sandbox
from verigym.sandbox.bubblewrap import BubblewrapSandbox
from verigym.sandbox.container import ContainerSandbox
from verigym.sandbox.languages import LANGUAGES, Language, register_language
from verigym.sandbox.local import LocalSandbox
from verigym.sandbox.session import Answer, CannotCross, Ended, Loaded, Raised, Session
from verigym.sandbox.spec import Limits, Program, RunResult, RunStatus, SandboxFailure
from verigym.sandbox.testing import TestSuite, TestVerdict

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
