"""Runs test and candidate in one process, for tests with values that cannot be sent to another process.

It must be chosen explicitly, because a hostile candidate can then forge verdicts.
"""

from __future__ import annotations

import os
import sys

from verigym.sandbox.inside import program
from verigym.sandbox.inside.candidate import prelude_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class InProcessCandidate:
    """A candidate that is loaded as a module into the test's own process."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.name = job.get("module") or "solution"
        self.prelude: bool = job.get("prelude", False)
        self.path = os.path.abspath(f"{self.name}.py")
        with open(self.path, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(job["candidate"])
        self.loaded = False

    def module(self, name: str, public: Callable[[], list[str]]) -> ModuleType:
        """Create and return the module `name` that the test's `import solution` imports. `public` is not used."""
        self.made = program.fresh_main(self.path, name)
        return self.made

    def names(self) -> frozenset[str]:
        """Return the names that the candidate defines. The first call loads the candidate; its exceptions propagate."""
        if not self.loaded:
            self.loaded = True
            sys.modules[self.name] = self.made
            code = program.load(self.path)
            if self.prelude:
                prelude_names.provide(code, self.made.__dict__)
            failed = program.execute(code, self.made.__dict__)
            if failed is not None:
                raise failed
        solution = self.made.__dict__.get("Solution")
        return frozenset(self.made.__dict__) | frozenset(dir(solution) if solution is not None else ())

    def find(self, name: str) -> Any:
        """Return the object that the candidate defines under `name`, or the method `name` of a new `Solution` object.

        Raises:
            LookupError: the candidate defines no such name.
        """
        if name in self.made.__dict__:
            return self.made.__dict__[name]
        solution = self.made.__dict__.get("Solution")
        if solution is not None and hasattr(solution, name):
            return getattr(solution(), name)
        raise LookupError(name)
