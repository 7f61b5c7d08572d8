"""Typed options of the back ends, parsed alike from Python, YAML and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from verigym.sandbox.arguments import Expected, suggestion

M = TypeVar("M", bound="SandboxOptions")


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):  # a subclass of int
        raise ValueError("a truth value is no number")
    return value


_NoTruthValue = BeforeValidator(_no_truth_value)
Flag = Annotated[bool, Expected("true or false")]
Text = Annotated[str, Field(min_length=1), Expected("a text")]
OptionalText = Annotated[str | None, Field(min_length=1), Expected("a text, or null")]
Packages = bool | tuple[str, ...]
"""Packages that programs may import: True for the usual ones that are installed, False for none, or names as in `pip list`."""


class SandboxOptions(BaseModel):
    """The options that all back ends have."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    workers: Annotated[int | None, Field(ge=1), _NoTruthValue, Expected("a whole number of at least 1")] = None
    """Number of concurrent runs; by default one per usable core."""
    packages: Annotated[Packages, Expected('true, false, or a list of names as in `pip list`, such as ["numpy"]')] = True
    """Packages that programs may import, with the packages that these require: true for the usual ones that are installed
    beside this Python (with docker: in the image), false for none, or names as in `pip list`. Never verigym."""
    allow_unsafe: Flag = False
    """Accept level 1 of `local`, which limits resources but does not isolate. The other back ends have no such level."""


class HostOptions(SandboxOptions):
    """Options common to the back ends that show programs parts of the host's file system."""

    read_only: Annotated[tuple[str, ...], Expected('a list of paths, such as ["/data"]')] = ()
    """More files and folders of the host that programs may read; paths below `/tmp` appear below `/host`."""


class LocalOptions(HostOptions):
    """Options of the back end `local`."""

    level: Annotated[int | None, Field(ge=1, le=3), _NoTruthValue, Expected("1, 2 or 3")] = None
    """3 (namespaces), 2 (own uid or Landlock, and seccomp) or 1 (limits only); by default the best that works here."""


class BubblewrapOptions(HostOptions):
    """Options of the back end `bubblewrap`."""

    program: Text = "bwrap"
    """Path or name of bubblewrap's executable."""


class ContainerOptions(SandboxOptions):
    """Options of the back end `docker`."""

    image: Text = "python:3.12-slim"
    """Any image with Python 3.11 or newer as python3; compilers and node in it give more languages. Never pulled."""
    base_url: OptionalText = None
    """The daemon's address, such as unix:///run/podman/podman.sock; by default DOCKER_HOST or a usual socket."""
    runtime: OptionalText = None
    """The OCI runtime, such as "runsc" (gVisor); the daemon's default otherwise."""
    cpus: Annotated[float | None, Field(gt=0, allow_inf_nan=False), _NoTruthValue, Expected("a number above 0, or null")] = 1.0
    """CPUs that a container may use; null leaves them unlimited."""
    python: Text = "python3"
    """The image's interpreter."""
    retire_after: Annotated[int, Field(ge=1), _NoTruthValue, Expected("a whole number of at least 1")] = 1000
    """Runs after which a container is replaced."""


def parse_options(model: type[M], backend: str, given: Mapping[str, Any]) -> M:
    """Return the options `given` for a back end, validated.

    Args:
        model: the back end's options class.
        backend: its name, for error messages.
        given: values by name. Strings from the command line, such as `"2"` or `"false"`, are converted to the option's type.

    Raises:
        ValueError: a name is unknown or a value is invalid; the message says what was expected.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        # Report unknown names first: other errors may follow from them.
        first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
        name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        message = f"options of the sandbox back end {backend!r}: no option is called {name!r}"
        hint = suggestion(name, model.model_fields)
        of_runs = "" if "did you mean" in hint else "; limits are given to each run: box.run(program, limits=Limits(wall_s=2))"
        raise ValueError(message + hint + of_runs)
    field = model.model_fields[name]
    expected = next(item.words for item in field.metadata if isinstance(item, Expected))
    raise ValueError(f"options of the sandbox back end {backend!r}: {name}={given[name]!r}: expected {expected}")
