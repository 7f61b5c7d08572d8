"""An MCP server by the package mcp, whose tools count, refuse, sleep, die and change the list of tools."""

from __future__ import annotations

import os
import sys
import time

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import AudioContent, EmbeddedResource, ImageContent, TextContent, TextResourceContents

server = MCPServer("test server", version="1.2")
count = 0


@server.tool(name="count-up", description="Count up, and say how far.")
def count_up(by: int = 1) -> str:
    """Count."""
    global count
    count += by
    return f"{count} in {os.environ.get('VERIGYM_SEED', 'no episode')}"


@server.tool(description="Say how far the count is.")
def total() -> str:
    """Say the count."""
    return str(count)


@server.tool(description="Refuse, with a message.")
def refuse(why: str) -> str:
    """Refuse."""
    raise ToolError(f"refused: {why}")


@server.tool(description="Fail by a bug.")
def bug() -> str:
    """Fail."""
    return {}["nothing"]  # type: ignore[no-any-return]


@server.tool(description="Sleep for some seconds.")
def sleep(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return f"slept {seconds:g} s"


@server.tool(description="End the server.")
def die(code: int = 7) -> str:
    """End."""
    print("about to die", file=sys.stderr, flush=True)
    os._exit(code)


@server.tool(description="Several parts of several types.", structured_output=False)
def parts() -> list[TextContent | ImageContent | AudioContent | EmbeddedResource]:
    """Return parts."""
    return [
        TextContent(type="text", text="a text"),
        ImageContent(type="image", data="AAAA", mime_type="image/png"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///notes.txt", text="notes")),
        AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
        TextContent(type="text", text="the end"),
    ]


@server.tool(description="Add a tool to the server.")
async def learn(context: Context) -> str:
    """Change the tools."""
    server.add_tool(total, name="learnt")
    await context.session.send_tool_list_changed()
    return "learnt"


@server.tool(description="Say the process id.")
def pid() -> str:
    """Say it."""
    return str(os.getpid())


server.run("stdio")
