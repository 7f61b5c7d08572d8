"""`number_guessing`: the rules, what a policy can reach by them, and that the number stays hidden."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from cases import cases

import verigym
from verigym import Completion, Message, Prompt, Turn, UsageError, run_episode
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.games.number_guessing import Guessing, GuessingReference, best_bound, blind_bound, read_guess

ENV = verigym.load("number_guessing")
TASK = ENV.prompt("Which number?", above=1000, below=1101, number=1037, guesses=4)
# sha256 of the keys of the first fifty training tasks: a change of it is a change of every run's data.
PINNED = "afcd69b6"


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = iter(texts)
    return lambda messages: next(left)


def play(*texts: str, env: Any = ENV, task: Prompt = TASK, turns: int = 8) -> Completion:
    return run_episode(env, task, scripted(*texts), max_turns=turns)


def test_higher_lower_and_found() -> None:
    episode = play(r"\boxed{1050}", "Let me see.\n1020", "Guess: 1037")
    assert [(turn.role, turn.text) for turn in episode.turns if turn.role == "user"] == [
        ("user", "Lower. 3 guesses left."),
        ("user", "Higher. 2 guesses left."),
    ]
    assert episode.finish_reason == "stop" and episode.outcome == {"found": True, "guesses": 3}
    score = ENV.score(TASK, episode)
    assert (score.reward, score.status, score.components) == (1.0, "correct", {"found": 1.0, "guesses": 3.0})
    assert all(turn.reward is None for turn in episode.turns)


def test_the_guesses_run_out() -> None:
    episode = play(r"\boxed{1}", "none", r"\boxed{1036}", r"\boxed{1038}")
    assert [turn.text for turn in episode.turns if turn.role == "user"] == [
        "Higher. 3 guesses left.",
        r"No guess was read: write one whole number in \boxed{...}. 2 guesses left.",
        "Higher. 1 guess left.",
    ]
    score = ENV.score(TASK, episode)
    assert (score.reward, score.status, score.reason) == (0.0, "incorrect", "not found with 4 guesses of 4")
    assert episode.finish_reason == "stop"
    assert ENV.score(TASK, play("I do not know.", "Nor now.", "No.", "No.")).status == "no_answer"
    cut = play(r"\boxed{1}", r"\boxed{2}", turns=2)
    assert (cut.finish_reason, ENV.score(TASK, cut).status) == ("turns", "truncated")


def test_turns_after_the_end_count_for_nothing() -> None:
    """Nobody plays them, but a file may hold them."""
    turns = tuple(Turn(role="assistant", text=text) for text in (*["no"] * 4, r"\boxed{1037}"))
    assert ENV.score(TASK, Completion(text=turns[-1].text, turns=turns)).reward == 0.0


def test_the_verdict_reads_nothing_but_the_assistants_turns() -> None:
    won, lost = play(r"\boxed{1037}"), play(*[r"\boxed{1}"] * 4)
    for outcome in ({"found": True, "guesses": 1}, {"found": False}, None):
        assert ENV.score(TASK, won.model_copy(update={"outcome": outcome})).reward == 1.0
        assert ENV.score(TASK, lost.model_copy(update={"outcome": outcome})).reward == 0.0
    read = (Turn(role="assistant", text="Tell me.", reward=1.0), Turn(role="user", text=r"\boxed{1037}"))
    assert ENV.score(TASK, Completion(text="Tell me.", turns=read, outcome={"found": True})).reward == 0.0


GUESSES = {
    r"\boxed{42}": 42,
    r"so \boxed{7}, no, \boxed{42}": 42,
    r"\boxed{ -3 }": -3,
    "<think>41</think>\\boxed{42}": 42,
    "I guess\n\n42\n  \n": 42,
    "guess: 42": 42,
    "GUESS:42": 42,
    "-5": -5,
    "": None,
    "forty-two": None,
    "It is 42": None,
    "42.": None,
    "42 or 43": None,
    r"\boxed{42 or 43}": None,
    r"\boxed{41} or \boxed{42}": None,
    r"-\boxed{42}": None,
    r"\boxed{42}\%": None,
    r"\boxed{4,2}": None,
    r"\boxed{}" + "\n42": None,
    r"\boxed{1e3}": None,
    r"\boxed{٤٢}": None,
    r"\boxed{" + "9" * 19 + "}": None,
    "9" * 5000: None,
    "<think>\\boxed{42}": None,
    "<think>\\boxed{42}</think>": None,
    "user: Higher.\n": None,
}


@cases("text, number", GUESSES.items())
def test_which_texts_are_guesses(text: str, number: int | None) -> None:
    assert read_guess(text) == number


def test_the_number_is_nowhere_in_what_the_model_reads() -> None:
    for numbers, index in itertools.product((2, 100, 5000), range(40)):
        env = verigym.load("number_guessing", numbers=numbers, guesses=20)
        task = env.prompt_at("train", 3, index)
        hidden = str(env.reference(task).number)
        read = [*task.messages, *(turn.message for turn in env.demonstrate(task).turns if turn.role == "user")]
        assert not any(hidden in message.content for message in read)
        assert hidden not in json.dumps(task.metadata)


def test_numbers_are_drawn_evenly_and_by_hash() -> None:
    places = Counter(
        (reference.number - reference.above - 1) // 10
        for index in range(2000)
        if (reference := ENV.reference(ENV.prompt_at("train", 0, index)))
    )
    # A tenth of 2,000 each, and a standard deviation of 13.4.
    assert sorted(places) == list(range(10)) and max(abs(count - 200) for count in places.values()) < 60
    keys = [ENV.prompt_at("train", 0, index).key for index in range(50)]
    assert sha256_hex(" ".join(keys))[:8] == PINNED


def test_splits_share_no_range() -> None:
    ranges = {
        split: {ENV.prompt_at(split, seed, index).text for seed in (0, 1) for index in range(200)}
        for split in ("train", "test")
    }
    assert not ranges["train"] & ranges["test"] and min(map(len, ranges.values())) > 300


def wins(policy: Callable[[Sequence[Message]], str], numbers: int, guesses: int) -> int:
    """In how many of the games with so many numbers a policy finds the number."""
    tasks = [
        ENV.prompt("Which?", above=1000, below=1001 + numbers, number=number, guesses=guesses)
        for number in range(1001, 1001 + numbers)
    ]
    return sum(ENV.score(task, run_episode(ENV, task, policy, max_turns=guesses)).reward == 1.0 for task in tasks)


@pytest.mark.parametrize(("numbers", "guesses"), [(12, 3), (30, 5), (5, 8)])
def test_who_ignores_the_replies_wins_no_more_than_its_share(numbers: int, guesses: int) -> None:
    """All orders of guessing that do not look at the replies win in as many games as they name numbers."""
    for seed in range(6):
        order = random.Random(seed).sample(range(1001, 1001 + numbers), numbers)
        order = order if seed else [1001] * numbers  # the same again and again: one game in all

        def policy(messages: Sequence[Message], order: list[int] = order) -> str:
            return rf"\boxed{{{order[sum(message.role == 'assistant' for message in messages) % numbers]}}}"

        share = wins(policy, numbers, guesses) / numbers
        assert share == pytest.approx(blind_bound(numbers, guesses) if seed else 1 / numbers)


@cache
def most_found(numbers: int, guesses: int) -> int:
    """The most games that any policy wins, by going through all its first guesses."""
    if not numbers or not guesses:
        return 0
    return max(1 + most_found(low, guesses - 1) + most_found(numbers - 1 - low, guesses - 1) for low in range(numbers))


def test_no_policy_wins_more_than_the_bound_and_binary_search_wins_that() -> None:
    for numbers, guesses in itertools.product(range(1, 40), range(1, 7)):
        assert most_found(numbers, guesses) / numbers == pytest.approx(best_bound(numbers, guesses))
    for numbers, guesses in ((31, 5), (32, 5), (20, 3)):
        task = ENV.prompt("Which?", above=1000, below=1001 + numbers, number=1001, guesses=guesses)
        assert wins(ENV.expert(task), numbers, guesses) / numbers == pytest.approx(best_bound(numbers, guesses))


def test_binary_search_always_wins_with_enough_guesses() -> None:
    enough = (100).bit_length()
    assert enough == 7 and best_bound(100, enough) == 1.0 and best_bound(128, enough) < 1.0
    env = verigym.load("number_guessing", guesses=enough)
    for index in range(100):
        task = env.prompt_at("test", 0, index)
        episode = env.demonstrate(task)
        assert env.score(task, episode).reward == 1.0
        assert all(turn.text.startswith("<think>between ") for turn in episode.turns if turn.role == "assistant")


def test_a_reward_that_falls_with_the_guesses() -> None:
    env = verigym.load("number_guessing", reward="falling")
    for tries in range(4):
        episode = play(*[r"\boxed{1}"] * tries, r"\boxed{1037}", env=env)
        score = env.score(TASK, episode)
        assert score.reward == 1 - tries / 4 and score.status == "correct"
    assert env.score(TASK, play(*[r"\boxed{1}"] * 4, env=env)).reward == 0.0
    assert env.grader != ENV.grader


def test_rewards_of_turns_add_up_to_one_however_the_number_is_found() -> None:
    env = verigym.load("number_guessing", turn_rewards=True)
    for texts in ([r"\boxed{1037}"], [r"\boxed{1050}", "what?", r"\boxed{2}", r"\boxed{1037}"]):
        episode = play(*texts, env=env)
        rewards = [turn.reward for turn in episode.turns if turn.role == "assistant"]
        assert sum(filter(None, rewards)) == pytest.approx(1.0) and all(reward is not None for reward in rewards)
    assert [turn.reward for turn in episode.turns if turn.role == "assistant"][1:3] == [0.0, 0.0]
    lost = play(*[r"\boxed{1036}", r"\boxed{1038}"] * 2, env=env)
    assert sum(turn.reward or 0 for turn in lost.turns) == pytest.approx(1 - 1 / (1 + 6.643856), abs=1e-6)
    one = Guessing(GuessingReference(above=1, below=3, number=2, guesses=2))
    assert one.play("2").reward == 1.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"number": 1000}, "number is 1000; expected more than 1000 and less than 1101"),
        ({"number": 1101}, "number is 1101"),
        ({"guesses": 0}, "field 'guesses'"),
        ({"gueses": 3}, "unknown field 'gueses'; did you mean 'guesses'"),
    ],
)
def test_mistakes_in_a_task_are_one_sentence(fields: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=f"reference of 'number_guessing': .*{words}"):
        ENV.prompt("Which?", **{"above": 1000, "below": 1101, "number": 1037, "guesses": 4, **fields})


def test_sessions_are_for_their_own_prompts() -> None:
    with pytest.raises(UsageError, match="made for 'math'"):
        ENV.open(verigym.load("math").prompt("What?", answer="1"), "0")


def test_a_reader_is_linear() -> None:
    for text in (r"\boxed{" * 50_000, "\n" * 200_000 + "x", "guess: " * 30_000, "-" * 200_000, "<think>" * 30_000):
        assert read_guess(text) is None


def test_the_question_says_what_is_asked() -> None:
    task = ENV.prompt_at("train", 0, 0)
    reference = ENV.reference(task)
    assert [int(number) for number in re.findall(r"[0-9]+", task.text)] == [reference.above, reference.below, reference.guesses]
    assert reference.below - reference.above - 1 == 100 and ENV.most_turns(task) == reference.guesses == 8
