"""Tools by name, as run files and the command line name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.session import ToolSpec
from verigym.envs.registry import import_own
from verigym.envs.tools.calculator import calculator
from verigym.envs.tools.function import Tool
from verigym.envs.tools.mcp import mcp_server
from verigym.envs.tools.python import python

READY: Mapping[str, Tool] = {"calculator": calculator}
"""Tools without options."""
MAKERS: Mapping[str, Callable[..., Tool | Sequence[Tool]]] = {"python": python, "mcp_server": mcp_server}
"""Functions, by name, that take options and return a tool or the tools of a server."""


def load_tools(named: Mapping[str, Mapping[str, Any]]) -> list[Tool]:
    """Return the tools that the keys of `named` name (`calculator`, `python`, `mcp_server` or `module:attribute`).

    The values are the tools' options. A suffix after a slash only distinguishes two uses of the same function:
    `mcp_server/files`, `mcp_server/search`.

    Raises:
        UsageError: no tool has this name, or an option is unknown or missing.
    """
    found: list[Tool] = []
    for name, options in named.items():
        maker = MAKERS.get(name.partition("/")[0])
        if maker is None:
            if options:
                raise UsageError(f"tool {name!r} takes no options; leave out {', '.join(sorted(options))}")
            found.append(READY.get(name) or _at(name))
            continue
        try:
            made = maker(**options)
        except TypeError as error:
            raise UsageError(f"tool {name!r}: {error}") from None
        found += made if isinstance(made, Sequence) else [made]
    return found


def _at(place: str) -> Tool:
    module, separator, attribute = place.partition(":")
    if not separator:
        known = [*READY, *MAKERS]
        hint = did_you_mean(place, known)
        raise UsageError(f"there is no tool {place!r}{hint}; there are {', '.join(sorted(known))}, or module:attribute")
    try:
        found: Any = getattr(import_own(module), attribute)
    except Exception as error:
        raise UsageError(f"tool {place!r}: {describe(error)}") from None
    # Nothing is called with the options of a configuration, which may come from elsewhere.
    if not isinstance(getattr(found, "spec", None), ToolSpec):
        raise UsageError(f"{place!r} is no tool: write @tool above the function, or name the tool that a call has made")
    tool: Tool = found
    return tool
