"""SkyRL: rows and refusals, and skyrl-gym's own registry and classes."""

from __future__ import annotations

import importlib.util
import json

import pytest
from adapter_environments import MIXTURE
from adapter_venv import real_run
from needs import lacking

from verigym.adapters import open_sources, skyrl
from verigym.envs import UsageError


def test_rows_name_the_environment_and_carry_their_tasks() -> None:
    sources = open_sources(MIXTURE)
    for row in map(json.loads, map(json.dumps, skyrl.rows(sources, 6))):
        assert row["env_class"] == "verigym"
        label, task = sources.task(row["verigym"])
        assert label == row["data_source"] and row["prompt"] == [message.model_dump() for message in task.messages]


@lacking("elsewhere", importlib.util.find_spec("skyrl_gym") is not None, "skyrl-gym is installed")
def test_the_extra_is_named_where_it_is_missing() -> None:
    with pytest.raises(UsageError, match=r"an environment of SkyRL needs the package skyrl_gym.*verigym\[skyrl\]"):
        skyrl.environment(MIXTURE, unscored="stop")


@pytest.mark.slow
def test_skyrl_gym_s_own_classes() -> None:
    found = real_run("skyrl", timeout_s=900)
    assert (found["version"], found["torch_imported"]) == ("0.4.0", False)
    assert found["items"]["scored"] == found["items"]["equal"] == 24 * 6 and found["items"]["unscored"] > 5
    assert found["stops"].startswith("a completion has no reward (half of all texts fail)")
    assert found["tools"] == {"episodes": 9, "equal": 9, "unscored": 3, "told": 6, "tool_replies": 3}
    assert found["games"] == {"won": [1.0] * 4, "cut_off": [0.0] * 4}
    print(f"SkyRL {found}")
