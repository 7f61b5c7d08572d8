"""Third-party packages that judged programs may import. A program that imports any other package fails its tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from verigym.envs.code.sandboxed import SandboxedOptions
from verigym.envs.contract.base import Environment
from verigym.sandbox.inside.walls import packages
from verigym.sandbox.view import package_names

NO_NUMPY = (
    "the programs that are judged cannot import numpy, which is not installed here: one that does is judged wrong. "
    "pip install 'verigym[code]' brings it"
)


def importable(environment: Environment) -> dict[str, str] | None:
    """Return the versions of the packages that judged programs may import. The packages' own dependencies are not listed.

    Returns:
        A mapping from package to version. None if the environment judges no programs, or runs all of them in a Docker image,
        which has its own packages.
    """
    choices = [one.backend_options.get("packages", True) for one in _sandboxed(environment) if one.backend != "docker"]
    if not choices:
        return None
    folders = packages.installed_in()
    found: dict[str, str] = {}
    for choice in choices:
        names, _ = package_names(choice if isinstance(choice, bool) else tuple(map(str, choice or ())))  # type: ignore[arg-type]
        for name in names:
            for package in metadata.distributions(name=name, path=folders):
                found.setdefault(name, package.version)
    return dict(sorted(found.items()))


def lacks_numpy(environment: Environment) -> bool:
    """Return whether numpy is missing: programs may import the usual packages, which include numpy, but it is not installed."""
    usual = [
        one for one in _sandboxed(environment) if one.backend != "docker" and one.backend_options.get("packages", True) is True
    ]
    return bool(usual) and "numpy" not in (importable(environment) or {})


def _sandboxed(environment: Environment) -> Iterator[SandboxedOptions]:
    """Yield the options of the environment and its parts that name a sandbox."""
    options = getattr(environment, "options", None)
    if isinstance(options, SandboxedOptions):
        yield options
    for part in (getattr(environment, "parts", None) or {}).values():
        yield from _sandboxed(part)
