"""Verdicts: what is asked and how an answer is judged. No torch and no sympy at import."""

from verigym.envs.composition.operators import AllOf, AnyOf, Gate, WeightedSum
from verigym.envs.conformance import check_env
from verigym.envs.contract.base import BaseEnvironment, Environment, ExpectedVerdicts, Options, TaskSource
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Message, Prompt, Reference, Score, ScoreError, Status, StepScore
from verigym.envs.grading import Grader
from verigym.envs.registry import available, load, register

__all__ = [
    "AllOf",
    "AnyOf",
    "BaseEnvironment",
    "Completion",
    "Environment",
    "EnvironmentFailure",
    "ExpectedVerdicts",
    "Gate",
    "Grader",
    "Message",
    "Options",
    "Prompt",
    "Reference",
    "Score",
    "ScoreError",
    "Status",
    "StepScore",
    "TaskSource",
    "UsageError",
    "WeightedSum",
    "available",
    "check_env",
    "load",
    "register",
]
