"""Lockstep and free: the same tokens, whatever sessions take; freely, a slow session holds up nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from chats import ChatEnvironment, chatting_model
from letters import LettersEnvironment

from verigym.envs import UsageError
from verigym.envs.grading import Grader
from verigym.envs.sessions import Sessions
from verigym.trainer.config.run import build_config
from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.hf import TransformersEngine
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Dropped, Group, collect
from verigym.trainer.rollout.episodes import EpisodeLimits, Episodes
from verigym.trainer.stopwatch import Stopwatch
from verigym.trainer.tasks.mixture import Source

LIMITS = EpisodeLimits(max_turns=5, max_new_tokens=120, max_turn_tokens=30, positions=250)


@pytest.fixture(scope="module")
def parts() -> tuple[Any, Codec]:
    return chatting_model()


def roll(
    engine: Any, codec: Codec, env: ChatEnvironment, order: Any, *, workers: int = 0, prompts: int = 3, **more: Any
) -> list[Group]:
    """Play three tasks with four samples each, and a source of one turn beside them."""
    letters = LettersEnvironment()
    tasks = []
    for label, one in [("chat", env)] * prompts + [("letters", letters)]:
        prompt = one.prompt_at("train", 3, len(tasks))
        tasks.append((Source(label, one, 1.0, lambda index, prompt=prompt: prompt, ()), prompt))
    graded = {env.name: env, letters.name: letters}
    with Grader(graded, workers=0) as grader, Sessions({env.name: env}, workers=workers) as sessions:
        return collect(
            engine,
            codec,
            lambda source: grader,
            tasks,
            key=("test",),
            **{
                "samples": 4,
                "max_new_tokens": LIMITS.max_new_tokens,
                "temperature": 1.0,
                "episodes": Episodes(codec, {"chat": sessions}, LIMITS, order),
                **more,
            },
        )


def native(parts: tuple[Any, Codec], cache_bytes: int = 2**24, rows_at_a_time: int = 64) -> NativeEngine:
    return NativeEngine(*parts, rows_at_a_time=rows_at_a_time, dtype="fp32", episode_cache_bytes=cache_bytes)


def played(groups: list[Group]) -> list[Any]:
    """All but log-probabilities and times."""
    return [
        (
            group.texts,
            [score.reward for score in group.scores],
            group.episodes,
            [(one.token_ids, one.turns, one.loss_mask) for one in group.generated],
        )
        for group in groups
    ]


def logprobs(groups: list[Group]) -> torch.Tensor:
    return torch.tensor([logp for group in groups for one in group.generated for logp in one.logprobs])


@pytest.mark.slow
def test_all_orders_and_engines_play_the_same_episodes(parts: tuple[Any, Codec]) -> None:
    _, codec = parts
    env = ChatEnvironment()
    engine = native(parts)
    expected = roll(engine, codec, env, "lockstep")
    assert not len(engine.turn_cache), "nothing is kept once a rollout has ended"
    turns = [len(one.turns) for group in expected[:3] for one in group.generated]
    assert max(turns) == 4 and min(turns) < 4, "episodes end at different times"
    assert len(expected[3].generated) == 4 and not expected[3].episodes
    others = {
        "nothing kept": roll(native(parts, 0), codec, env, "lockstep"),
        "free": roll(native(parts), codec, env, "free"),
        "free, nothing kept, few rows": roll(native(parts, 0, rows_at_a_time=3), codec, env, "free"),
        "free, slow": roll(native(parts), codec, ChatEnvironment(most_s=0.05), "free", workers=2),
        "transformers": roll(TransformersEngine(*parts, rows_at_a_time=64, dtype="fp32"), codec, env, "lockstep"),
    }
    for name, found in others.items():
        assert played(found) == played(expected), name
        torch.testing.assert_close(logprobs(found), logprobs(expected), rtol=0, atol=1e-5)
    again = roll(native(parts), codec, env, "lockstep")
    assert torch.equal(logprobs(again), logprobs(expected)), "lockstep repeats bit by bit"


@pytest.mark.slow
def test_freely_a_slow_session_holds_up_nobody(parts: tuple[Any, Codec], tmp_path: Path) -> None:
    """The first reply of one waits until another episode has ended, which lockstep would not let it before that reply."""
    clock = Stopwatch()
    env = ChatEnvironment(meet=str(tmp_path))
    groups = roll(native(parts), parts[1], env, "free", workers=2, prompts=1, samples=2, clock=clock)
    first, other = groups[0].episodes
    assert first.failure is None and other.failure is None and list(tmp_path.iterdir())
    assert clock.take()["reply_wait_s"] > 0


@pytest.mark.parametrize("order", ["lockstep", "free"])
def test_giving_up_ends_the_sessions_and_keeps_nothing(parts: tuple[Any, Codec], order: str) -> None:
    engine = native(parts)
    polls = iter([False] * 9)
    with pytest.raises(Dropped):
        roll(engine, parts[1], ChatEnvironment(), order, give_up=lambda: next(polls, True))
    assert not len(engine.turn_cache)


def test_an_engine_that_knows_no_episodes_plays_rounds(parts: tuple[Any, Codec]) -> None:
    class Plain:
        positions = None

        def __init__(self) -> None:
            self.rounds: list[int] = []

        def generate(self, prompts: Any, row_keys: Any, **more: Any) -> list[list[Generated]]:
            self.rounds.append(len(prompts))
            return native(parts).generate(prompts, row_keys, **more)

    engine = Plain()
    found = roll(engine, parts[1], ChatEnvironment(), "lockstep")
    assert played(found) == played(roll(native(parts), parts[1], ChatEnvironment(), "lockstep"))
    first, *later = engine.rounds
    assert first == 4 and later[0] <= 12 and later == sorted(later, reverse=True), "four prompts, then a row for each episode"
    with pytest.raises(UsageError, match="episode_order free needs an engine whose turns can join"):
        roll(engine, parts[1], ChatEnvironment(), "free")


def settings(model: Path, output: Path, **more: Any) -> dict[str, Any]:
    return {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "chat"}, {"environment": "letters"}],
        "steps": 3,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 100,
        "max_turn_tokens": 30,
        "max_turns": 5,
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "eval_every": 0,
        "canary_share": 0.0,
        "loggers": [],
        "threads": 1,
        "workers": 0,
        "device": "cpu",
        **more,
    }


@pytest.fixture(scope="module")
def model(parts: tuple[Any, Codec], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chatting_model")
    parts[0].save_pretrained(folder)
    parts[1].tokenizer.save_pretrained(folder)
    return folder


def rows_of(model: Path, output: Path, **more: Any) -> list[dict[str, Any]]:
    train(build_config(settings(model, output, **more), "test"), {"chat": ChatEnvironment(), "letters": LettersEnvironment()})
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_runs_in_both_orders_and_with_little_memory_learn_the_same(model: Path, tmp_path: Path) -> None:
    whole = rows_of(model, tmp_path / "whole", samples_per_step=16)
    assert all(row["logprob_mismatch"] < 1e-6 and row["grad_norm"] > 0 for row in whole)
    for name, more in {"free": {"episode_order": "free"}, "none": {"episode_cache_mb": 0}}.items():
        rows = rows_of(model, tmp_path / name, samples_per_step=16, **more)
        for one, other in zip(rows, whole, strict=True):
            assert one["completion_tokens"] == other["completion_tokens"] and one["reward"] == other["reward"]
            assert one["logprob_mismatch"] < 1e-6
            assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)
    again = rows_of(model, tmp_path / "again", samples_per_step=16)
    assert len(again) == 3
    weights = [(tmp_path / name / "final/model.safetensors").read_bytes() for name in ("whole", "again")]
    assert weights[0] == weights[1], "lockstep, with kept keys and values, to the byte"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"episode_order": "free", "engine": "transformers"}, "episode_order is about engines whose turns can join"),
        ({"episode_order": "free", "cuda_graphs": True}, "cuda_graphs replays steps of fixed sizes"),
        ({"episode_cache_mb": 5, "engine": "transformers"}, "episode_cache_mb is about engine native"),
        ({"episode_order": "fre"}, "episode_order"),
    ],
)
def test_settings_without_effect_are_refused(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        build_config(settings(tmp_path, tmp_path / "out", **fields), "test")


@pytest.mark.parametrize("fields", [{"episode_order": "free"}, {"episode_cache_mb": 5}])
def test_without_episodes_they_are_refused(fields: dict[str, Any], model: Path, tmp_path: Path) -> None:
    plain = settings(model, tmp_path / "out", sources=[{"environment": "letters"}], max_turns=8, max_turn_tokens=None)
    with pytest.raises(UsageError, match=f"{next(iter(fields))} is about episodes, and no source has tools"):
        train(build_config(plain | fields, "test"), {"letters": LettersEnvironment()})


def test_they_are_about_an_evaluation_too(tmp_path: Path) -> None:
    fields = {"models": {"m": "m"}, "output": tmp_path, "sources": ({"environment": "arithmetic"},), "engine": "transformers"}
    for setting, value in (("episode_order", "free"), ("episode_cache_mb", 5)):
        with pytest.raises(ValueError, match=f"{setting} is about engine"):
            EvalConfig(**fields, **{setting: value})
    assert EvalConfig(**{**fields, "engine": "native"}, episode_order="free").episode_order == "free"
