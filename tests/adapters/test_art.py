"""ART: refusals, and ART's own models, trajectories and groups."""

from __future__ import annotations

import importlib.util

import pytest
from adapter_environments import MIXTURE
from adapter_venv import real_run
from needs import lacking

from verigym.adapters import art
from verigym.envs import UsageError


@lacking("elsewhere", importlib.util.find_spec("art") is not None, "ART is installed")
def test_the_extra_is_named_where_it_is_missing() -> None:
    with pytest.raises(UsageError, match=r"a rollout of ART needs the package art.*verigym\[art\]"):
        art.rollout(MIXTURE)


@pytest.mark.slow
def test_art_s_own_groups_leave_out_what_has_no_reward() -> None:
    found = real_run("art", also=["openai<3"], timeout_s=900)
    items = found["items"]
    assert found["version"] == "0.5.18"
    assert items["trajectories"] == items["equal"] and items["trajectories"] + items["raised"] == items["rollouts"] == 72
    assert items["raised"] > 5 and items["kept_fail"] == 0
    assert items["why"] == ["a completion of 'half' has no reward: half of all texts fail"]
    for kind, reply in (("tools", "tool"), ("tools_as_text", "user")):
        part = found[kind]
        assert (part["trajectories"], part["equal"], part["raised"], part["right_with_tool"]) == (24, 24, 12, 12), found
        assert part["roles"] == [f"['user', 'assistant', '{reply}', 'assistant']", "['user', 'assistant']"]
    print(f"ART {found}")
