"""The default back end: forks each run from an isolated worker that is already running. Needs no daemon or tool."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import PurePath
from typing import Any

from verigym.sandbox.backends import boot
from verigym.sandbox.backends.worker import Worker
from verigym.sandbox.box import Sandbox
from verigym.sandbox.inside.walls.paths import placed
from verigym.sandbox.options import LocalOptions
from verigym.sandbox.spec import SandboxFailure
from verigym.sandbox.view import host_view, interpreter, resolved

_log = logging.getLogger(__name__)


def _closed_to_others(path: str) -> str | None:
    """Return the first parent folder that other users may not enter, which root itself would not notice."""
    if os.geteuid() == 0:
        for parent in reversed(PurePath(path).parents):
            if not os.stat(parent).st_mode & stat.S_IXOTH:
                return str(parent)
    return None


class LocalSandbox(Sandbox):
    """Runs programs in processes that are forked from pre-started, isolated workers. The options are `LocalOptions`."""

    name = "local"
    options_type = LocalOptions
    options: LocalOptions

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._view = host_view(self.options.packages, resolved(self.options.read_only))
        self._level = self.options.level
        self._reasons: dict[str, str] = {}

    def _make(self) -> Worker:
        wanted = [self._level] if self._level else [3, 2, 1]
        last: SandboxFailure | None = None
        for level in wanted:
            if level == 1 and not self.options.allow_unsafe:
                why = "; ".join(f"level {k}: {v}" for k, v in self._reasons.items())
                raise SandboxFailure(
                    f"this machine gives no isolation that would hold ({why or 'level 1 was asked for'}); "
                    "see `verigym sandbox doctor`. Programs you trust can be run with allow_unsafe=True",
                    retryable=False,
                )
            try:
                if level == 2 and (closed := _closed_to_others(interpreter())):
                    raise SandboxFailure(
                        f"runs get a uid of their own, which may not enter {closed}, where Python is", retryable=False
                    )
                worker = Worker([interpreter(), *boot.FLAGS, "-c", boot.PROGRAM], self._config(level))
            except SandboxFailure as error:
                self._reasons[str(level)] = error.message
                last = error
                if error.retryable:
                    break
                continue
            if level < 3:
                _log.warning(
                    "the sandbox works at level %d of 3: %s", level, "; ".join(self._reasons.values()) or "as asked for"
                )
            self._level = level
            return worker
        raise last or SandboxFailure("no level was tried", retryable=False)

    def _config(self, level: int) -> dict[str, Any]:
        view = self._view
        at = placed if level == 3 else str
        covered = {at(folder): paths for folder, paths in view.masked.items()}
        return {"level": level, "visible": view.visible, "masked": covered, "path": list(map(at, view.path))}
