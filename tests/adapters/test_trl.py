"""TRL's reward function for mixtures and its environments: as TRL calls them, and in TRL itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_environments import MIXTURE, WITH_TOOLS
from adapter_venv import real_run

from verigym.adapters import trl
from verigym.envs import UsageError


def batch(rewards: trl.RewardFunction, count: int) -> tuple[list[Any], dict[str, list[Any]]]:
    """Prompts and columns, as TRL passes them."""
    rows = list(rewards.rows(count))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return columns.pop("prompt"), columns


def messages(texts: list[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


@pytest.fixture(scope="module")
def mixed() -> Iterator[trl.RewardFunction]:
    with trl.reward_function(MIXTURE, workers=0, retries=0) as rewards:
        yield rewards


@pytest.fixture(scope="module")
def tools() -> Iterator[trl.RewardFunction]:
    with trl.reward_function(WITH_TOOLS, workers=0, retries=0) as rewards:
        yield rewards


def test_each_row_is_judged_by_its_own_source_and_none_passes_through(mixed: trl.RewardFunction) -> None:
    prompts, columns = batch(mixed, 12)
    sources, logged = mixed.scorer.sources, dict[str, float]()
    tasks = [sources.task(cell) for cell in columns["verigym"]]
    for texts in ([str(sources.environments[label].gold(task)) for label, task in tasks], list(map(str, range(12)))):
        expected = [
            sources.environments[label].score(task, text).reward for (label, task), text in zip(tasks, texts, strict=True)
        ]
        given: dict[str, Any] = {"completion_ids": [[1]] * 12, "trainer_state": object(), "log_extra": print}
        assert mixed(prompts, messages(texts), log_metric=logged.__setitem__, **given, **columns) == expected
    assert mixed.__name__ == "sums+units+half"
    assert None in expected and 0.0 not in [expected[at] for at, (label, _) in enumerate(tasks) if label == "half"]
    assert logged["sums+units+half/no_reward"] == expected.count(None) / 12
    assert logged["sums/no_reward"] == 0 and logged["half/no_reward"] == expected.count(None) / 4


def test_a_row_that_cannot_be_used_costs_itself_only(mixed: trl.RewardFunction) -> None:
    prompts, columns = batch(mixed, 3)
    columns["verigym"][1] = "{"
    with pytest.warns(UserWarning, match="no reward for row 2: column 'verigym' holds no JSON.*1 so far"):
        rewards = mixed(prompts, messages(["7"] * 3), **columns)
    assert rewards[1] is None and isinstance(rewards[0], float)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda columns: columns.pop("verigym"), UsageError, "has no column 'verigym'"),
        (lambda columns: columns.update(key="text"), UsageError, "column 'key' is str; expected a list"),
        (lambda columns: columns.update(key=["k"]), ValueError, "unequal lengths: .*key 1"),
    ],
)
def test_what_is_wrong_with_all_rows_is_raised(mixed: trl.RewardFunction, change: Any, error: Any, message: str) -> None:
    prompts, columns = batch(mixed, 3)
    change(columns)
    with pytest.raises(error, match=message):
        mixed(prompts, messages(["7"] * 3), **columns)


def test_columns_of_a_data_set_without_tasks() -> None:
    with trl.reward_function("math", columns={"answer": "gold"}, name="right", workers=0) as rewards:
        assert rewards.__name__ == "right"
        assert rewards(["2+2?", "2+3?"], [r"\boxed{4}", r"\boxed{4}"], gold=["4", "5"]) == [1.0, 0.0]


def test_tools_are_methods_whose_schema_the_chat_template_gets(tools: trl.RewardFunction) -> None:
    from transformers.utils import get_json_schema

    made = tools.environments()
    assert set(made) == {"tools", "away", "plain"}
    calculator, away = get_json_schema(made["tools"]().calculator), get_json_schema(made["away"]().away)
    assert calculator["function"]["name"] == "calculator" and "Work out" in calculator["function"]["description"]
    assert calculator["function"]["parameters"]["required"] == ["expression"]
    properties = away["function"]["parameters"]["properties"]
    assert (properties["number"]["type"], properties["unit"]["type"]) == ("integer", "string")
    assert away["function"]["parameters"]["required"] == ["number"]
    assert [name for name in dir(made["plain"]()) if not name.startswith("_")] == ["reset"]


def test_an_episode_as_trl_plays_it(tools: trl.RewardFunction) -> None:
    made = tools.environments()
    rows = {row["source"]: row for row in tools.rows(12)}
    playing = {label: factory() for label, factory in made.items()}
    for label, environment in playing.items():
        assert environment.reset(**rows[label]) is None
    assert playing["tools"].calculator(expression="2*21") == "42"
    assert "unknown field 'wrong'" in playing["tools"].calculator(wrong=1)
    assert playing["away"].away(number=3) == trl.FAILED
    used = ["tools", "away", "plain"]
    sources = tools.scorer.sources
    golds = [str(sources.environments[label].gold(sources.task(rows[label]["verigym"])[1])) for label in used]
    columns = {name: [rows[label][name] for label in used] for name in ("source", "verigym")}
    prompts = [rows[label]["prompt"] for label in used]
    logged: dict[str, float] = {}
    given: dict[str, Any] = {"environments": [playing[label] for label in used], "log_metric": logged.__setitem__}
    assert tools(prompts, messages(golds), **given, **columns) == [1.0, None, 1.0]
    assert logged["away/no_reward"] == 1.0 and logged["tools/no_reward"] == 0.0
    done = playing["tools"]._episode.completion()
    assert [turn.role for turn in done.turns] == ["assistant", "tool"] * 2 + ["assistant"] and done.finish_reason == "stop"
    first = playing["tools"]._episode
    playing["tools"].reset(**rows["tools"])
    assert playing["tools"]._episode is not first and not playing["tools"]._episode.over


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ({"role": "tool", "name": "calculator", "content": "42"}, "length"),
        ({"role": "assistant", "content": "", "tool_calls": [{"type": "function"}]}, "turns"),
        ({"role": "assistant", "content": None}, "stop"),
    ],
)
def test_an_episode_that_trl_ends_without_an_answer(tools: trl.RewardFunction, last: dict[str, Any], reason: str) -> None:
    row = next(row for row in tools.rows(3) if row["source"] == "tools")
    environment = tools.environments()["tools"]()
    environment.reset(**row)
    environment.calculator(expression="1")
    columns = {"verigym": [row["verigym"]], "environments": [environment]}
    assert tools([row["prompt"]], [[{"role": "assistant", "content": ""}, last]], **columns) == [0.0]
    assert environment._episode.completion().finish_reason == reason


def test_what_trl_cannot_play_is_refused(tools: trl.RewardFunction) -> None:
    row = next(row for row in tools.rows(3) if row["source"] == "tools")
    with pytest.raises(UsageError, match="source 'tools' has tools, which TRL calls only through environments"):
        tools([row["prompt"]], messages(["7"]), verigym=[row["verigym"]])
    with trl.reward_function({"sources": [{"environment": "number_guessing"}]}, workers=0) as games:
        with pytest.raises(UsageError, match="episodes in which the environment answers a text are not played there"):
            games.environments()
    with trl.reward_function("arithmetic", workers=0) as plain, pytest.raises(UsageError, match="no source has tools"):
        plain.environments()
    source = {"environment": "arithmetic", "tools": {"calculator": {}}, "tool_options": {"calls": "qwen_xml"}}
    with trl.reward_function({"sources": [source]}, workers=0) as other, pytest.raises(UsageError, match="leave out calls="):
        other.environments()


def test_a_bad_row_gets_no_episode_and_no_reward(tools: trl.RewardFunction) -> None:
    environment = tools.environments()["tools"]()
    environment.reset(prompt=[{"role": "user", "content": "x"}], verigym="{")
    assert environment.calculator(expression="1") == trl.FAILED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tools(["x"], messages(["7"]), verigym=["{"], environments=[environment]) == [None]


@pytest.mark.slow
def test_a_text_that_hangs_its_judge_is_killed_and_costs_no_other_anything() -> None:
    with trl.reward_function("adapter_environments:Hangs", workers=1, timeout_s=5) as rewards:
        assert rewards(["Q?"] * 3, ["a", "hang", "b"]) == [1.0, 0.0, 1.0]


@pytest.mark.slow
def test_trl_itself_trains_and_leaves_out_what_has_no_reward() -> None:
    found = real_run("trl", timeout_s=1500)
    assert found["version"] == "1.16.0"
    for name, steps in (("math", 10), ("mixture", 10), ("tools", 3)):
        part = found[name]
        assert (part["steps"], part["equal"]) == (steps, part["rewards"]), found
        assert part["rewards"] == 16 * steps
    assert found["math"]["none"] == 0 and found["math"]["different_in_a_group"] > 0, "there was nothing to learn"
    mixture, tools = found["mixture"], found["tools"]
    assert mixture["none"] > 20 and mixture["groups_with_failures"] >= 4 and mixture["logged"] == 10
    for part in (mixture, tools):
        assert part["failed_have_zero"] and part["worst_difference"] == 0.0
    assert tools["told_of_tools"] and tools["plain_told_of_none"] and tools["right_with_tool"] > 0 and tools["none"] > 0
    print(f"TRL {found}")
