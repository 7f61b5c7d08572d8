"""Numerical libraries in a grading worker use its share of the cores, unless the user has set a number."""

from __future__ import annotations

import os

import pytest

from verigym.envs import BaseEnvironment, Completion, Grader, Options, Prompt, Reference, Score
from verigym.sandbox.cores import THREAD_VARIABLES, usable_cores


class Nothing(Reference):
    """No reference."""


class Variables(BaseEnvironment[Nothing, Options]):
    name, version, reference_type = "variables", "1", Nothing

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        return Score.correct(answer=" ".join(os.environ.get(name, "-") for name in THREAD_VARIABLES))


def variables_of_a_worker(workers: int) -> str | None:
    environment = Variables()
    with Grader(environment, workers=workers, timeout_s=120, start_timeout_s=300) as grader:
        [score] = grader.grade([(environment.prompt("?"), "!")])
    return score.answer


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_its_share_of_the_cores() -> None:
    assert variables_of_a_worker(1) == " ".join([str(usable_cores())] * 3)
    assert variables_of_a_worker(2 * usable_cores()) == "1 1 1"
    assert not any(name in os.environ for name in THREAD_VARIABLES)


def test_the_user_s_number_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert variables_of_a_worker(2) == "3 - -"
