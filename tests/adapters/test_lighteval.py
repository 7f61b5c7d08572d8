"""lighteval: the aggregate and the prompts, and lighteval's own pipeline on our tasks."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
from adapter_venv import real_run
from needs import SHARED, lacking

import verigym
from verigym.adapters import lighteval
from verigym.envs import UsageError


@lacking("elsewhere", importlib.util.find_spec("lighteval") is not None, "lighteval is installed")
def test_the_extra_is_named_where_it_is_missing(tmp_path: Path) -> None:
    for make in (lambda: lighteval.metric("math"), lambda: lighteval.tasks("arithmetic", folder=tmp_path, count=1)):
        with pytest.raises(UsageError, match=r"needs the package lighteval.*verigym\[lighteval\]"):
            make()


@pytest.mark.parametrize(("values", "mean"), [([1.0, math.nan, 0.0, 0.5], 0.5), ([0.0], 0.0), ([math.nan] * 2, math.nan)])
def test_the_aggregate_leaves_out_what_has_no_reward(values: list[float], mean: float) -> None:
    assert lighteval.over_scored(values) == pytest.approx(mean, nan_ok=True)
    assert "mean" not in lighteval.over_scored.__name__, "lighteval would take the plain standard error, which is NaN"


def test_prompts_are_one_text() -> None:
    env = verigym.load("math")
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}
    assert lighteval.query_of(env.prompt([user], answer="4")) == "2+2?"  # type: ignore[list-item]
    assert lighteval.query_of(env.prompt([system, user], answer="4")) == "Be brief.\n\n2+2?"  # type: ignore[list-item]
    turns = [user, {"role": "assistant", "content": "4"}, user]
    with pytest.raises(UsageError, match="the turns user, assistant, user"):
        lighteval.query_of(env.prompt(turns, answer="4"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "name"), [("gsm8k", "gsm8k"), ("/data/mine.yaml", "mine"), ("a:b|c/../d", "a_b_c_.._d"), ("..", "tasks")]
)
def test_a_source_s_label_makes_no_path(label: str, name: str) -> None:
    assert lighteval.plain_name(label) == name


@pytest.mark.slow
def test_lighteval_s_pipeline_evaluates_our_tasks() -> None:
    folder = [str(SHARED / "data")] if (SHARED / "data/gsm8k").is_dir() else []
    found = real_run("lighteval", *folder, also=["torch==2.13.0", "xxhash<3.6"], constraints=False, timeout_s=1200)
    data, missing = found["data"], found["no reward"]
    assert data["rows"] == 24 and data["lighteval"]["verigym"] == pytest.approx(data["mean"]) == pytest.approx(1 / 3)
    assert data["lighteval"]["verigym_unscored"] == 0.0
    assert missing["lighteval"] == missing["env.score"]
    scored = [one for one in missing["env.score"] if one is not None]
    assert missing["mean"] == pytest.approx(sum(scored) / len(scored))
    assert missing["unscored"] == missing["env.score"].count(None) > 0
    assert "tasks are episodes of several turns" in missing["refused"]
    assert found["columns"] == [1.0, 0.0]
    print(f"lighteval {found}")
