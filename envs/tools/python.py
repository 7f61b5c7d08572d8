"""The `python` tool: a sandboxed interpreter that keeps its state within an episode."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from verigym.envs.code.outcome import failure_of
from verigym.envs.code.sandboxed import SandboxedOptions, open_named
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.tools.function import Signature
from verigym.sandbox import Limits, Sandbox, SandboxFailure
from verigym.sandbox.interpreter import Interpreter
from verigym.sandbox.spec import RunStatus

VERSION = "1"
_LOST = {
    RunStatus.TIME: "the code took longer than {wall_s:g} s and was stopped",
    RunStatus.MEMORY: "the code took more than {memory_mb} MB and was stopped",
    RunStatus.OUTPUT: "the code wrote too much and was stopped",
}


class PythonOptions(SandboxedOptions):
    """What the interpreter may use, and where it runs."""

    wall_s: float = Field(10, gt=0)
    """Seconds that one call may take."""
    memory_mb: int = Field(512, ge=32)
    """Memory of the interpreter, over its life."""


class PythonTool:
    """A tool that opens one Python interpreter per episode.

    All episodes of a process share one sandbox, opened when first needed.
    """

    def __init__(self, options: PythonOptions) -> None:
        self.options = options
        self._signature = Signature(OpenPython.run, "python")
        self.spec = self._signature.spec
        self.identity = f"{VERSION}+{sha256_hex(canonical_json(options.model_dump(mode='json')))[:8]}"
        self._lock = threading.Lock()
        self._box: Sandbox | None = None

    def __repr__(self) -> str:
        return "<tool python>"

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(vars(PythonTool(state["options"])))

    def misfit(self, arguments: Mapping[str, JsonValue]) -> str:
        """Return why `arguments` do not match the schema, or an empty string if they do."""
        return self._signature.misfit(arguments)

    def open(self, seed: str) -> OpenPython:
        """Return this tool, opened for an episode.

        Raises:
            EnvironmentFailure: the sandbox cannot work on this machine.
        """
        with self._lock:
            if self._box is None:
                self._box = open_named(self.options)
        limits = Limits(wall_s=self.options.wall_s, memory_mb=self.options.memory_mb)
        return OpenPython(Interpreter(self._box, limits), self._signature, limits)


class OpenPython:
    """The interpreter of one episode."""

    def __init__(self, interpreter: Interpreter, signature: Signature, limits: Limits) -> None:
        self._interpreter, self._signature, self._limits = interpreter, signature, limits

    def call(self, arguments: Mapping[str, JsonValue]) -> str:
        """Run the code in `arguments` and return its output.

        Raises:
            EnvironmentFailure: the sandbox failed.
        """
        return self.run(**self._signature.typed(arguments))

    def run(self, code: str) -> str:
        """Run Python code and read what it prints, and the value of its last line. Names are kept from call to call."""
        try:
            executed = self._interpreter.execute(code)
        except SandboxFailure as error:
            raise failure_of(error) from None
        text = executed.output + executed.error
        if executed.ended is None:
            return text if text.strip() else "(nothing was printed)"
        why = _LOST.get(executed.ended, "the code ended the interpreter")
        limits = {"wall_s": self._limits.wall_s, "memory_mb": self._limits.memory_mb}
        return f"{text}Error: {why.format(**limits)}; its names are lost, and the next call starts anew"

    def close(self) -> None:
        """End the interpreter."""
        self._interpreter.close()


def python(**options: Any) -> PythonTool:
    """Return a sandboxed Python interpreter as a tool: `python(wall_s=5, memory_mb=256, backend="bubblewrap")`.

    Raises:
        UsageError: an option is unknown or invalid.
    """
    try:
        return PythonTool(PythonOptions(**options))
    except ValidationError as error:
        raise UsageError(f"options of the tool 'python': {explain(error, PythonOptions.model_fields)}") from None
