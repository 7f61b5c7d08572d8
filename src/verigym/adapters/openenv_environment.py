"""`OpenEnvEnvironment`: a verigym environment whose episodes are played on an OpenEnv server.

    verigym.load("verigym.adapters.openenv_environment:OpenEnvEnvironment", base_url="http://localhost:8000")

A task's prompt is the observation that the server returns when it is reset with the task's seed. The reward is the sum of the
steps' rewards. The steps' rewards are saved in the episode's outcome, so a saved episode can be graded again without the
server.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import Field, JsonValue, model_validator

from verigym.adapters.bounds import bounded_sum
from verigym.envs import strict_json
from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Message, Prompt, Reference, Score, Turn, canonical_json, sha256_hex
from verigym.envs.contract.session import Reply, ToolSpec
from verigym.envs.extras import need

WHAT = "OpenEnvEnvironment"
SCHEMA_S = 10.0
COMMON_FIELDS = ("metadata",)
"""Fields that every action and observation has; they hold nothing about the task."""
T = TypeVar("T")


class OpenEnvOptions(Options):
    """Options of `OpenEnvEnvironment`."""

    base_url: str = Field(pattern=r"^https?://")
    """Of the server."""
    reset: Mapping[str, JsonValue] = {}
    """Arguments of every `reset`, beside `seed`."""
    action_field: str = ""
    """Field of the action that takes the model's text. By default the only required field; if several fields are required, the
    model writes the action as a JSON object."""
    observation_field: str = ""
    """Field of the observation that the model reads: a text, or chat messages. By default the model reads the whole
    observation as JSON."""
    timeout_s: float = Field(default=20.0, gt=0)
    """Seconds that the server may take to answer. Keep it below the timeout of a session (30 s by default, see `Sessions`)."""
    floor: float = Field(default=0.0, allow_inf_nan=False)
    """The lowest sum of an episode's rewards."""
    maximum: float = Field(default=1.0, allow_inf_nan=False)
    """The highest sum of an episode's rewards. A sum below `floor` or above `maximum` is a failure of the environment, not of
    the model."""

    @model_validator(mode="after")
    def _ordered(self) -> OpenEnvOptions:
        if self.floor >= self.maximum:
            raise ValueError(f"floor {self.floor} is not below maximum {self.maximum}")
        return self


class OpenEnvTask(Reference):
    """The `reset` arguments by which the server finds a task."""

    reset: Mapping[str, JsonValue]
    """Arguments of `reset`."""


class OpenEnvEnvironment(BaseEnvironment[OpenEnvTask, OpenEnvOptions]):
    """Environment whose tasks are episodes on an OpenEnv server; the reward is the sum of the rewards that the server gives."""

    name = "openenv"
    version = "1"
    reference_type = OpenEnvTask
    options_type = OpenEnvOptions
    expected_verdicts = ExpectedVerdicts(gold="free")

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """The options `floor` and `maximum`."""
        return self.options.floor, self.options.maximum

    def check(self) -> None:
        """Raise EnvironmentFailure if the server does not answer, or UsageError if openenv is not installed."""
        need("openenv.core.generic_client", WHAT)
        self.action_fields()

    def action_fields(self) -> tuple[str, Sequence[str]]:
        """Return the action field that takes the model's text (empty if there is none), and the names of all action fields.

        Raises:
            EnvironmentFailure: the server does not answer.
            UsageError: the option `action_field` names no field of the server's action.
        """
        return _action_fields(self.options)

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return the task that the server begins when it is reset with a seed hashed from `split`, `seed` and `index`.

        Raises:
            EnvironmentFailure: the server does not answer.
        """
        number = int(sha256_hex(f"{split}/{seed}/{index}")[:7], 16)
        reset = {**self.options.reset, "seed": number}
        client = _Client(self.options)
        try:
            first = client.reset(reset)
        finally:
            client.close()
        return self.prompt(first, reset=reset, metadata={"split": split, "index": index})

    def open(self, prompt: Prompt, seed: str) -> OpenEnvSession:
        """Begin an episode of `prompt`. The server is reset with the task's own seed, so all samples of a prompt start alike.

        Raises:
            EnvironmentFailure: the server does not answer, or its first observation is not the prompt of the task.
        """
        return OpenEnvSession(self.options, prompt, self.reference(prompt))

    def judge(self, prompt: Prompt, reference: OpenEnvTask, completion: Completion) -> Score:
        """Return a score whose reward is the sum of the episode's rewards."""
        outcome, (low, high) = completion.outcome, self.reward_range
        if outcome is None:
            return Score.no_answer(reward=low, reason="no episode was played")
        given = outcome.get("rewards")
        rewards = [float(one) for one in given if isinstance(one, int | float)] if isinstance(given, list) else []
        if outcome.get("done") and not rewards:
            raise EnvironmentFailure("backend", "the server ended the episode without a reward")
        total = bounded_sum(sum(rewards) if rewards else low, low, high)
        parts: dict[str, float | None] = {"steps": float(len(given) if isinstance(given, list) else 0)}
        if total == high:
            return Score.correct(reward=high, components=parts)
        if total == low:
            return Score.incorrect(reward=low, components=parts)
        return Score.partial(total, components=parts)


