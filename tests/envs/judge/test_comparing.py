"""Comparisons: both orders, groups, what a failure costs, the cache of replies."""

import json
from typing import Any

import pytest
from chat_server import longer, quote, say, serving, status

from verigym.envs import Completion, UsageError
from verigym.envs.format.environment import FormatEnvironment
from verigym.envs.judge.environment import JudgeEnvironment


def pairwise(url: str, **options: Any) -> JudgeEnvironment:
    settings = {"base_url": url, "model": "tiny", "mode": "pairwise", "backoff_s": 0.01, "tries": 2}
    return JudgeEnvironment(**{**settings, **options})


def always(place: str) -> Any:
    return say(json.dumps({"better": place}))


@pytest.mark.parametrize(
    ("text", "reward", "verdict"), [("longest", 1.0, "correct"), ("mid", 0.5, "partial"), ("s", 0.0, "incorrect")]
)
def test_against_a_baseline(text: str, reward: float, verdict: str) -> None:
    with serving(say(longer)) as server:
        env = pairwise(server.url)
        score = env.score(env.prompt("q", baseline="six"), text)
        assert (score.reward, score.status, score.components["orders_agree"]) == (reward, verdict, 1.0)
        asked = [(quote(request, "first"), quote(request, "second")) for request in server.seen]
    assert asked == [(text, "six"), ("six", text)]


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_judge_that_prefers_a_place_gives_a_tie(place: str) -> None:
    with serving(always(place)) as server:
        env = pairwise(server.url)
        score = env.score(env.prompt("q", baseline="b"), "a")
    assert (score.reward, score.status, score.components["orders_agree"]) == (0.5, "partial", 0.0)
    assert "disagree" in score.reason


def test_one_order_won_and_one_tied_is_a_tie() -> None:
    with serving(always("tie"), [always("first")]) as server:
        env = pairwise(server.url)
        score = env.score(env.prompt("q", baseline="b"), "a")
    assert (score.reward, score.components["orders_agree"]) == (0.5, 0.0)


def test_the_same_text_is_a_tie_unasked() -> None:
    with serving(status(500)) as server:
        env = pairwise(server.url)
        assert env.score(env.prompt("q", baseline="same"), " same ").reward == 0.5
        assert not server.seen


def test_a_group_meets_each_other() -> None:
    with serving(say(longer, (100, 10))) as server:
        env = pairwise(server.url)
        scores = env.score_group(env.prompt("q"), ["aa", "a", "<think>long thinking</think>aaaa", "bb"])
        assert len(server.seen) == 12
    assert [score.reward for score in scores] == [0.5, 0.0, 1.0, 0.5]
    assert [score.status for score in scores] == ["partial", "incorrect", "correct", "partial"]
    assert all(score.grader == env.grader for score in scores)
    assert scores[0].reason == "1.5 points against 3 others"
    assert sum(score.components["tokens_in"] or 0 for score in scores) == 1200


def test_who_gives_nothing_loses_unasked() -> None:
    with serving(say(longer)) as server:
        env = pairwise(server.url)
        cut = Completion(text="a long one that was cut", finish_reason="length")
        scores = env.score_group(env.prompt("q"), ["", "aa", cut, "a"])
        assert len(server.seen) == 2
    assert [score.reward for score in scores] == [0.0, 1.0, 0.0, pytest.approx(2 / 3)]
    assert [score.status for score in scores] == ["no_answer", "correct", "truncated", "partial"]


def test_a_group_of_nothing() -> None:
    env = pairwise("http://127.0.0.1:9/v1")
    assert [score.reward for score in env.score_group(env.prompt("q"), ["", " "])] == [0.0, 0.0]
    assert env.score_group(env.prompt("q"), []) == []
    with pytest.raises(UsageError, match="group of one"):
        env.score_group(env.prompt("q"), ["a"])
    assert env.score(env.prompt("q"), "a").error.kind == "gold_invalid"  # type: ignore[union-attr]


def test_a_failed_meeting_costs_its_two_their_score_and_nobody_else() -> None:
    def refuses_a_pair(handler: Any, request: Any) -> None:
        bad = {quote(request, "first"), quote(request, "second")} == {"a", "aaa"}
        (status(500) if bad else say(longer))(handler, request)

    with serving(refuses_a_pair) as server:
        env = pairwise(server.url)
        scores = env.score_group(env.prompt("q"), ["a", "aa", "aaa", "aaaa"])
    assert [score.reward for score in scores] == [None, pytest.approx(1 / 3), None, 1.0]
    assert scores[0].error is not None and scores[0].error.kind == "unavailable"


def test_a_group_against_the_baseline_and_environments_that_do_not_compare() -> None:
    with serving(say(longer)) as server:
        env = pairwise(server.url, opponents="baseline")
        assert [score.reward for score in env.score_group(env.prompt("q", baseline="bb"), ["a", "bbb"])] == [0.0, 1.0]
        assert len(server.seen) == 4
    plain = FormatEnvironment()
    texts = ["<think>a</think> \\boxed{1}", "no"]
    assert [score.reward for score in plain.score_group(plain.prompt("q"), texts)] == [1.0, 0.0]


def test_replies_are_kept_by_what_was_asked(tmp_path: Any) -> None:
    with serving(say(longer), [say("garbage")]) as server:
        env = pairwise(server.url, cache=str(tmp_path / "replies"), concurrency=1)
        first = env.score_group(env.prompt("q"), ["a", "bb", "ccc"])
        assert len(server.seen) == 7
        again = env.score_group(env.prompt("q"), ["a", "bb", "ccc"])
        assert len(server.seen) == 7
        assert [score.reward for score in first] == [score.reward for score in again] == [0.0, 0.5, 1.0]
        assert [dict(score.components) for score in first] == [dict(score.components) for score in again]
        env.score_group(env.prompt("q"), ["a", "bb", "dd"])  # of its three meetings, one is known
        assert len(server.seen) == 11
        env.score_group(env.prompt("another question"), ["a", "bb"])
        assert len(server.seen) == 13


def test_a_file_that_is_no_cache_gives_no_score(tmp_path: Any) -> None:
    (tmp_path / "notes").write_text("not a database, and long enough to be seen as none" * 20)
    with serving(say(longer)) as server:
        env = pairwise(server.url, cache=str(tmp_path / "notes"))
        found = env.score(env.prompt("q", baseline="b"), "a")
    assert found.error is not None and found.error.kind == "unavailable" and "not a usable verdict cache" in found.reason
