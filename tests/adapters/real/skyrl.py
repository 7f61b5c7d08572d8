"""skyrl-gym's own registry and environments: items of one turn and episodes with tools. Prints one line of JSON."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import skyrl_gym
from adapter_environments import MIXTURE, WITH_TOOLS
from skyrl_gym.envs.base_text_env import BaseTextEnv

from verigym.adapters import UnscoredError, open_sources, skyrl
from verigym.envs import Completion

GAMES = {"sources": [{"environment": "number_guessing", "options": {"guesses": 3}}]}
MODULE = """
import adapter_environments
from verigym.adapters import skyrl
Items = skyrl.environment(adapter_environments.MIXTURE, unscored=-0.5, workers=1, retries=0)
Tools = skyrl.environment(adapter_environments.WITH_TOOLS, unscored=-0.5, workers=1)
Stops = skyrl.environment(adapter_environments.MIXTURE, unscored="stop", workers=0, retries=0)
Games = skyrl.environment({games!r}, unscored="stop", workers=1)
"""
GARBAGE = ("no", "", "12", "17", r"\boxed{3}")


def made(name: str, row: dict[str, Any], max_turns: int = 5) -> tuple[Any, list[dict[str, str]]]:
    """An environment as SkyRL's generator makes one, with the prompt that the model gets."""
    extras = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    env = skyrl_gym.make(name, env_config={}, extras={**extras, "max_turns": max_turns})
    assert isinstance(env, BaseTextEnv)
    prompt, _ = env.init(row["prompt"])
    return env, prompt


def items() -> dict[str, Any]:
    sources = open_sources(MIXTURE)
    found = {"scored": 0, "equal": 0, "unscored": 0}
    for row in skyrl.rows(sources, 24):
        label, task = sources.task(row["verigym"])
        gold = sources.environments[label].gold(task)
        for text in (gold, *GARBAGE):
            assert text is not None
            env, _ = made("verigym-items", row)
            step = env.step(text)
            ours = sources.environments[label].score(task, text).reward
            assert step["done"] and step["observations"] == []
            found["scored"] += 1
            found["equal"] += step["reward"] == (-0.5 if ours is None else ours)
            found["unscored"] += ours is None
            assert env.get_metrics()["unscored"] == float(ours is None)
            env.close()
    return found


def stops() -> str:
    sources = open_sources(MIXTURE)
    row = next(row for row in skyrl.rows(sources, 12) if row["data_source"] == "half")
    environment, (_, task) = sources.environments["half"], sources.task(row["verigym"])
    failing = next(text for text in map(str, range(100)) if environment.score(task, text).reward is None)
    env, _ = made("verigym-stops", row)
    try:
        env.step(failing)
    except UnscoredError as error:
        return str(error)
    return ""


def tools() -> dict[str, Any]:
    sources = open_sources(WITH_TOOLS)
    found = {"episodes": 0, "equal": 0, "unscored": 0, "told": 0, "tool_replies": 0}
    call = '<tool_call>{"name": "%s", "arguments": %s}</tool_call>'
    for row in skyrl.rows(sources, 9):
        label, task = sources.task(row["verigym"])
        env, prompt = made("verigym-tools", row)
        found["told"] += (
            label != "plain" and "<tool_call>" in prompt[0]["content"] and label.replace("tools", "calculator") in str(prompt)
        )
        question = row["prompt"][-1]["content"].replace("=?", "").replace("What is ", "").strip(" ?")
        if label == "plain":
            said = [r"\boxed{5}"]
        else:
            arguments = {"expression": question} if label == "tools" else {"number": 3}
            said = [call % ("calculator" if label == "tools" else "away", json.dumps(arguments))]
        step = env.step(said[0])
        if not step["done"]:
            assert step["reward"] == 0.0 and step["observations"][0]["role"] == "tool"
            found["tool_replies"] += 1
            said.append(rf"\boxed{{{step['observations'][0]['content']}}}")
            step = env.step(said[1])
        ours = None if label == "away" else sources.environments[label].score(task, Completion(text=said[-1])).reward
        found["episodes"] += 1
        found["equal"] += step["reward"] == (-0.5 if ours is None else ours) and (label != "tools" or ours == 1.0)
        found["unscored"] += ours is None
        env.close()
    return found


def games() -> dict[str, Any]:
    """An environment that answers texts: binary search, and a limit of turns that SkyRL sets."""
    sources = open_sources(GAMES)
    rewards, cut = [], []
    for row in skyrl.rows(sources, 4):
        _, task = sources.task(row["verigym"])
        environment: Any = sources.environments["number_guessing"]
        number = environment.reference(task).number
        env, _ = made("verigym-games", row)
        assert not env.step(rf"\boxed{{{number - 1}}}")["done"]
        rewards.append(env.step(rf"\boxed{{{number}}}")["reward"])
        env, _ = made("verigym-games", row, max_turns=2)
        env.step(rf"\boxed{{{number - 1}}}")
        step = env.step(rf"\boxed{{{number - 2}}}")
        assert step["done"]
        cut.append(step["reward"])
    return {"won": rewards, "cut_off": cut}


if __name__ == "__main__":
    Path("skyrl_environments.py").write_text(MODULE.format(games=GAMES))
    sys.path.insert(0, str(Path.cwd()))
    for kind in ("Items", "Tools", "Stops", "Games"):
        skyrl_gym.register(id=f"verigym-{kind.lower()}", entry_point=f"skyrl_environments:{kind}")
    print(
        json.dumps(
            {
                "version": importlib.metadata.version("skyrl-gym"),
                "torch_imported": "torch" in sys.modules,
                "items": items(),
                "stops": stops(),
                "tools": tools(),
                "games": games(),
            }
        )
    )
