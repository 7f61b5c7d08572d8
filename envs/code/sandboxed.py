"""Options that name a sandbox. They are validated at once, but the sandbox is opened only when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue, ValidationInfo

from verigym.envs.code.outcome import failure_of
from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.sandbox import Sandbox, SandboxFailure, open_sandbox, typed_options
from verigym.sandbox.backends import backend_class


def _typed(given: Mapping[str, JsonValue], info: ValidationInfo) -> Mapping[str, JsonValue]:
    if "allow_unsafe" in given:
        raise ValueError("allow_unsafe is an option of the environment itself; set it there")
    backend = info.data.get("backend")
    return given if backend is None else typed_options(backend, given)


def _known(backend: str) -> str:
    backend_class(backend)
    return backend


Backend = Annotated[str, AfterValidator(_known)]
"""Name of a sandbox back end: one of `verigym.sandbox.BACKENDS`."""
BackendOptions = Annotated[Mapping[str, JsonValue], AfterValidator(_typed)]
"""Settings of the back end that the field `backend` names. A pydantic model must declare `backend` before this field."""


class SandboxedOptions(Options):
    """Where programs run."""

    backend: Backend = "local"
    """Which sandbox runs the programs."""
    backend_options: BackendOptions = {}
    """Settings of that sandbox, such as `workers` or `image`."""
    allow_unsafe: bool = False
    """Whether to run programs even if this machine cannot isolate them securely. Only for programs you trust."""


def open_named(options: SandboxedOptions) -> Sandbox:
    """Return the opened sandbox that `options` names.

    Raises:
        EnvironmentFailure: this sandbox cannot work on this machine.
    """
    settings: dict[str, Any] = {**options.backend_options, "allow_unsafe": options.allow_unsafe}
    try:
        return open_sandbox(options.backend, **settings)
    except SandboxFailure as error:
        raise failure_of(error) from None
    except ValueError as error:  # what only this machine knows: a package or a path that is not there
        raise EnvironmentFailure("unavailable", f"backend_options of {options.backend!r}: {error}") from None