class OpenEnvSession:
    """One episode on the server."""

    def __init__(self, options: OpenEnvOptions, prompt: Prompt, task: OpenEnvTask) -> None:
        self._client = _Client(options)
        self._rewards: list[JsonValue] = []
        self._done = False
        try:
            if self._client.reset(task.reset) != prompt.messages[-1].content:
                raise EnvironmentFailure("backend", "the server began another task than the prompt's with the same seed")
        except EnvironmentFailure:
            self._client.close()
            raise

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """An empty sequence: the model acts by writing text and has no tools."""
        return ()

    def read(self, text: str) -> Turn:
        """Return `text` as an assistant turn."""
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        """Send the text of `turn` to the server as one step; return the server's observation and reward.

        Raises:
            EnvironmentFailure: the server does not answer, or reports an error.
        """
        action = self._client.action(turn.text)
        if isinstance(action, str):
            return Reply(messages=(Message(role="user", content=action),))
        said, reward, self._done = self._client.step(action)
        self._rewards.append(reward)
        if self._done:
            return Reply(done=True, reward=reward)
        return Reply(messages=(Message(role="user", content=said),), reward=reward)

    def close(self) -> Mapping[str, JsonValue]:
        """Disconnect from the server; return the rewards of all steps, and whether the server ended the episode."""
        self._client.close()
        return {"rewards": list(self._rewards), "done": self._done}


class _Client:
    """OpenEnv's client, with its errors typed as ours."""

    def __init__(self, options: OpenEnvOptions) -> None:
        generic = need("openenv.core.generic_client", WHAT).GenericEnvClient
        self._options = options
        self._field, self._fields = _action_fields(options)
        self._sync = generic(
            base_url=options.base_url, connect_timeout_s=options.timeout_s, message_timeout_s=options.timeout_s
        ).sync()

    def reset(self, arguments: Mapping[str, JsonValue]) -> str:
        """Begin an episode, and return what the model reads first."""
        result = self._asked(lambda: self._sync.reset(**arguments))
        return self._text(result.observation)

    def step(self, action: Mapping[str, Any]) -> tuple[str, float | None, bool]:
        """Take a step; return what the model reads next, the reward and whether the episode is over."""
        result = self._asked(lambda: self._sync.step(dict(action)))
        reward = None if result.reward is None else float(result.reward)
        return self._text(result.observation), reward, bool(result.done)

    def action(self, text: str) -> Mapping[str, Any] | str:
        """Return the model's text as an action; a complaint for the model where it is none."""
        if self._field:
            return {self._field: text}
        try:
            action = strict_json.loads(text)
        except ValueError:
            action = None
        if isinstance(action, Mapping):
            return action
        return f"No action was read: write one JSON object with the fields {', '.join(self._fields)}."

    def close(self) -> None:
        """Leave the server, whatever it says."""
        try:
            self._sync.close()
        except Exception:  # the episode is over, and its rewards are here
            return

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Exception as error:  # what openenv raises has no type of its own: connections, timeouts, refusals
            line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise EnvironmentFailure("backend", f"the server at {self._options.base_url}: {line}", retryable=True) from None

    def _text(self, observation: Mapping[str, Any]) -> str:
        field = self._options.observation_field
        shown: Any = {name: value for name, value in observation.items() if name not in COMMON_FIELDS}
        if field:
            if field not in observation:
                raise EnvironmentFailure("protocol", f"the observation has no field {field!r}; it has {', '.join(observation)}")
            shown = observation[field]
        if isinstance(shown, str):
            return shown
        if isinstance(shown, list) and shown and all(isinstance(one, Mapping) and "content" in one for one in shown):
            return "\n\n".join(str(one["content"]) for one in shown)
        return canonical_json(shown)


def _action_fields(options: OpenEnvOptions) -> tuple[str, Sequence[str]]:
    """Return the action's field for the model's text, if there is one, and all of its fields."""
    schema = _schema(options)
    fields = [name for name in schema.get("properties", {}) if name not in COMMON_FIELDS]
    if options.action_field and options.action_field not in fields:
        raise UsageError(f"action_field={options.action_field!r}: the server's action has the fields {', '.join(fields)}")
    required = schema.get("required", [])
    return options.action_field or (required[0] if len(required) == 1 else ""), fields


def _schema(options: OpenEnvOptions) -> Mapping[str, Any]:
    """Return the JSON schema of the server's actions."""
    try:
        with urllib.request.urlopen(f"{options.base_url.rstrip('/')}/schema", timeout=SCHEMA_S) as reply:
            schema = json.load(reply)["action"]
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise EnvironmentFailure("unavailable", f"no schema from {options.base_url}: {line}", retryable=True) from None
    return schema if isinstance(schema, Mapping) else {}
