"""Tools for `verigym.ToolEnvironment`: a calculator, and a sandboxed Python interpreter that keeps its state."""

from verigym.envs.tools.calculator import calculator
from verigym.envs.tools.function import FunctionTool, OpenTool, Tool, ToolError, tool
from verigym.envs.tools.mcp import McpOptions, mcp_server
from verigym.envs.tools.python import PythonOptions, python

__all__ = [
    "FunctionTool",
    "McpOptions",
    "OpenTool",
    "PythonOptions",
    "Tool",
    "ToolError",
    "calculator",
    "mcp_server",
    "python",
    "tool",
]
