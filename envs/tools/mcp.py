"""Tools of MCP servers (Model Context Protocol), by the package mcp: `mcp_server(command=["npx", "-y", ...])`.

Each episode has a server process of its own, started with the first call and ended with the episode, so that no state passes
from one episode into another.
"""

from __future__ import annotations

import json
import os
import re
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure, UsageError, did_you_mean, explain
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.contract.session import ToolSpec
from verigym.envs.extras import need
from verigym.envs.format.json_schema import follows_schema
from verigym.envs.linear import check_pattern
from verigym.envs.tools.function import OpenTool, ToolError
from verigym.envs.tools.mcp_connection import Connection, Launch, ListedTool

VERSION = "1"
SEED = "VERIGYM_SEED"
"""Environment variable of an episode's own server: a text that differs between episodes, to seed its random numbers."""
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_]")


class McpOptions(Options):
    """Which server, and how it is used."""

    command: tuple[str, ...] = Field(min_length=1)
    """The program that serves over standard input and output, and its arguments."""
    env: Mapping[str, str] = {}
    """Environment variables for the server, in addition to PATH, HOME and the few others that MCP clients pass on."""
    cwd: str = ""
    """The folder in which it runs; empty for the present one."""
    shared: bool = False
    """Whether all episodes of a process share one server. Only for servers that keep no state."""
    only: tuple[str, ...] = ()
    """Names of the tools to take; empty for all."""
    prefix: str = Field("", pattern=r"^[A-Za-z0-9_]*$")
    """Text put before each tool's name, to keep tools of the same name on two servers apart."""
    timeout_s: float = Field(10.0, gt=0)
    """Wall time of a call."""
    start_timeout_s: float = Field(15.0, gt=0)
    """Wall time until a server has said which tools it has."""


