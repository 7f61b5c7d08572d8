"""Every instruction on hand-written responses, and what holds for all of them."""

from collections import Counter, defaultdict

import pytest
from cpu_time import within
from needs import needs

from verigym.envs import Completion, Status
from verigym.envs.constraints.environment import ConstraintsEnvironment
from verigym.envs.constraints.table import known


def asks(env, *pairs, text="Do as you are asked."):
    return env.prompt(text, instruction_id_list=[id for id, _ in pairs], kwargs=[given for _, given in pairs])


@pytest.mark.usefixtures("extra")
def test_cases(rows):
    wrong = []
    for row in rows:
        env = ConstraintsEnvironment(mode=row.get("mode", "strict"), strict_echo=False)
        score = env.score(asks(env, (row["id"], row["kwargs"])), row["text"])
        if score.reward != float(row["follows"]) or score.components != {row["id"]: float(row["follows"])}:
            wrong.append((row["id"], row["why"], row["text"], score))
    assert not wrong


def test_every_id_has_six_cases_at_least_three_each_way(rows):
    counts = defaultdict(Counter)
    for row in rows:
        counts[row["id"]][row["follows"]] += 1
    for id, constraint in known().items():
        if not constraint.missing:
            assert min(counts[id][True], counts[id][False]) >= 3, id


def test_no_case_stands_twice(rows):
    seen = Counter((row["id"], str(row["kwargs"]), row["text"], row.get("mode")) for row in rows)
    assert [row for row, times in seen.items() if times > 1] == []


@pytest.mark.usefixtures("extra")
@pytest.mark.parametrize("mode", ["strict", "loose"])
@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t \r\n", "\x00\x00", "\u200b\u2060"], ids=ascii)
def test_nothing_to_see_never_passes(rows, mode, text):
    env = ConstraintsEnvironment(mode=mode)
    given = {row["id"]: row["kwargs"] for row in rows}
    assert set(given) == {id for id, constraint in known().items() if not constraint.missing}
    for id, kwargs in given.items():
        score = env.score(asks(env, (id, kwargs)), text)
        assert (score.status, score.reward) == (Status.NO_ANSWER, 0.0), id


def test_repeated_ids_are_all_checked():
    env = ConstraintsEnvironment()
    prompt = asks(env, ("keywords:existence", {"keywords": ["tea"]}), ("keywords:existence", {"keywords": ["milk"]}))
    both, first, second = (env.score(prompt, text) for text in ("tea, milk", "tea", "milk"))
    assert both.components == {"keywords:existence": 1.0, "keywords:existence#2": 1.0} and both.reward == 1.0
    assert first.components == {"keywords:existence": 1.0, "keywords:existence#2": 0.0} and first.reward == 0.0
    assert second.components == {"keywords:existence": 0.0, "keywords:existence#2": 1.0} and second.reward == 0.0
    assert first.reason.startswith("not followed: keywords:existence#2 (")


def test_all_or_a_share():
    pairs = ("punctuation:no_comma", {}), ("keywords:existence", {"keywords": ["tea"]}), ("detectable_format:title", {})
    for reward, expected in (("all", (0.0, "incorrect")), ("share", (2 / 3, "partial"))):
        env = ConstraintsEnvironment(reward=reward)
        score = env.score(asks(env, *pairs), "tea and milk")
        assert (score.reward, score.status.value) == expected
        assert env.score(asks(env, *pairs), "<<tea>>").status is Status.CORRECT
        assert env.score(asks(env, *pairs), "milk, sugar").status is Status.INCORRECT


def test_a_response_that_was_cut_off():
    env = ConstraintsEnvironment()
    prompt = asks(env, ("startend:quotation", {}))
    assert env.score(prompt, Completion(text='"It was', finish_reason="length")).status is Status.TRUNCATED
    assert env.score(prompt, Completion(text='"It was"', finish_reason="length")).status is Status.CORRECT


@pytest.mark.parametrize("text", ["- a\n" * 250_000, "A. B! C? " * 110_000, "#### 1\n" * 140_000], ids=lambda text: text[:7])
def test_a_huge_response_is_at_its_limit_unread(text):
    env = ConstraintsEnvironment()
    prompt = asks(env, ("change_case:capital_word_frequency", {"capital_frequency": 1, "capital_relation": "at least"}))
    for _ in within(0.5):
        score = env.score(prompt, text)
    assert score.status is Status.LIMIT and "max_chars" in score.reason
    assert env.score(prompt, text[:200_000] + "A").status is Status.LIMIT
    assert env.score(prompt, "<think>" + text + "</think>A").status is Status.CORRECT


def test_thinking_is_left_out():
    env, whole = ConstraintsEnvironment(), ConstraintsEnvironment(skip_thinking=False)
    prompt = asks(env, ("startend:quotation", {}))
    assert env.score(prompt, '<think>Hm, quotes.</think>\n\n"Yes."').status is Status.CORRECT
    assert whole.score(prompt, '<think>Hm, quotes.</think>\n\n"Yes."').status is Status.INCORRECT
    assert env.score(prompt, '<think>"Yes."').status is Status.NO_ANSWER
    assert env.score(prompt, 'Yes.</think>"Yes."').status is Status.CORRECT


def test_loose_mode_reads_a_text_in_eight_ways():
    strict, loose = ConstraintsEnvironment(), ConstraintsEnvironment(mode="loose")
    pairs = ("startend:quotation", {}), ("punctuation:no_comma", {})
    # each instruction takes the reading that suits it
    text = 'Sure, here:\n*"Rain*, snow"'
    assert strict.score(asks(strict, *pairs), text).reward == 0.0
    score = loose.score(asks(loose, *pairs), text)
    assert score.components == {"startend:quotation": 1.0, "punctuation:no_comma": 0.0}


@needs("emoji")
@pytest.mark.parametrize("text", ["", "\n\n"])
def test_where_there_is_no_sentence_none_ends_with_an_emoji(text: str) -> None:
    assert not known()["format:emoji"].check(text)
