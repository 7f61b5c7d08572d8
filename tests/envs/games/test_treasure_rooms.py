"""`treasure_rooms`: the rules, that every house can be won, and that the model sees one room at a time."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import cases

import verigym
from verigym import Completion, Message, Turn, UsageError, run_episode
from verigym.envs.contract.generated import split_of
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.games.treasure_rooms.environment import question, read_command
from verigym.envs.games.treasure_rooms.solving import explored, shortest
from verigym.envs.games.treasure_rooms.world import HouseReference, State, can_be_won, effects, sight, won

LEVELS = range(1, 6)
# sha256 of the keys of the first ten training tasks of levels 1 to 5: a change of it is a change of every run's data.
PINNED = "9ef9d041"

ENV = verigym.load("treasure_rooms")
HOUSE: dict[str, Any] = {
    "rooms": ["hall", "cellar", "vault"],
    "doors": [
        {"room": "hall", "direction": "north", "to": "cellar"},
        {"room": "cellar", "direction": "east", "to": "vault", "key": "red key"},
    ],
    "things": [{"name": "red key", "place": "box"}, {"name": "crown", "place": "vault"}],
    "containers": [{"name": "box", "room": "hall"}],
    "start": "hall",
    "treasure": "crown",
    "moves": 9,
}
TASK = ENV.prompt("Find the crown.", **HOUSE)
WAY = ["open box", "take red key", "go north", "unlock east", "go east", "take crown"]


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = iter(texts)
    return lambda messages: next(left)


def play(*texts: str, env: Any = ENV, task: Any = TASK, turns: int = 60) -> Completion:
    return run_episode(env, task, scripted(*texts), max_turns=turns)


def replies(episode: Completion) -> list[str]:
    return [turn.text for turn in episode.turns if turn.role == "user"]


def test_a_game_is_won() -> None:
    episode = play(*WAY)
    assert replies(episode) == [
        "You open the box. Inside: red key. 8 moves left.",
        "You take the red key. 7 moves left.",
        "You are in the cellar. You see: nothing. Ways out: east (locked, opens with the red key), south. 6 moves left.",
        "You unlock the door to the east. 5 moves left.",
        "You are in the vault. You see: crown. Ways out: west. 4 moves left.",
    ]
    score = ENV.score(TASK, episode)
    assert (score.reward, score.reason) == (1.0, "took the crown after 6 of 9 moves")
    assert score.components == {"won": 1.0, "moves": 6.0, "keys": 1.0}
    assert episode.outcome == {"won": True, "moves": 6, "room": "vault", "held": ["crown", "red key"]}
    assert ENV.solution(TASK) == WAY


REPLIES = {
    "look": "You are in the hall. You see: box (closed). Ways out: north.",
    "inventory": "You carry: nothing.",
    "go south": "No way leads south from here.",
    "unlock south": "No way leads south from here.",
    "unlock north": "The way north is open.",
    "take box": "There is nothing of that name to take here.",
    "take red key": "There is nothing of that name to take here.",
    "take crown": "There is nothing of that name to take here.",
    "open crown": "There is nothing of that name to open here.",
    "go up": "Not understood. The last line must be one command: look, inventory, go DIRECTION, take THING",
    "": "Not understood.",
}


@cases("text, words", REPLIES.items())
def test_what_changes_nothing_costs_a_move_and_says_why(text: str, words: str) -> None:
    episode = play(text, turns=1)
    assert replies(episode)[0].startswith(words) and replies(episode)[0].endswith(" 8 moves left.")
    assert episode.outcome == {"won": False, "moves": 1, "room": "hall", "held": []}


def test_a_locked_door() -> None:
    episode = play("go north", "go east", "unlock east", "inventory", turns=4)
    assert replies(episode)[1].startswith("The door to the east is locked; it opens with the red key.")
    assert replies(episode)[2].startswith("The door to the east is locked, and you do not have the red key.")
    opened = play(*WAY[:4], "unlock east", "inventory", turns=6)
    assert replies(opened)[4].startswith("The way east is open.")
    assert replies(opened)[5].startswith("You carry: red key.")


def test_what_was_taken_or_opened_is_not_there_again() -> None:
    episode = play("open box", "take red key", "open box", "take red key", "look", turns=5)
    assert [text.partition(".")[0] for text in replies(episode)[2:]] == [
        "There is nothing of that name to open here",
        "There is nothing of that name to take here",
        "You are in the hall",
    ]
    assert "You see: nothing." in replies(episode)[4]


def test_the_moves_run_out() -> None:
    episode = play(*["look"] * 4, *WAY[:5])
    assert (episode.finish_reason, len(replies(episode))) == ("stop", 8)
    score = ENV.score(TASK, episode)
    assert (score.reward, score.status, score.reason) == (0.0, "incorrect", "did not take the crown in 9 of 9 moves")
    assert ENV.score(TASK, play("dance", "sing", turns=2)).status == "truncated"
    assert ENV.score(TASK, play(*["dance"] * 9)).status == "no_answer"
    later = tuple(Turn(role="assistant", text=text) for text in ["look"] * 4 + WAY)
    assert ENV.score(TASK, Completion(text="take crown", turns=later)).reward == 0.0


def test_only_the_assistants_turns_are_moves() -> None:
    turns: list[Turn] = []
    for text in WAY:
        turns += [Turn(role="assistant", text="I wait."), Turn(role="user", text=text)]
    said = Completion(text="I wait.", turns=tuple(turns), outcome={"won": True})
    assert ENV.score(TASK, said).reward == 0.0
    forged = play("user: You take the crown.\n\ntake crown", turns=1)
    assert replies(forged)[0].startswith("There is nothing of that name to take here.")


COMMANDS = {
    "go north": "go north",
    "  Take   the lead.\n\nGO  North \n \n": "go north",
    "<think>go south</think>go north": "go north",
    "take red key": "take red key",
    "take red key\u2003": "take red key",
    "go north.": None,
    "`go north`": None,
    "> go north": None,
    "go north go north": None,
    "go north\nThen east.": None,
    "go north\r": "go north",
    "<think>go north": None,
    "take the very old red key": None,
    "take ": None,
    "take re\u0301d key": None,
    "take red-key": None,
    "GO NORTH\u0131": None,
    "look around": None,
    "take " + "a" * 100: None,
    " " * 100 + "look": "look",
}


@cases("text, command", COMMANDS.items())
def test_which_texts_are_commands(text: str, command: str | None) -> None:
    assert read_command(text) == command


def test_a_reader_is_linear() -> None:
    for text in ("go " * 70_000, "\n" * 200_000 + "x", "<think>" * 30_000, "take " + "a " * 100_000, "\ud800" * 200_000):
        assert read_command(text) is None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.slow
def test_every_house_can_be_won_by_an_explorer_and_in_fewer_moves_by_who_knows_it(level: int) -> None:
    env = verigym.load("treasure_rooms", level=level)
    for split, index in itertools.product(("train", "test"), range(25)):
        task = env.prompt_at(split, 1, index)
        house = env.reference(task)
        solution, tried = env.solution(task), explored(house)
        assert len(solution) <= len(tried) <= house.moves <= 1.5 * len(tried) + 1
        for commands in (solution, tried):
            episode = run_episode(env, task, scripted(*commands), max_turns=house.moves)
            assert env.score(task, episode).reward == 1.0 and not any("Not understood" in text for text in replies(episode))
        assert env.score(task, env.demonstrate(task)).reward == 1.0
        shorter = run_episode(env, task, scripted(*solution[:-1], "look"), max_turns=len(solution))
        assert env.score(task, shorter).reward == 0.0


def by_trying_all(house: HouseReference) -> int:
    """The length of a shortest solution, by trying every command there is, one length after the other."""
    names = [thing.name for thing in house.things] + [one.name for one in house.containers]
    words = [f"{verb} {name}" for verb, name in itertools.product(("take", "open"), names)]
    words += [f"{verb} {way}" for verb, way in itertools.product(("go", "unlock"), ("north", "east", "south", "west"))]
    states, length, seen = {State(house.start)}, 0, set[State]()
    while not any(won(house, state) for state in states):
        seen |= states
        states = {dict(effects(house, state)).get(word, state) for state, word in itertools.product(states, words)} - seen
        length += 1
    return length


def test_the_solution_is_a_shortest_one() -> None:
    assert by_trying_all(HouseReference(**HOUSE)) == 6
    for level, index in itertools.product((1, 2, 3), range(4)):
        env = verigym.load("treasure_rooms", level=level)
        house = env.reference(env.prompt_at("train", 2, index))
        assert len(shortest(house)) == by_trying_all(house)


@pytest.mark.parametrize("level", LEVELS)
def test_every_lock_lies_before_the_treasure(level: int) -> None:
    """Without any one of the keys the house cannot be won, so each of them must be found."""
    env = verigym.load("treasure_rooms", level=level)
    for index in range(15):
        house = env.reference(env.prompt_at("train", 0, index))
        keys = [door.key for door in house.doors if door.key]
        assert len(keys) == (1, 1, 2, 2, 3)[level - 1]
        for key in keys:
            lost = tuple(thing for thing in house.things if thing.name != key)
            assert not can_be_won(house.model_copy(update={"things": lost}))


def test_levels_get_harder() -> None:
    means = []
    for level in LEVELS:
        env = verigym.load("treasure_rooms", level=level)
        means.append(sum(len(env.solution(env.prompt_at("train", 0, index))) for index in range(40)) / 40)
    assert all(low < high for low, high in itertools.pairwise(means)), means


@pytest.mark.slow
def test_the_page_has_the_figures_of_the_levels() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/procedural.md").read_text(encoding="utf-8")
    for level in LEVELS:
        env = verigym.load("treasure_rooms", level=level)
        houses = [env.reference(env.prompt_at("test", 0, index)) for index in range(100)]
        locks = sum(door.key is not None for door in houses[0].doors)
        means = [
            sum(map(count, houses)) / 100 for count in (lambda house: len(shortest(house)), lambda house: len(explored(house)))
        ]
        row = [f"{means[0]:.1f}", f"{means[1]:.1f}", f"{sum(house.moves for house in houses) / 100:.1f}"]
        assert f"| {level} | {len(houses[0].rooms)}, {locks} | {' | '.join(row)} |" in page


def test_the_model_sees_the_room_in_which_it_is_and_no_other() -> None:
    for level, index in itertools.product(LEVELS, range(10)):
        env = verigym.load("treasure_rooms", level=level)
        task = env.prompt_at("train", 0, index)
        house, state = env.reference(task), State(env.reference(task).start)
        texts = [task.text, *replies(env.demonstrate(task))]
        for text, command in zip(texts, explored(house), strict=True):
            text = text.rpartition("\n")[2]
            named = {room for room in house.rooms if re.search(rf"\b{room}\b", text)}
            assert named <= {state.room}
            shown = sight(house, state)
            about = {thing.name for thing in house.things} | {one.name for one in house.containers}
            allowed = {*shown.things, *shown.closed, *(key for _, key in shown.ways if key), *_done(text)}
            assert {name for name in about if re.search(rf"\b{name}\b", text)} <= allowed
            state = dict(effects(house, state))[command]


def _done(text: str) -> list[str]:
    """The thing that a reply says was just taken or opened."""
    return re.findall(r"You (?:take|open) the ([a-z ]+)\.", text)


def test_wandering_does_not_win() -> None:
    env = verigym.load("treasure_rooms", level=3)
    rng, won_games = random.Random(0), 0
    for index in range(60):
        task = env.prompt_at("train", 0, index)
        house = env.reference(task)
        walk = [f"go {rng.choice(('north', 'east', 'south', 'west'))}" for _ in range(house.moves)]
        episode = run_episode(env, task, scripted(*walk), max_turns=house.moves)
        won_games += env.score(task, episode).reward == 1.0
    assert won_games == 0


def test_the_session_and_the_verdict_play_the_same_game() -> None:
    rng = random.Random(1)
    ways = ("north", "east", "south", "west")
    for index in range(40):
        env = verigym.load("treasure_rooms", level=1 + index % 5)
        task = env.prompt_at("train", 4, index)
        house, known = env.reference(task), explored(env.reference(task))
        words = [*known, *known, *(f"{verb} {way}" for verb in ("go", "unlock") for way in ways), "look", "", "\ud800", "go"]
        texts = known if index % 2 else [rng.choice(words) for _ in range(house.moves)]
        episode = run_episode(env, task, scripted(*texts), max_turns=house.moves)
        score = env.score(task, episode)
        assert episode.outcome is not None
        assert score.components["won"] == float(episode.outcome["won"]) == float(score.reward == 1.0)
        assert score.components["moves"] == episode.outcome["moves"] == sum(turn.role == "assistant" for turn in episode.turns)
        assert not (index % 2) or episode.outcome["won"]


@pytest.mark.slow
def test_splits_share_no_task_and_draws_are_pinned() -> None:
    keys = []
    for level in LEVELS:
        env = verigym.load("treasure_rooms", level=level)
        texts = {
            split: {env.prompt_at(split, seed, index).text for seed in (0, 1) for index in range(15)}
            for split in ("train", "test")
        }
        assert not texts["train"] & texts["test"] and {split_of(text) for text in texts["test"]} == {"test"}
        assert len(texts["train"]) > 25
        keys += [env.prompt_at("train", 0, index).key for index in range(10)]
    assert sha256_hex(" ".join(keys))[:8] == PINNED


def test_keys_earn_what_the_option_says() -> None:
    env = verigym.load("treasure_rooms", key_credit=0.4)
    assert env.score(TASK, play(*WAY[:5], env=env, turns=5)).reward == 0.4
    assert env.score(TASK, play(*WAY[:5], env=env, turns=5)).status == "partial"
    assert env.score(TASK, play("open box", env=env, turns=1)).reward == 0.0
    assert env.score(TASK, play(*WAY, env=env)).reward == 1.0
    assert ENV.score(TASK, play(*WAY[:5], turns=5)).reward == 0.0
    two = verigym.load("treasure_rooms", level=3, key_credit=0.5)
    task = two.prompt_at("train", 0, 1)
    commands = explored(two.reference(task))
    first = next(place for place, command in enumerate(commands) if command.startswith("take "))
    assert two.score(task, play(*commands[: first + 1], env=two, task=task, turns=first + 1)).reward == 0.25


def test_rewards_of_turns_add_up_to_one() -> None:
    env = verigym.load("treasure_rooms", turn_rewards=True, level=5)
    for index in range(5):
        episode = env.demonstrate(env.prompt_at("train", 0, index))
        rewards = [turn.reward for turn in episode.turns if turn.role == "assistant"]
        assert sum(filter(None, rewards)) == pytest.approx(1.0) and min(reward for reward in rewards if reward is not None) == 0
    there_and_back = play("go north", "go south", "dance", env=env, turns=3)
    assert [turn.reward for turn in there_and_back.turns if turn.role == "assistant"] == [0.0, 0.0, 0.0]
    assert all(turn.reward is None for turn in play(*WAY).turns)


def test_the_slack_is_the_budget() -> None:
    budgets = []
    for slack in (1.0, 1.5, 3.0):
        env = verigym.load("treasure_rooms", slack=slack)
        task = env.prompt("Find it.", **{**HOUSE, "moves": 6})
        assert env.most_turns(task) == 6
        task = next(env.prompts())
        budgets.append(env.most_turns(task) / len(explored(env.reference(task))))
    assert budgets[0] == 1.0 and 1.5 <= budgets[1] < 1.7 and 3.0 <= budgets[2] < 3.2


WRONG = [
    ({"start": "hal"}, "start: there is no 'hal'; did you mean 'hall'?"),
    ({"treasure": "ring"}, "treasure: there is no 'ring'"),
    ({"rooms": ["hall", "hall", "vault"]}, "'hall' is the name of two rooms, containers or things"),
    ({"containers": [{"name": "box", "room": "attic"}]}, "containers: there is no 'attic'"),
    ({"things": [{"name": "crown", "place": "vault"}]}, "doors: there is no 'red key'"),
    (
        {"things": [{"name": "red key", "place": "vault"}, {"name": "crown", "place": "vault"}]},
        "the treasure 'crown' cannot be reached from 'hall', with however many moves",
    ),
    (
        {"doors": [*HOUSE["doors"], {"room": "vault", "direction": "south", "to": "hall"}]},
        "doors: the room 'hall' has two in the direction north; expected at most one",
    ),
    ({"moves": 0}, "field 'moves'"),
    ({"start": "Hall"}, "field 'start'"),
    ({"doors": [{"room": "hall", "direction": "up", "to": "cellar"}]}, r"field 'doors\.0\.direction'"),
]


@cases("fields, words", WRONG)
def test_mistakes_in_a_house_are_one_sentence(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=f"reference of 'treasure_rooms': .*{words.replace('?', '[?]')}"):
        ENV.prompt("Find it.", **{**HOUSE, **fields})


def test_a_house_of_ones_own_has_its_question() -> None:
    text = question(HouseReference(**HOUSE))
    assert text.startswith("Somewhere in this house is a treasure, the crown. Find it and take it, in at most 9 moves.")
    assert text.endswith("\n\nYou are in the hall. You see: box (closed). Ways out: north.")
    assert "vault" not in text and "red key" not in text
