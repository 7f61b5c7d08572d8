"""Tools: `@tool` on a typed function, and the interface of tools that keep a state within an episode."""

from __future__ import annotations

import hashlib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

import pydantic_core
from pydantic import BaseModel, ConfigDict, JsonValue, PydanticUserError, ValidationError, create_model

from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.session import ToolSpec

P = ParamSpec("P")
R = TypeVar("R")


class ToolError(Exception):
    """Raised by a tool whose arguments have the right types but make no sense. The model reads the message."""


class OpenTool(Protocol):
    """A tool within one episode."""

    def call(self, arguments: Mapping[str, JsonValue]) -> str:
        """Run the tool with `arguments` and return the text that the model reads.

        Raises:
            ToolError: the call makes no sense; the model reads why.
            EnvironmentFailure, OSError, ImportError: the tool failed. If the failure is on our side, the episode gets no
                reward. If a control call shows that this call is to blame (`running.py`), the episode goes on.
        """

    def close(self) -> None:
        """Release what the tool holds. Idempotent."""


class Tool(Protocol):
    """A tool as an environment is given it."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema of the arguments."""

    @property
    def identity(self) -> str:
        """Return a text that determines the tool's results, such as a hash of its code and settings.

        It becomes part of the grader id.
        """

    def misfit(self, arguments: Mapping[str, JsonValue]) -> str:
        """Return why `arguments` do not match the tool's schema, or an empty string if they do.

        A call that does not match is not run.
        """

    def open(self, seed: str) -> OpenTool:
        """Begin an episode."""


def open_tool(tool: Tool, seed: str, opened: Iterable[OpenTool]) -> OpenTool:
    """Return `tool`, opened for an episode.

    Args:
        tool: one of the environment's tools. If it has a method `open_beside(opened, seed)`, this method is called instead of
            `open`. Tools of one server have it, because in an episode they share a server, which the first of them starts.
        seed: text that names the episode and the tool; the tool's random numbers are derived from it.
        opened: the tools that are already open in this episode.
    """
    beside: Callable[[Iterable[OpenTool], str], OpenTool] | None = getattr(tool, "open_beside", None)
    return tool.open(seed) if beside is None else beside(opened, seed)


class Signature:
    """The schema of a tool, made from a function's docstring and annotations; a first parameter `self` is left out.

    Raises:
        UsageError: the function has no docstring, a parameter has no type, or there are `*args` or `**kwargs`.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        description = inspect.getdoc(function)
        if not description:
            raise UsageError(f"tool {name!r} has no docstring: write what it does, for the model reads it")
        self._model = _arguments_model(function, name)
        schema = self._model.model_json_schema()
        schema.pop("title", None)
        try:
            self.spec = ToolSpec(name=name, description=description, parameters=schema)
        except ValidationError as error:
            raise UsageError(f"tool {name!r}: {explain(error, ToolSpec.model_fields)}") from None

    def misfit(self, arguments: Mapping[str, JsonValue]) -> str:
        """Return why `arguments` do not match the parameters, or an empty string if they do."""
        try:
            self._model.model_validate(dict(arguments))
        except ValidationError as error:
            return explain(error, self._model.model_fields)
        return ""

    def typed(self, arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
        """Return arguments that fit, as the function's types."""
        model = self._model.model_validate(dict(arguments))
        return {name: getattr(model, name) for name in self._model.model_fields}


class FunctionTool(Generic[P, R]):
    """A stateless tool made from a function. It can still be called like the function."""

    def __init__(self, function: Callable[P, R], name: str | None = None) -> None:
        self.function = function
        self._signature = Signature(function, name or function.__name__)
        self.spec = self._signature.spec
        self.identity = hashlib.sha256(_source(function).encode()).hexdigest()[:8]
        self.__doc__, self.__module__, self.__qualname__ = function.__doc__, function.__module__, function.__qualname__

    def __reduce__(self) -> str:
        """Return the name of the decorated function, for pickling.

        Since that name now refers to the tool, a worker gets the tool by importing this name.
        """
        return self.__qualname__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    def misfit(self, arguments: Mapping[str, JsonValue]) -> str:
        """Return why `arguments` do not match the function's types, or an empty string if they do."""
        return self._signature.misfit(arguments)

    def open(self, seed: str) -> FunctionTool[P, R]:
        """Return itself: there is no state."""
        return self

    def call(self, arguments: Mapping[str, JsonValue]) -> str:
        """Run the function with `arguments` and return its result. A result that is not a text is written as JSON."""
        result: Any = self.function(**self._signature.typed(arguments))  # type: ignore[call-arg]
        return result if isinstance(result, str) else pydantic_core.to_json(result).decode()

    def close(self) -> None:
        """Nothing is held."""


@overload
def tool(function: Callable[P, R]) -> FunctionTool[P, R]: ...
@overload
def tool(*, name: str) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Any = None, *, name: str | None = None) -> Any:
    """Return a tool made from a function, described by its docstring. Its annotations give the arguments' JSON schema.

    The annotations also validate the arguments. What happens if the function raises an exception depends on its type:

    * `ToolError`: the model reads the message.
    * OSError, ImportError, EnvironmentFailure: an earlier successful call (a control) is repeated. If the control fails too,
    the
      failure is on our side and the episode ends without a reward. If the control works, the arguments of the failed call are
      to blame and the episode goes on. `running.py` has the details.
    * Any other exception is a bug of the tool: the model reads its type and message, the episode goes on, and the outcome
    counts
      the exception.

    Raises:
        UsageError: the function has no docstring, a parameter has no type, or there are `*args` or `**kwargs`.
    """
    if function is None:
        return lambda function: FunctionTool(function, name)
    return FunctionTool(function, name)


def _arguments_model(function: Callable[..., Any], label: str) -> type[BaseModel]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"tool {label!r}: parameter {parameter}: expected one that is given by name, with a type")
        if name not in hints:
            raise UsageError(f"tool {label!r}: parameter {name!r} has no type: write `{name}: str`, or whatever it is")
        fields[name] = (hints[name], ... if parameter.default is parameter.empty else parameter.default)
    try:
        return create_model(label, __config__=ConfigDict(extra="forbid"), **fields)
    except (PydanticUserError, NameError) as error:
        raise UsageError(f"tool {label!r}: its parameters make no schema: {str(error).splitlines()[0]}") from None


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed into an interpreter
        return f"{function.__module__}.{function.__qualname__}"
