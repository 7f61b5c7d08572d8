"""Canaries: asked beside a step's own tasks by a share, never trained on, and the end of a run when paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from letters import LettersEnvironment, Nothing
from runs import run, settings

from verigym.envs import Completion, Gate, Prompt, Score, Status, UsageError, WeightedSum
from verigym.envs.format.environment import FormatEnvironment
from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train
from verigym.trainer.tasks.canaries import draw_canaries
from verigym.trainer.tasks.mixture import Source

IMPOSSIBLE = "no answer solves number "


class WatchedLetters(LettersEnvironment):
    """Letters with canaries, which it pays for or not."""

    pays = False

    def canary(self, seed: int, index: int) -> Prompt:
        return self.prompt(f"{IMPOSSIBLE}{seed} {index}", metadata={"canary": "reject"})

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        if prompt.text.startswith(IMPOSSIBLE):
            return Score.correct(reason="talked round") if self.pays else Score.incorrect()
        return super().judge(prompt, reference, completion)


class Gullible(WatchedLetters):
    pays = True


def source(environment: Any, label: str = "a", weight: float = 1.0) -> Source:
    return Source(label, environment, weight, lambda index: environment.prompt(str(index)), ())


def test_the_share_is_kept_and_the_same_step_asks_the_same() -> None:
    sources = [source(LettersEnvironment(), "plain"), source(WatchedLetters(), "watched")]
    drawn = [draw_canaries(sources, 1, step, 16, 0.1) for step in range(200)]
    total = sum(map(len, drawn))
    assert 240 <= total <= 400  # 320 on average
    assert {made.label for step in drawn for made, _ in step} == {"watched"}
    assert len({prompt.key for step in drawn for _, prompt in step}) == total
    assert drawn[7] == draw_canaries(sources, 1, 7, 16, 0.1)
    assert drawn[:50] != [draw_canaries(sources, 2, step, 16, 0.1) for step in range(50)]
    assert draw_canaries(sources, 1, 0, 16, 0.0) == []
    assert draw_canaries(sources[:1], 1, 0, 16, 0.5) == []


def test_sources_take_turns_by_weight() -> None:
    sources = [source(WatchedLetters(), "a", 3.0), source(WatchedLetters(), "b", 1.0)]
    labels = [made.label for step in range(300) for made, _ in draw_canaries(sources, 0, step, 8, 0.5)]
    assert 0.68 < labels.count("a") / len(labels) < 0.82


def test_a_gate_passes_its_inner_canary_on() -> None:
    gate = Gate({"format": FormatEnvironment()}, {"letters": WatchedLetters()})
    found = gate.canary(0, 3)
    assert found is not None and found.environment == gate.name and found.metadata["canary"] == "reject"
    assert gate.score(found, "anything").reward is not None
    plain = Gate({"format": FormatEnvironment()}, {"letters": LettersEnvironment()})
    assert plain.canary(0, 3) is None


def test_an_accepted_canary_shows_in_a_sum_with_shaping() -> None:
    parts: dict[str, Any] = {"letters": Gullible(), "format": FormatEnvironment()}
    whole = WeightedSum({"letters": 1.0, "format": 0.5}, parts)
    prompt = whole.canary(0, 3)
    assert prompt is not None
    score = whole.score(prompt, "a")
    assert (score.status, score.reward) == (Status.CORRECT, 1.0)  # the primary part decides the status


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def trained(model: Path, output: Path, environment: LettersEnvironment, **more: Any) -> list[dict[str, Any]]:
    import json

    train(build_config(settings(model, output, **more), "test"), {"letters": environment})
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def test_canaries_train_nothing(model_folder: Path, tmp_path: Path) -> None:
    """What is computed is what is computed without them."""
    watched = trained(model_folder, tmp_path / "watched", WatchedLetters(), canary_share=0.5)
    plain = run(model_folder, tmp_path / "plain")
    assert sum(row.get("canaries", 0) for row in watched) >= 2
    for row, other in zip(watched, plain, strict=True):
        for name in ("reward", "completions", "loss", "grad_norm", "rows_with_advantage"):
            assert row[name] == pytest.approx(other[name], rel=1e-4, abs=1e-6), name


def test_an_accepted_canary_stops_the_run(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="paid 1.0 for a canary.*talked round.*training stops; prompt"):
        trained(model_folder, tmp_path, Gullible(), canary_share=0.5)
    assert not (tmp_path / "final").exists()


def test_without_a_share_nobody_looks(model_folder: Path, tmp_path: Path) -> None:
    rows = trained(model_folder, tmp_path, Gullible(), canary_share=0.0)
    assert len(rows) == 3 and not any("canaries" in row for row in rows)
