"""`Catalog`: the environments of a service, which makes prompts and completions from requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verigym.datasets_cfg.fields import FieldProblem
from verigym.envs.composition.base import generates_tasks
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Completion, Prompt
from verigym.envs.contract.session import opens_sessions
from verigym.envs.grading.grader import by_name
from verigym.envs.registry import load_usable
from verigym.envs.tools.environment import ToolEnvironment
from verigym.envs.tools.named import load_tools
from verigym.grade.reading.completions import completion as read_completion
from verigym.serve.problems import Problem
from verigym.serve.schemas import OpenEpisode, ScoreRequest, ServedEnvironment
from verigym.serve.settings import Served

_RESERVED = frozenset(("self", "text", "metadata"))
"""Parameters of `Environment.prompt` that are no fields of a reference."""


def load_served(named: Sequence[Served]) -> dict[str, Environment]:
    """Return the environments in `named` by name, after checking that each can be used on this machine.

    Raises:
        UsageError: there is no such environment, an option is invalid, a tool is missing, or two environments have one name.
    """
    loaded: list[Environment] = []
    for one in named:
        environment: Any = load_usable(one.environment, **one.options)
        loaded.append(ToolEnvironment(environment, load_tools(one.tools)) if one.tools else environment)
    return by_name(loaded)


def spellings(named: Sequence[Served], names: Sequence[str]) -> dict[str, str]:
    """Return a mapping from `module:Class` to the environment's name, so that requests may use either to name an environment.

    A class that is served several times with different options is left out.

    Args:
        named: the environments as given when the service was started.
        names: the names of these environments, in the same order.
    """
    given = [one.environment for one in named]
    return {one: name for one, name in zip(given, names, strict=True) if ":" in one and given.count(one) == 1}


class Catalog:
    """The environments of a service. It makes prompts and completions from the requests about them.

    Args:
        environments: the environments by name.
        aliases: other names by which requests may call them.
    """

    def __init__(self, environments: Mapping[str, Environment], aliases: Mapping[str, str] | None = None) -> None:
        self.environments = dict(environments)
        self._aliases = dict(aliases or {})
        self.interactive = {name: one for name, one in environments.items() if opens_sessions(one)}

    def name(self, given: str) -> str:
        """Return the name of the environment with the alias `given`; return `given` itself if it is no alias."""
        return self._aliases.get(given, given)

    def require(self, request: ScoreRequest | OpenEpisode, place: str = "") -> Environment:
        """Return the environment that a request names.

        Args:
            request: the request.
            place: the request's position in its batch, for the message.

        Raises:
            Problem: the environment is not served, or the request asks for a generated task and the environment generates none.
        """
        environment = self.environments.get(self.name(request.environment))
        if environment is None:
            hint = did_you_mean(request.environment[:100], self.environments)
            raise Problem("invalid", f"{place}environment {request.environment[:100]!r} is not served here{hint}")
        if request.task is not None and not generates_tasks(environment):
            raise Problem("invalid", f"{place}task: {environment.name!r} generates no tasks; give prompt and reference")
        return environment

    def prompt(self, request: ScoreRequest | OpenEpisode) -> Prompt:
        """Return the prompt of the task in `request`.

        Raises:
            Problem: the environment is not served, or the task's fields do not fit it.
            EnvironmentFailure: making the task failed through no fault of the request.
        """
        environment: Any = self.require(request)
        try:
            if request.task is None:
                given = request.prompt
                assert given is not None
                text = given if isinstance(given, str) else [one.model_dump() for one in given]
                fields = request.reference or {}
                if reserved := sorted(_RESERVED & fields.keys()):
                    raise Problem("invalid", f"reference: unknown field {reserved[0]!r}")
                made: Prompt = environment.prompt(text, **fields)
                return made
            made = environment.prompt_at(request.task.split, request.task.seed, request.task.index)
            return made
        except (UsageError, ValueError, TypeError, RecursionError) as error:
            raise Problem("invalid", " ".join(str(error).split())[:500]) from None

    def item(self, request: ScoreRequest) -> tuple[Prompt, Completion]:
        """Return the prompt and the completion in `request`.

        Raises:
            Problem: the environment is not served, the task does not fit it, or the completion has an unknown format.
            EnvironmentFailure: making the task failed through no fault of the request.
        """
        prompt = self.prompt(request)
        if isinstance(request.completion, str):
            return prompt, Completion(text=request.completion)
        try:
            return prompt, read_completion(request.completion, "completion")
        except FieldProblem as problem:
            raise Problem("invalid", f"{problem.field} {problem}"[:500]) from None
        except (ValueError, TypeError) as error:
            raise Problem("invalid", " ".join(str(error).split())[:500]) from None

    def describe(self) -> list[ServedEnvironment]:
        """Return the descriptions of all served environments for clients."""
        return [
            ServedEnvironment(
                name=name,
                grader=one.grader,
                description=(type(one).__doc__ or "").strip(),
                interactive=name in self.interactive,
                generates_tasks=generates_tasks(one),
                reward_range=one.reward_range,
                reference=reference_schema(one),
            )
            for name, one in self.environments.items()
        ]


def reference_schema(environment: Environment) -> dict[str, Any]:
    """Return the JSON schema of the environment's reference.

    For an environment that is composed of several, return the schema of an arbitrary object.
    """
    kind = getattr(environment, "reference_type", None)
    if kind is None and (inner := getattr(environment, "inner", None)) is not None:
        kind = getattr(inner, "reference_type", None)
    return {"type": "object"} if kind is None else kind.model_json_schema()
