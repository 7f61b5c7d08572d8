"""A program judged by one test."""

from __future__ import annotations

from verigym.envs import Score
from verigym.envs.code.environment import CodeEnvironment

ENV = CodeEnvironment(extract="all")


def scored(program: str, test: str, kind: str = "assert") -> Score:
    """The verdict of the `code` environment on a program, by the text of a test."""
    return ENV.score(ENV.prompt("Write it.", tests=[{"type": kind, "code": test}]), program)
