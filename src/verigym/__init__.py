r"""verigym: verifiers and reward environments for language models, with a built-in GRPO trainer.

>>> import verigym
>>> env = verigym.load("math")
>>> env.score(env.prompt("What is 2+2?", answer="4"), r"It is \boxed{4}.").reward
1.0
"""

from verigym.envs import (
    AllOf,
    AnyOf,
    BaseEnvironment,
    Completion,
    Environment,
    EnvironmentFailure,
    ExpectedVerdicts,
    Gate,
    Grader,
    Message,
    Options,
    Prompt,
    Reference,
    Score,
    ScoreError,
    Status,
    StepScore,
    UsageError,
    WeightedSum,
    available,
    check_env,
    load,
    register,
)

__version__ = "0.1.0"

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
    "UsageError",
    "WeightedSum",
    "available",
    "check_env",
    "load",
    "register",
]
