"""Runs that train on episodes: from a run file, with each engine that is here, beside sources of one turn, killed, resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from letters import LettersEnvironment
from patience import HANG_S
from tool_users import save_calling_model

from verigym.envs import UsageError
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.credit.rows import credits_of
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.run import run_evaluation as evaluate
from verigym.trainer.loop import train
from verigym.trainer.rng import keyed_random
from verigym.trainer.rollout import graders
from verigym.trainer.stages.sample_log import read_samples
from verigym.trainer.tasks.mixture import build_source

SCRIPT = Path(__file__).parent.parent / "support/run_everything.py"
STEPS = 4
KILLS = int(os.environ.get("VERIGYM_KILLS", "3"))


@pytest.fixture(scope="module")
def calling_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_calling_model(tmp_path_factory.mktemp("calling_model"))


def settings(model: Path, output: Path, **more: Any) -> dict[str, Any]:
    source = {"environment": "letters"}
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{**source, "name": "tools", "tools": {"calculator": {}}}, {**source, "name": "plain"}],
        "seed": 3,
        "steps": STEPS,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 64,
        "max_turns": 3,
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "eval_every": 2,
        "eval_prompts": 4,
        "checkpoint_every": 1,
        "canary_share": 0.0,
        "loggers": [],
        "threads": 1,
        "workers": 1,
        "device": "cpu",
    }
    return fields | more


def run(model: Path, output: Path, **more: Any) -> list[dict[str, Any]]:
    train(build_config(settings(model, output, **more), "test"), {"letters": LettersEnvironment()})
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def state(output: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return {
        "final": (output / "final/model.safetensors").read_bytes(),
        "metrics": [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows],
        "samples": (output / "samples.jsonl").read_text(),
    }


@pytest.fixture(scope="module")
def whole(calling_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "out"
    run(calling_model, output)
    return output


@pytest.mark.slow
def test_a_run_file_with_tools_trains_on_episodes(whole: Path) -> None:
    found = state(whole)
    rows = [row for row in found["metrics"] if row["kind"] == "train"]
    assert len(rows) == STEPS and all(row["grad_norm"] > 0 for row in rows)
    assert all(row["tools/turns"] > 1 and row["tools/read_tokens"] > 1 for row in rows)
    assert sum(row["tools/calls"] for row in rows) > 0.3 * STEPS  # of one step it depends on the processor's rounding
    assert sum(row.get("tools/calls/calculator", 0.0) for row in rows) > 0.5 and any(
        row["tools/malformed_calls"] for row in rows
    )
    assert all("plain/turns" not in row and row["plain/completion_tokens"] > 0 for row in rows)
    assert max(row["logprob_mismatch"] for row in rows) < 1e-5, "what is read moves nothing"
    evaluations = [row for row in found["metrics"] if row["kind"] == "eval"]
    assert len(evaluations) == 3 and all("tools/turns" in row for row in evaluations)
    samples = [json.loads(line) for line in found["samples"].splitlines()]
    turns = [row["turns"] for row in samples if row["source"] == "tools"]
    assert any([turn["role"] for turn in one] == ["assistant", "tool", "assistant"] for one in turns)
    assert not any("turns" in row for row in samples if row["source"] == "plain")


@pytest.mark.slow
def test_transformers_own_generation_plays_the_same_episodes(calling_model: Path, whole: Path, tmp_path: Path) -> None:
    run(calling_model, tmp_path / "out", engine="transformers", steps=1)
    written = []
    for output in (whole, tmp_path / "out"):
        rows = [json.loads(line) for line in (output / "samples.jsonl").read_text().splitlines()]
        written.append([row.get("turns", row["completion"]) for row in rows if (row["step"], row["kind"]) == (1, "train")])
    assert written[0] == written[1] and written[0]


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_bytes(calling_model: Path, whole: Path, tmp_path: Path) -> None:
    """`VERIGYM_KILLS` times, 3 by default; when, is drawn by hash over the length of a run."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(settings(calling_model, tmp_path / "out")))
    draw = keyed_random("kill", "episodes")
    steps = sorted(draw.randint(0, STEPS - 2) for _ in range(KILLS))
    moments = [{"steps": step, "in_checkpoint": False, "delay_s": round(draw.uniform(0, 0.4), 4)} for step in steps]
    command = [sys.executable, str(SCRIPT), str(config), json.dumps(moments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert json.loads(done.stdout) == [-signal.SIGKILL] * KILLS + [0], (moments, done.stderr[-2000:])
    expected = state(whole)
    for name, value in state(tmp_path / "out").items():
        assert value == expected[name], name


@pytest.mark.slow
def test_an_evaluation_plays_and_keeps_the_episodes(calling_model: Path, tmp_path: Path) -> None:
    source = {"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}, "tools": {"calculator": {}}}
    config = EvalConfig(
        models={"m": str(calling_model)},
        output=tmp_path / "eval",
        sources=(source,),
        prompts=6,
        samples=2,
        max_new_tokens=64,
        max_turns=3,
        workers=0,
        device="cpu",
        threads=1,
    )
    evaluate(config)
    found = read_samples(tmp_path / "eval/samples-m.jsonl")
    episodes = [sample.episode for one in found for sample in one.samples]
    assert len(episodes) == 12 and all(episode is not None for episode in episodes)
    assert {turn.role for episode in episodes if episode for turn in episode.turns} == {"assistant", "tool"}
    before = (tmp_path / "eval/samples-m.jsonl").read_bytes()
    evaluate(config)
    assert (tmp_path / "eval/samples-m.jsonl").read_bytes() == before, "nothing is played again"


@pytest.mark.slow
def test_the_context_of_a_run_file_bounds_its_episodes(calling_model: Path, tmp_path: Path) -> None:
    rows = run(calling_model, tmp_path / "out", max_context_tokens=60, steps=1, eval_every=0)
    (row,) = (one for one in rows if one["kind"] == "train")
    assert row["tools/episodes_cut_off"] > 0 and 0.5 < row["tools/context_used"] <= 1


def test_sessions_get_the_limits_of_the_run(letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    class Noted(graders.Sessions):
        def __init__(self, environments: Any, **limits: Any) -> None:
            given.append(limits)
            super().__init__(environments, **limits)

    monkeypatch.setattr(graders, "Sessions", Noted)
    config = build_config(settings(letters_model, tmp_path, turn_timeout_s=7.5, grade_memory_mb=512, workers=0), "test")
    sources = [build_source(source, 0, 1, {"letters": LettersEnvironment()}) for source in config.sources]
    with graders.open_sessions(sources, config) as sessions:
        assert set(sessions) == {"tools"}
    assert given == [{"workers": 0, "timeout_s": 7.5, "memory_bytes": 512 * 2**20}]


def test_an_advantage_of_turns_needs_turns(letters_model: Path, tmp_path: Path) -> None:
    config = build_config(settings(letters_model, tmp_path, advantage="turn_returns"), "test")
    tools, plain = (build_source(source, 0, 1, {"letters": LettersEnvironment()}).environment for source in config.sources)
    assert credits_of(config, {"tools": tools, "plain": tools})["tools"].by_turn
    with pytest.raises(UsageError, match="source 'plain': advantage turn_returns is about the turns of episodes"):
        credits_of(config, {"tools": tools, "plain": plain})


def test_settings_of_episodes_need_episodes(tmp_path: Path, letters_model: Path) -> None:
    plain = {"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}}
    config = build_config(settings(letters_model, tmp_path / "out", sources=[plain]), "test")
    with pytest.raises(UsageError, match="max_turns is about episodes, and no source has tools"):
        train(config)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tools": {"calculater": {}}}, "no tool 'calculater'; did you mean 'calculator'"),
        ({"tools": {"calculator": {"digits": 3}}}, "tool 'calculator' takes no options; leave out digits"),
        ({"tools": {"python": {"wall": 3}}}, "options of the tool 'python': unknown field 'wall'; did you mean 'wall_s'"),
        ({"tools": {"os:system": {}}}, "'os:system' is no tool"),
        ({"tools": {"calculator": {}}, "tool_options": {"max_call": 3}}, "max_call"),
        ({"tool_options": {"max_calls": 3}}, "tool_options is about tools"),
    ],
)
def test_mistakes_about_tools_are_one_sentence(fields: dict[str, Any], said: str, letters_model: Path, tmp_path: Path) -> None:
    source = {"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}, **fields}
    with pytest.raises(UsageError, match=said):
        train(build_config(settings(letters_model, tmp_path / "out", sources=[source]), "test"))


@pytest.mark.slow
def test_a_model_without_a_template_for_turns_is_refused(letters_model: Path, tmp_path: Path) -> None:
    source = {"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}, "tools": {"calculator": {}}}
    config = build_config(settings(letters_model, tmp_path / "out", sources=[source], eval_every=0), "test")
    assert isinstance(config, TrainConfig)
    with pytest.raises(UsageError, match="chat template"):
        train(config)
