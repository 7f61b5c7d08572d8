"""Tools for `verigym.ToolEnvironment`: a calculator, and a sandboxed Python interpreter that keeps its state."""

from verigym.envs.tools.calculator import calculator
from verigym.envs.tools.function import FunctionTool, OpenTool, Tool, ToolError, tool
from verigym.envs.tools.python import PythonOptions, python

__all__ = ["FunctionTool", "OpenTool", "PythonOptions", "Tool", "ToolError", "calculator", "python", "tool"]
