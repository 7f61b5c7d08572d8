"""Environments, which make tasks and judge answers. Importing this package imports neither torch nor sympy."""

from verigym.envs.composition.operators import AllOf, AnyOf, Gate, WeightedSum
from verigym.envs.conformance import check_env
from verigym.envs.contract.base import BaseEnvironment, Environment, ExpectedVerdicts, Options, TaskSource
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.generated import GeneratedTasks, Made
from verigym.envs.contract.schema import (
    Completion,
    Message,
    Prompt,
    Reference,
    Score,
    ScoreError,
    Status,
    StepScore,
    ToolCall,
    Turn,
)
from verigym.envs.contract.session import Interactive, Reply, Session, ToolSpec
from verigym.envs.grading import Grader, reward_function
from verigym.envs.registry import available, load, register
from verigym.envs.tools.environment import ToolEnvironment
from verigym.envs.tools.episode import run_episode
from verigym.envs.tools.function import tool

__all__ = [
    "AllOf",
    "AnyOf",
    "BaseEnvironment",
    "Completion",
    "Environment",
    "EnvironmentFailure",
    "ExpectedVerdicts",
    "Gate",
    "GeneratedTasks",
    "Grader",
    "Interactive",
    "Made",
    "Message",
    "Options",
    "Prompt",
    "Reference",
    "Reply",
    "Score",
    "ScoreError",
    "Session",
    "Status",
    "StepScore",
    "TaskSource",
    "ToolCall",
    "ToolEnvironment",
    "ToolSpec",
    "Turn",
    "UsageError",
    "WeightedSum",
    "available",
    "check_env",
    "load",
    "register",
    "reward_function",
    "run_episode",
    "tool",
]
