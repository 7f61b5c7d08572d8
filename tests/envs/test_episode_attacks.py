"""Attacks on episodes, as data: each ends at the floor or with the verdict of honest play, and harms nobody beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attacked_envs import MAKERS, Attacked, Playing, heard_in
from needs import lack, needs

from verigym import Completion
from verigym.datasets_cfg.fields import FieldProblem
from verigym.envs.sessions import Sessions
from verigym.grade.reading.completions import completion
from verigym.sandbox import SandboxFailure, open_sandbox

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "cases/episodes.jsonl").read_text(encoding="ascii").splitlines()
]
NEEDED = {"mcp": needs("mcp"), "retrieval": needs("bm25s")}
SLOW = ("python", "python in a hurry", "feedback in a hurry", "mcp")
SANDBOXED = ("python", "python in a hurry", "feedback", "feedback in a hurry")


def groups() -> Iterator[Any]:
    for name in MAKERS:
        marks = [NEEDED[name]] if name in NEEDED else []
        yield pytest.param(name, 0, marks=[*marks, pytest.mark.slow] if name in SLOW else marks, id=name)
        yield pytest.param(name, 1, marks=[*marks, pytest.mark.slow], id=f"{name}, in a worker")


def test_every_row_is_played() -> None:
    assert {row["env"] for row in ROWS} == set(MAKERS)
    assert len(ROWS) == len({row["name"] for row in ROWS}) >= 60


@pytest.mark.parametrize(("name", "workers"), list(groups()))
def test_attacks(name: str, workers: int) -> None:
    if name in SANDBOXED:
        try:
            open_sandbox("local").check()
        except SandboxFailure as error:
            lack("sandbox", error)
    attacked = MAKERS[name]()
    rows = [row for row in ROWS if row["env"] == name]
    failed: list[str] = []
    with Sessions({attacked.env.name: attacked.env}, workers=workers, timeout_s=300) as sessions:
        neighbour = Playing(sessions, attacked, "beside all of them")
        neighbour.play(attacked.honest[:1])
        for row in rows:
            try:
                problems = list(wrong(sessions, attacked, row))
            except Exception as error:  # nothing that a model or a file holds may raise where it is played or judged
                problems = [f"raised {type(error).__name__}: {error}"]
            failed += [f"{row['name']}: {problem} ({row['why']})" for problem in problems]
        neighbour.play(attacked.honest[1:])
        after = Playing(sessions, attacked, "after all of them")
        after.play(attacked.honest)
        for who, playing in (("the episode beside", neighbour), ("the episode after", after)):
            failed += [f"{who}: {problem}" for problem in dishonoured(attacked, playing.end())]
        stats = sessions.stats
    assert not failed, "\n".join(failed)
    limits = sum(row["expected"].get("finish") == "limit" for row in rows)
    assert (stats.deaths, stats.failures, stats.limits, stats.replays) == (0, 0, limits, 0)


def wrong(sessions: Sessions, attacked: Attacked, row: dict[str, Any]) -> Iterator[str]:
    """Yield in what a row does not come out as expected."""
    expected = row["expected"]
    try:
        episode = completion(row["saved"], "completion") if "saved" in row else played(sessions, attacked, row)
    except FieldProblem as problem:
        if expected.get("bad", "no refusal") not in str(problem):
            yield f"was refused: {problem}"
        return
    if "bad" in expected:
        yield "was not refused"
        return
    score = attacked.env.score(attacked.task, episode)
    if (score.status, score.reward) != (expected["status"], expected["reward"]):
        yield f"got {score.status} with the reward {score.reward}: {score.reason}"
    again = Completion(**json.loads(json.dumps(episode.model_dump(mode="json"))))
    if again.digest != episode.digest or attacked.env.score(attacked.task, again).reward != score.reward:
        yield "a saved copy has another verdict"
    if "saved" not in row:
        yield from unlike(row, episode)


def played(sessions: Sessions, attacked: Attacked, row: dict[str, Any]) -> Completion:
    """Play a row, with the other episodes that it wants, which stay open beside it."""
    others = [Playing(sessions, attacked, f"{row['name']}/{number}") for number in range(len(row.get("before", ())))]
    for other, turns in zip(others, row.get("before", ()), strict=True):
        other.play(turns)
    playing = Playing(sessions, attacked, row["name"])
    playing.play(row["turns"])
    episode = playing.end()
    for other in others:
        other.end()
    return episode


def unlike(row: dict[str, Any], episode: Completion) -> Iterator[str]:
    """Yield in what an episode is not as its row says."""
    heard = heard_in(episode)
    whole = "\n".join(heard)
    if row["expected"].get("finish", episode.finish_reason) != episode.finish_reason:
        yield f"ended by {episode.finish_reason}"
    for words in row.get("says", ()):
        if words not in whole:
            yield f"the model did not read {words!r}, but {whole[:300]!r}"
    for words in row.get("hides", ()):
        if words in whole:
            yield f"the model read {words!r}"
    if len(heard) > row.get("most_replies", len(heard)):
        yield f"there were {len(heard)} replies"
    if any("\ud800" <= letter <= "\udfff" for letter in whole):
        yield "a reply has no UTF-8 form"
    total = sum(turn.reward or 0.0 for turn in episode.turns)
    if total > row.get("rewards", 0.0) and row["expected"]["reward"] == 0.0:
        yield f"the rewards of the turns add up to {total}"


def dishonoured(attacked: Attacked, episode: Completion) -> Iterator[str]:
    """Yield why an episode of honest play did not get what it deserves."""
    score = attacked.env.score(attacked.task, episode)
    if score.reward != attacked.env.reward_range[1] or episode.failure is not None:
        yield f"got {score.status} with the reward {score.reward}: {score.reason}"
    if attacked.said not in "\n".join(heard_in(episode)) + "\n":
        yield f"read {heard_in(episode)}"