class McpServer:
    """An MCP server, shared by its tools.

    Its tools are listed once, and each later process of the server must have the same ones.
    """

    def __init__(self, options: McpOptions, mode: str, listed: tuple[ListedTool, ...], server_info: str) -> None:
        self.options, self.listed = options, listed
        self._mode = mode
        self._info = server_info
        known = [options.command, options.shared, server_info, listed]
        self.identity = f"{VERSION}+{sha256_hex(canonical_json(known))[:8]}"
        self._lock = threading.Lock()
        self._kept: list[Connection] = []
        # In a thread: the last reference may vanish anywhere, also where nothing may block.
        weakref.finalize(self, _close_later, self._kept).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        return {"given": (self.options, self._mode, self.listed, self._info)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(vars(McpServer(*state["given"])))

    def connection(self, seed: str) -> Connection:
        """Return a connection to this episode's server, or to the shared server of this process.

        Raises:
            EnvironmentFailure: no server can be started, or its tools differ from those listed at first.
        """
        if not self.options.shared:
            return self._started({SEED: seed})
        with self._lock:
            if not (self._kept and self._kept[0].usable):
                while self._kept:
                    self._kept.pop().close()
                self._kept.append(self._started({}))
            return self._kept[0]

    def _started(self, env: Mapping[str, str]) -> Connection:
        connection = Connection(_launch(self.options, self._mode, env))
        if connection.tools != self.listed:
            connection.close()
            names = sorted({tool.name for tool in set(connection.tools) ^ set(self.listed)})
            raise EnvironmentFailure(
                "unavailable",
                f"{connection}: its tools are not those with which the environment was made (see {', '.join(names)[:200]}); "
                "make the environment again",
            )
        return connection


def _close_later(kept: list[Connection]) -> None:
    while kept:
        threading.Thread(target=kept.pop().close).start()


class McpTool:
    """A tool of a server."""

    def __init__(self, server: McpServer, listed: ListedTool, spec: ToolSpec) -> None:
        self.server, self.spec = server, spec
        self.identity = server.identity
        self._name = listed.name
        self._checked = _checkable(json.loads(listed.schema_json))

    def __repr__(self) -> str:
        return f"<tool {self.spec.name} of {self.server.options.command[0]}>"

    def misfit(self, arguments: Mapping[str, JsonValue]) -> str:
        """Return where `arguments` violate the server's schema, or an empty string if they match it."""
        return follows_schema(dict(arguments), self._checked)

    def open(self, seed: str) -> OpenMcpTool:
        """Return this tool, opened for an episode.

        Raises:
            EnvironmentFailure: see `McpServer.connection`.
        """
        return self.open_beside((), seed)

    def open_beside(self, opened: Iterable[OpenTool], seed: str) -> OpenMcpTool:
        """Return this tool, opened for an episode on the server that another tool of the episode has started.

        Raises:
            EnvironmentFailure: see `McpServer.connection`.
        """
        for one in opened:
            if isinstance(one, OpenMcpTool) and one.server is self.server:
                return OpenMcpTool(self.server, one.connection, self._name)
        connection = self.server.connection(seed.removesuffix(f"/{self.spec.name}"))
        return OpenMcpTool(self.server, connection, self._name)


class OpenMcpTool:
    """A tool of a server within one episode."""

    def __init__(self, server: McpServer, connection: Connection, name: str) -> None:
        self.server, self.connection, self._name = server, connection, name

    def call(self, arguments: Mapping[str, JsonValue]) -> str:
        """Run the tool with `arguments` and return the text that the model reads.

        Raises:
            ToolError: the tool says that the call failed, or the arguments cannot be sent.
            EnvironmentFailure: the server ended, took too long, broke the protocol or changed its tools.
        """
        try:
            canonical_json(dict(arguments)).encode()
        except UnicodeEncodeError:
            raise ToolError("the arguments hold half of a surrogate pair, which has no UTF-8 form") from None
        result = self.connection.call(self._name, arguments, self.server.options.timeout_s)
        text = "\n".join(map(_part, result.content))
        if not result.content and result.structured_content is not None:
            text = canonical_json(result.structured_content)
        if result.is_error:
            raise ToolError(text or "the tool says that the call failed, and not why")
        return text or "(nothing was returned)"

    def close(self) -> None:
        """End the server, unless episodes share it."""
        if not self.server.options.shared:
            self.connection.close()


def mcp_server(command: Iterable[str], **options: Any) -> tuple[McpTool, ...]:
    """Return the tools of an MCP server, for `ToolEnvironment(inner, tools=[*mcp_server([...])])`.

    The server is started once to list its tools. Characters that a tool name may not have become underscores (`a-b` is `a_b`).

    Args:
        command: program that serves over standard input and output, and its arguments.
        options: `env`, `cwd`, `shared`, `only`, `prefix`, `timeout_s`, `start_timeout_s`; see `McpOptions`.

    Raises:
        UsageError: an option is unknown or invalid, the package mcp is missing, the server cannot be started or has no tools,
            or one of its tools cannot be offered to a model.
    """
    if isinstance(command, str):
        raise UsageError(f"mcp_server: command is the text {command!r:.60}; give a list, such as ['python', 'server.py']")
    try:
        given = McpOptions(command=tuple(command), **options)
    except ValidationError as error:
        raise UsageError(f"options of mcp_server: {explain(error, McpOptions.model_fields)}") from None
    need("mcp", "mcp_server")
    given = given.model_copy(update={"cwd": os.path.abspath(given.cwd)})
    mode, listed, info = _asked(given)
    server = McpServer(given, mode, listed, info)
    return tuple(McpTool(server, one, spec) for one, spec in _offered(given, listed))


def _asked(given: McpOptions) -> tuple[str, tuple[ListedTool, ...], str]:
    """Return how to agree on the protocol's version, the tools, and the server's name and version."""
    failures = []
    for mode in ("legacy", "auto"):  # the handshake first: with it, a server says by itself that its tools have changed
        try:
            connection = Connection(_launch(given, mode, {}))
        except EnvironmentFailure as failure:
            failures.append(failure)
            if failure.kind != "protocol":
                break
        else:
            connection.close()
            return mode, connection.tools, connection.server_info
    raise UsageError(f"mcp_server: {failures[0].message}")


def _offered(given: McpOptions, listed: tuple[ListedTool, ...]) -> list[tuple[ListedTool, ToolSpec]]:
    place = f"mcp_server {' '.join(given.command)!r:.80}"
    names = [tool.name for tool in listed]
    for name in given.only:
        if name not in names:
            raise UsageError(f"{place}: only: it has no tool {name!r}{did_you_mean(name, names)}")
    offered: dict[str, tuple[ListedTool, ToolSpec]] = {}
    for tool in listed:
        if given.only and tool.name not in given.only:
            continue
        name = given.prefix + _UNNAMEABLE.sub("_", tool.name)
        name = f"_{name}" if name[:1].isdigit() else name
        try:
            spec = ToolSpec(name=name, description=tool.description, parameters=json.loads(tool.schema_json))
        except ValidationError as error:
            raise UsageError(f"{place}: tool {tool.name!r}: {explain(error, ToolSpec.model_fields)}") from None
        _refuse_bad_schema(tool, place)
        if name in offered:
            both = f"{offered[name][0].name!r} and {tool.name!r}"
            raise UsageError(f"{place}: the tools {both} would both be {name!r}; take one of them, by only=[...]")
        offered[name] = (tool, spec)
    if not offered:
        raise UsageError(f"{place}: it has no tools")
    return list(offered.values())


def _refuse_bad_schema(tool: ListedTool, place: str) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(_checkable(json.loads(tool.schema_json)))
    except SchemaError as error:
        raise UsageError(f"{place}: tool {tool.name!r} has no valid schema: {error.message:.200}") from None


# What would be matched by backtracking expressions, or fetched. The server checks its arguments itself, too.
_LEFT_OUT = ("patternProperties", "$dynamicRef", "$recursiveRef", "format")


def _checkable(schema: Any, named: bool = False) -> Any:
    """Return the part of a schema that can be checked in linear time. `named`: it is a mapping of names to schemas."""
    if isinstance(schema, list | tuple):
        return [_checkable(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {}
    for name, value in schema.items():
        if not named and (name in _LEFT_OUT or (name == "$ref" and not str(value).startswith("#")) or _unmatched(name, value)):
            continue
        if not named and name in ("const", "enum", "default", "examples"):
            kept[name] = value
        else:
            kept[name] = _checkable(value, not named and name in ("properties", "$defs", "definitions", "dependentSchemas"))
    return kept


def _unmatched(name: str, value: Any) -> bool:
    """Return whether it is a pattern that the linear-time engine does not read, or cannot, for it is not installed."""
    if name != "pattern":
        return False
    try:
        import re2  # noqa: F401

        check_pattern(str(value))
    except (ImportError, UsageError):
        return True
    return False


def _part(part: Any) -> str:
    """Return a text part as it is, and any other by what it is."""
    if part.type == "text":
        return str(part.text)
    if part.type == "resource_link":
        return f"[a link to the resource {part.uri}]"
    if part.type == "resource":
        text = getattr(part.resource, "text", None)
        return (
            f"[the resource {part.resource.uri}]\n{text}"
            if text is not None
            else f"[the resource {part.resource.uri}, no text]"
        )
    return f"[{part.type} of type {part.mime_type}, not shown]"


def _launch(given: McpOptions, mode: str, env: Mapping[str, str]) -> Launch:
    from mcp.client.stdio import get_default_environment

    return Launch(given.command, {**get_default_environment(), **given.env, **env}, given.cwd, given.start_timeout_s, mode)
