"""lean-interact as a screen (pre-check). It runs Lean outside our sandbox, so two options must allow it."""

from __future__ import annotations

import importlib
import logging
import threading
from typing import Any

from pydantic import Field

from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.backends.replies import rejection
from verigym.envs.lean.task import LeanReference, solution_file
from verigym.envs.lean.toolchain import Toolchain

NO_HEADER = "-- nothing is imported"

logger = logging.getLogger("verigym.lean")


class InteractOptions(Options):
    """What its server is started with."""

    unsandboxed: bool = False
    """Must be true: lean-interact runs submissions with this user's permissions and no sandbox, after the guard's check."""
    project: str = ""
    """Folder of a Lake project; empty for none."""
    local_repl_path: str = ""
    """Folder of a built copy of the REPL; if empty, lean-interact clones and builds one, over the network."""
    timeout_s: float = Field(30.0, gt=0)
    """Seconds of wall time for a submission. By its own default, lean-interact would wait for ever."""
    header_s: float = Field(300.0, gt=0)
    """Wall time for a header."""
    memory_mb: int = Field(8192, ge=64)
    """Limit of the server's memory."""
    uses: int = Field(100, ge=1)
    """Submissions after which the server is started again."""


class InteractScreen:
    """Rejects submissions by one LeanInteract server, used by one thread at a time.

    Args:
        toolchain: not used; the option `project` decides which Lean runs.
        options: options of the server.

    Raises:
        EnvironmentFailure: the package is missing, or `options` does not allow running without a sandbox.
    """

    options_type = InteractOptions

    def __init__(self, toolchain: Toolchain, options: InteractOptions) -> None:
        if not options.unsandboxed:
            raise EnvironmentFailure(
                "unavailable", "lean: backend interact runs Lean outside the sandbox; set unsandboxed=true in backend_options"
            )
        try:
            self._package: Any = importlib.import_module("lean_interact")
        except ImportError:
            raise EnvironmentFailure("unavailable", "lean: backend interact needs pip install 'verigym[lean]'") from None
        self.options = options
        self._lock = threading.Lock()
        self._server: Any = None
        self._uses = 0
        self._header: tuple[str, int] | None = None

    def reject(self, reference: LeanReference, submission: str) -> str | None:
        """Return the error or `sorry` that the server finds, or None if it finds neither or does not answer."""
        body = solution_file(reference.model_copy(update={"header": ""}), submission)
        with self._lock:
            try:
                environment = self._loaded(reference.header)
                return None if environment is None else rejection(self._run(body, environment, self.options.timeout_s))
            # It closed, was late or left (OSError), or said what is no answer (ValueError): a screen may fall silent.
            except (OSError, ValueError) as error:
                logger.info("lean: lean-interact gave no answer: %s", type(error).__name__)
                self._stop()
                return None

    def _loaded(self, header: str) -> int | None:
        if self._server is None or self._uses >= self.options.uses:
            self._stop()
            self._server = self._start()
        self._uses += 1
        if self._header is None or self._header[0] != header:
            # It takes no empty command.
            reply = self._run(header if header.strip() else NO_HEADER, None, self.options.header_s)
            if rejection(reply) is not None or type(reply.get("env")) is not int:
                return None
            self._header = (header, reply["env"])
        return self._header[1]

    def _start(self) -> Any:
        package, options = self._package, self.options
        settings: dict[str, Any] = {"memory_hard_limit_mb": options.memory_mb}
        if options.project:
            settings["project"] = package.LocalProject(directory=options.project)
        if options.local_repl_path:
            settings["local_repl_path"] = options.local_repl_path
        try:
            return package.LeanServer(package.LeanREPLConfig(**settings))
        except Exception as error:  # it clones, builds and starts programs, each with errors of its own
            line = " ".join(str(error).split())[:300]
            raise EnvironmentFailure("unavailable", f"lean: lean-interact does not start: {line}") from None

    def _run(self, command: str, environment: int | None, timeout_s: float) -> dict[str, Any]:
        reply = self._server.run(self._package.Command(cmd=command, env=environment), timeout=timeout_s)
        content = reply.model_dump() if hasattr(reply, "model_dump") else {}
        return content if isinstance(content, dict) else {}

    def _stop(self) -> None:
        if self._server is not None:
            self._server.kill()
        self._server, self._uses, self._header = None, 0, None

    def close(self) -> None:
        """End the server."""
        with self._lock:
            self._stop()
