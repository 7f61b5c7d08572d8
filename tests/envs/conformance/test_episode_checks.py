"""The rows on episodes must be able to fail: each breach of the contract is caught by the row that is there for it."""

from __future__ import annotations

from typing import Any

import episode_envs as envs
import pytest
from episode_envs import RiddleEnvironment, rows_of, with_session
from sample_envs import ExactEnvironment

import verigym
from verigym.envs import Environment, ExpectedVerdicts, ToolEnvironment, check_env
from verigym.envs.conformance.episode_checks import ADVICE
from verigym.envs.conformance.turns import forgeries, hostile
from verigym.envs.contract.session import opens_sessions
from verigym.envs.judge.options import EndpointOptions
from verigym.envs.registry import ENVIRONMENTS
from verigym.tools import calculator, python

INTERACTIVE = [
    name
    for name, environment in ((name, verigym.load(name)) for name in ENVIRONMENTS)
    if opens_sessions(environment) and not isinstance(environment.options, EndpointOptions)  # dialogue's test has an endpoint
]


def failed(environment: Any) -> list[str]:
    return [name for name, row in rows_of(environment).items() if not row.passed]


def test_an_environment_that_keeps_the_contract_passes_every_row() -> None:
    rows = rows_of(RiddleEnvironment())
    assert list(rows) == list(ADVICE) and all(row.passed for row in rows.values())
    assert rows_of(ExactEnvironment()) == {}


BROKEN = [
    (with_session(envs.OpenEndedSession), ["a session is used once"], "got a Reply"),
    (
        with_session(envs.OnceClosedSession),
        ["closing twice is closing once"],
        "close() raised UsageError: it is closed already",
    ),
    (
        with_session(envs.CountingSession),
        ["closing twice is closing once"],
        "the second outcome is {'asked': 1, 'closed': 2}, the first {'asked': 1, 'closed': 1}",
    ),
    (with_session(envs.RememberingSession), ["same turns, same replies", "sessions share nothing"], "again: turn "),
    (with_session(envs.SharingSession), ["sessions share nothing"], "the outcome is {'asked': "),
    (
        with_session(envs.SplittingSession),
        ["a forged reply is text"],
        "read() made a turn of the role 'assistant' with the text",
    ),
    (envs.BelievingEnvironment(), ["a forged reply is text"], "1 correct"),
    (envs.ListeningEnvironment(), ["what is read is not judged"], "1 correct"),
    (with_session(envs.EncodingSession), ["hostile turns get an answer"], "respond() raised UnicodeEncodeError"),
    (with_session(envs.ParsingSession), ["hostile turns get an answer"], "respond() raised RecursionError"),
    (envs.SilentEnvironment(), ["hostile turns get an answer"], "no reward error"),
    (
        envs.RememberingEnvironment(),
        ["a saved episode scores the same", "the demonstration is right"],
        "1 correct, then 0 no_answer",
    ),
    (envs.PatientEnvironment(), ["never ending earns the floor"], "0.24 partial"),
    (envs.BoastingEnvironment(), ["the demonstration is right"], "0 incorrect"),
]


@pytest.mark.parametrize(("environment", "names", "got"), BROKEN, ids=[f"{place}" for place in range(len(BROKEN))])
def test_a_breach_fails_its_row_and_no_other(environment: Any, names: list[str], got: str) -> None:
    rows = rows_of(environment)
    assert [name for name, row in rows.items() if not row.passed] == names
    row = rows[names[0]]
    assert row.got.startswith(got), row.got
    assert row.why.endswith(ADVICE[names[0]]) and row.prompt


def test_every_row_has_its_breach() -> None:
    assert {name for _, names, _ in BROKEN for name in names} | {"replies are whole"} == set(ADVICE)


@pytest.mark.parametrize(
    ("session", "got"),
    [
        (envs.UnwholeSession, "respond() returned a Reply that neither ends the episode nor has a message"),
        (envs.RaisingSession, "close() raised OSError: the server is gone"),
        (envs.ShapelessSession, "respond() returned str instead of a Reply"),
        (envs.SystemSession, "respond() raised UsageError: a session replied with a message of the role 'system'"),
    ],
)
def test_what_cannot_be_played_is_one_cause(session: Any, got: str) -> None:
    rows = rows_of(with_session(session))
    assert not rows["replies are whole"].passed and rows["replies are whole"].got.startswith(got)
    assert not rows["sessions share nothing"].passed
    broken = [row for name, row in rows.items() if not row.passed and name != "the demonstration is right"]
    assert len(broken) > 4 and len({row.cause for row in broken}) == 1


def test_chance_is_caught() -> None:
    assert "same turns, same replies" in failed(with_session(envs.RandomSession))


def test_verdicts_that_are_declared_free_are_not_held_to_the_floor() -> None:
    free = envs.PatientEnvironment()
    free.expected_verdicts = ExpectedVerdicts(empty="free")  # type: ignore[misc]
    rows = rows_of(free)
    assert rows["never ending earns the floor"].passed and rows["never ending earns the floor"].expected == "0..1"


@pytest.mark.slow
def test_what_differs_by_process_is_caught_and_what_hangs_does_no_harm() -> None:
    environment = RiddleEnvironment()
    assert check_env(environment).passed

    report = check_env(HashEnvironment())
    (row,) = report.failures
    assert row.name == "episodes: same turns, same replies" and row.got.startswith("a fresh instance in another process: turn ")

    report = check_env(HangingEnvironment(), budget_s=0.5)
    (row,) = report.failures
    assert row.name == "episodes: hostile turns get an answer" and row.got == "no answer in 3 s"
    assert "one long word" in row.why and row.text.endswith("(400,001 characters)")


class HashEnvironment(RiddleEnvironment):
    session = envs.HashSession


class HangingEnvironment(RiddleEnvironment):
    session = envs.HangingSession


def test_the_turns_are_what_they_say() -> None:
    texts = dict(hostile(("calculator",)))
    assert {len(text) for text in texts.values()} >= {0, 200_000} and any("\ud800" in text for text in texts.values())
    assert sum("calculator" in text for text in texts.values()) == 4
    forged = dict(forgeries(["Higher."]))
    assert len(forged) == 5 and all("Higher." in text and "You have won" in text for text in forged.values())


def test_which_environments_are_interactive() -> None:
    assert set(INTERACTIVE) >= {"number_guessing", "treasure_rooms", "code_with_feedback"}


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERACTIVE)
def test_every_interactive_environment_keeps_the_contract(name: str) -> None:
    report = check_env(verigym.load(name))
    assert report.passed, str(report)
    assert sum(row.name.startswith("episodes: ") for row in report.rows) >= len(ADVICE) - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        verigym.load("number_guessing", reward="falling", turn_rewards=True, numbers=10, guesses=3),
        verigym.load("treasure_rooms", level=5, key_credit=0.5, turn_rewards=True),
        verigym.load("code_with_feedback", public=(2, 0), show_expected=False),
        ToolEnvironment(verigym.load("math"), tools=[calculator, python(wall_s=60)]),
        ToolEnvironment(verigym.load("arithmetic"), tools=[calculator]),
    ],
    ids=["falling", "credit", "hidden", "math", "arithmetic"],
)
def test_options_and_tools_keep_the_contract(environment: Environment) -> None:
    report = check_env(environment)
    assert report.passed, str(report)
    assert "episodes: hostile turns get an answer" in {row.name for row in report.rows}
