"""Verdicts: what is asked and how an answer is judged. No torch and no sympy at import."""

from verigym.envs.base import BaseEnvironment, Environment, Options, Panel, TaskSource
from verigym.envs.errors import EnvironmentFailure, UsageError
from verigym.envs.registry import available, load, register
from verigym.envs.schema import Completion, Message, Prompt, Reference, Score, ScoreError, Status, StepScore

__all__ = [
    "BaseEnvironment",
    "Completion",
    "Environment",
    "EnvironmentFailure",
    "Message",
    "Options",
    "Panel",
    "Prompt",
    "Reference",
    "Score",
    "ScoreError",
    "Status",
    "StepScore",
    "TaskSource",
    "UsageError",
    "available",
    "load",
    "register",
]
