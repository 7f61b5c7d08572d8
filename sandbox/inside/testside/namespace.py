"""The module in which test code runs.

A name in it is looked up in this order: names of the test and its setup, built-in and prelude names, names of the candidate.
"""

from __future__ import annotations

import builtins
import sys

from verigym.sandbox.inside import program
from verigym.sandbox.inside.candidate import prelude_names
from verigym.sandbox.inside.testside import candidate_names, usage
from verigym.sandbox.inside.wire import inert_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from verigym.sandbox.inside.testside.in_process import InProcessCandidate
    from verigym.sandbox.inside.testside.proxies import Proxies

TEST, SETUP = "<test>", "<setup>"


_BUILTINS = vars(builtins)
# Modules that read source lines: a test that mentions one gets its text registered.
_READERS = ("inspect", "linecache", "traceback", "unittest", "pytest", "doctest", "logging")
_CALLERS = ("unittest", "_pytest", "pytest", "pluggy", "asyncio", "contextlib")
"""Libraries that call each function of a test once, not once for each item of an answer."""
# The interpreter looks these up without calling `__missing__`.
_ASKED_PLAINLY = ("__import__", "__build_class__")


class BuiltinsAndCandidate(dict[str, "Any"]):
    """The `__builtins__` of the test's module: built-in names, and for all other names the result of `TestNamespace.find`.

    Built-in names are looked up rather than copied, since copying them would touch memory pages in a fresh fork.
    """

    def __init__(self, world: TestNamespace) -> None:
        super().__init__((name, _BUILTINS[name]) for name in _ASKED_PLAINLY)
        self.world = world

    def __missing__(self, name: str) -> Any:
        return _BUILTINS[name] if name in _BUILTINS else self.world.find(name)


class TestNamespace:
    """The module in which the setup and the test run. It also resolves the names that these do not define."""

    def __init__(self, job: dict[str, Any], source: Proxies | InProcessCandidate | None) -> None:
        self.job = job
        self._source = source
        kind = job.get("form") if job["kind"] == "shared" else job["kind"]
        self.name = "__main__" if kind in ("assert", "checker") else "test_solution"
        self.module = program.fresh_main(TEST, self.name)
        self.namespace = self.module.__dict__
        self.namespace["__builtins__"] = BuiltinsAndCandidate(self)
        del self.namespace["__file__"]
        module = job.get("module") or "solution"
        test, setup = candidate_names.Text(job["code"], module), candidate_names.Text(job.get("setup") or "", module)
        self.bound = test.bound | setup.bound
        self.missed = False
        """Whether the test looked up a name that only the candidate may define, and that the candidate does not define."""
        self.texts = {TEST: job["code"], SETUP: job.get("setup") or ""}
        """File name -> text, of the test and of its setup."""
        self._compiled: list[CodeType] = []
        self.under_test: frozenset[str] = frozenset()
        if source is not None:
            self.under_test = candidate_names.of(job.get("entry_point"), test, setup)
        if source is not None:
            sys.modules[module] = source.module(module, self.public)
        whole = job["code"] + (job.get("setup") or "")
        if "numpy" in whole:
            inert_values.guard_numpy()
        if any(word in whole for word in _READERS):
            self.remember()

    def is_always_reached(self) -> bool:
        """Return whether the test reaches its current line regardless of the candidate's answers."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            text, name = self.texts.get(frame.f_code.co_filename), frame.f_code.co_name
            caller = frame.f_back
            if text is not None:
                if not usage.is_always_reached(text, frame.f_lineno):
                    return False
                if name == "<module>" or name.startswith(("test", "check")):
                    return True
                # A function of the test is reached like its caller, if that calls it by name and not through `map` or the like.
                if caller is None:
                    return True
                around = self.texts.get(caller.f_code.co_filename)
                if around is not None and not usage.calls(around, caller.f_lineno, name):
                    return False
                if around is None and caller.f_globals.get("__name__", "").partition(".")[0] not in _CALLERS:
                    return False
            frame = caller
        return True

    def is_the_tests(self, has_values: bool) -> bool:
        """Return whether the test makes the current request regardless of the candidate's earlier answers.

        Args:
            has_values: whether the request carries values. If so, the values must not depend on those answers either.
        """
        return self.is_always_reached() and (not has_values or self._passes_own())

    def _passes_own(self) -> bool:
        """Whether the test itself made and chose the passed values. Decided by its text: types do not tell who chose one."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if (text := self.texts.get(frame.f_code.co_filename)) is not None:
                whole = "\n".join(filter(None, (self.job.get("setup"), self.job["code"])))
                module = self.job.get("module") or "solution"
                return usage.passes_only_own_values(
                    text, frame.f_lineno, usage.names_from_candidate(whole, self.under_test, module)
                )
            frame = frame.f_back
        return False

    def remember(self) -> None:
        """Register the source lines of setup and test with `linecache` for tracebacks. Called only if they are needed."""
        import linecache

        for place, text in ((TEST, self.job["code"]), (SETUP, self.job.get("setup") or "")):
            linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)

    @property
    def source(self) -> Proxies | InProcessCandidate:
        """Object that finds the candidate's names: `InProcessCandidate` if the candidate is in this process, else `Proxies`."""
        assert self._source is not None
        return self._source

    def set_up(self) -> None:
        """Run the test's setup code."""
        setup = self.job.get("setup")
        if setup:
            self.execute(compile(setup, SETUP, "exec", dont_inherit=True))

    def execute(self, code: CodeType) -> None:
        """Run the compiled test or setup in this module, and remember its code as the author's."""
        self._compiled.append(code)
        exec(code, self.namespace)  # noqa: S102

    def is_the_authors(self, code: CodeType) -> bool:
        """Return whether `code` is of the test or the setup: a file name tells nothing, where text is evaluated as code."""
        within = list(self._compiled)
        while within:
            one = within.pop()
            if one is code:
                return True
            within += [part for part in one.co_consts if type(part) is type(code)]
        return False

    def find(self, name: str) -> Any:
        """Return the object of the prelude or the candidate for `name`, a name that test and setup do not define.

        Raises:
            KeyError: prelude and candidate have no such name.
        """
        if name[:2] == "__":
            raise KeyError(name)
        if name not in self.under_test and name in prelude_names.PLACES:
            # `math.isclose(f(2), 4)` must never use a `math` that the candidate defines.
            try:
                return prelude_names.find(name)
            except LookupError:
                raise KeyError(name) from None
        if self._source is None or name not in self._source.names():
            self.missed = self.missed or name in self.under_test
            if (peer := getattr(self._source, "peer", None)) is not None:
                peer.missed_a_name = True
            raise KeyError(name)
        return self._source.find(name)

    def public(self) -> list[str]:
        """Return the names that `from solution import *` imports, without built-in names and names that the test defines."""
        hidden = self.bound | vars(builtins).keys() | prelude_names.PLACES.keys()
        return sorted(
            name for name in self.source.names() if name[:1] != "_" and (name not in hidden or name in self.under_test)
        )


def locate_error(error: BaseException, world: TestNamespace) -> str:
    """Return one line of text that describes `error` and the line of the test or setup (run in `world`) where it was raised."""
    import linecache

    world.remember()
    line = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in (TEST, SETUP):
            line = f" at line {trace.tb_lineno} of the {name[1:-1]}: {linecache.getline(name, trace.tb_lineno).strip()}"
        trace = trace.tb_next
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text[:1000] + line[:500]
