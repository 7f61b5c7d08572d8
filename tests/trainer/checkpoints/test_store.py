"""Checkpoints: damaged ones are passed over, other settings are refused, old ones go."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from verigym.envs import UsageError
from verigym.trainer.checkpoints import run_record, store
from verigym.trainer.config.run import TrainConfig, build_config


def settings(output: Path, **more: Any) -> TrainConfig:
    fields = {"model": "m", "output": str(output), "sources": [{"environment": "arithmetic"}], "keep_checkpoints": 2}
    return build_config({**fields, **more}, "test")


def identity(output: Path, grader: str = "arithmetic@1+0", **more: Any) -> dict[str, Any]:
    return store.made_with(settings(output, **more), {"arithmetic": grader})


def write_parts(model: Any, tokenizer: Any, optimizer: Any, folder: Path) -> None:
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")


@pytest.fixture
def saved(tmp_path: Path, tiny_model: Any, tiny_tokenizer: Any) -> Path:
    folder = tmp_path / "checkpoints"
    optimizer = torch.optim.AdamW(tiny_model.parameters(), lr=0.1)
    for step in (2, 4, 6):
        drawn, work = {"arithmetic": step}, {"leftovers": [step / 3]}
        write = partial(write_parts, tiny_model, tiny_tokenizer, optimizer)
        store.save(folder, step, write, drawn, identity(tmp_path), 2, work)
    return folder


def test_the_newest_is_found_and_old_ones_are_gone(saved: Path, tmp_path: Path) -> None:
    found = store.latest(saved, identity(tmp_path), 200)
    assert found is not None
    assert found[1].step == 6
    assert found[1].drawn == {"arithmetic": 6}
    assert store.load_batch_state(found[0]) == {"leftovers": [2.0]}
    assert sorted(path.name for path in saved.iterdir()) == ["step-00000004", "step-00000006"]


def test_a_setting_that_is_newer_than_a_checkpoint_had_its_default(tmp_path: Path) -> None:
    """Of the run, and of a source; what was never a setting, and another value, are refused."""
    older = identity(tmp_path)
    del older["max_staleness"], older["sources"][0]["min_share"]
    store.save(tmp_path / "checkpoints", 3, lambda folder: None, {}, older, 2, {})
    folder, now = tmp_path / "checkpoints", settings(tmp_path)
    assert store.latest(folder, identity(tmp_path), 200, now) is not None
    sources = [{"environment": "arithmetic", "min_share": 0.5}]
    for more in ({"learning_rate": 0.5}, {"sources": sources}):
        with pytest.raises(UsageError, match="was made with other settings"):
            store.latest(folder, identity(tmp_path, **more), 200, settings(tmp_path, **more))
    with pytest.raises(UsageError, match="was made with other settings"):
        store.latest(folder, identity(tmp_path, grader="arithmetic@2+0"), 200, now)
    nested = identity(tmp_path)
    del nested["sources"][0]["min_share"]
    store.save(tmp_path / "nested", 3, lambda folder: None, {}, nested, 2, {})
    assert store.latest(tmp_path / "nested", identity(tmp_path), 200, now) is not None
    store.save(tmp_path / "other", 3, lambda folder: None, {}, {**older, "gone": 1}, 2, {})
    with pytest.raises(UsageError, match="gone was 1"):
        store.latest(tmp_path / "other", identity(tmp_path), 200, now)


def test_those_made_by_time_go_first_and_push_out_no_other(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "weights").write_text("w")

    left = {}
    for step, by_time in ((10, False), (13, True), (17, True), (20, False), (23, True), (30, False)):
        store.save(tmp_path, step, write, {}, identity(tmp_path), 3, {}, by_time=by_time)
        left[step] = [int(path.name.removeprefix("step-")) for path in sorted(tmp_path.iterdir())]
    assert left[17] == [10, 13, 17]
    assert left[20] == [10, 17, 20]
    assert left[23] == [10, 20, 23]
    assert left[30] == [10, 20, 30]


def test_a_timer_is_due_after_its_minutes_and_with_0_never(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("verigym.trainer.checkpoints.store.time.monotonic", lambda: now[0])
    timer, never = store.Timer(10), store.Timer(0)
    now[0] += 599
    assert not timer.due
    now[0] += 1
    assert timer.due and not never.due
    timer.restart()
    assert not timer.due


@pytest.mark.parametrize("file", ["state.json", "optimizer.pt", "work.json", "model/model.safetensors", "model/config.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "flipped"])
def test_a_damaged_one_is_passed_over(
    file: str, damage: str, saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved / "step-00000006" / file
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"\x00" + data[1:])
    with caplog.at_level(logging.WARNING, "verigym.trainer"):
        found = store.latest(saved, identity(tmp_path), 200)
    assert found is not None
    assert found[1].step == 4
    assert "trying an older one" in caplog.text


def test_what_a_kill_left_behind_is_cleared_away(saved: Path, tmp_path: Path) -> None:
    (saved / ".partial-step-00000008/model").mkdir(parents=True)
    found = store.latest(saved, identity(tmp_path), 200)
    assert found is not None
    assert found[1].step == 6
    assert not list(saved.glob(".partial*"))


def test_none_is_found_where_there_is_none(tmp_path: Path) -> None:
    assert store.latest(tmp_path / "absent", identity(tmp_path), 200) is None


def test_other_settings_are_refused_and_harmless_ones_are_not(saved: Path, tmp_path: Path) -> None:
    told = r"step-00000006 was made with other settings: learning_rate was 1e-06 and is now 0.5\. Going on"
    with pytest.raises(UsageError, match=told):
        store.latest(saved, identity(tmp_path, learning_rate=0.5), 200)
    told = r'other settings: graders.arithmetic was "arithmetic@1\+0" and is now "arithmetic@2\+0"\. Going on'
    with pytest.raises(UsageError, match=told):
        store.latest(saved, identity(tmp_path, grader="arithmetic@2+0"), 200)
    sources: list[dict[str, Any]] = [{"environment": "arithmetic", "options": {"digits": 3}, "weight": 2}]
    told = r"sources.0.options.digits was null and is now 3; sources.0.weight was 1.0 and is now 2.0; seed was 0 and is now 1"
    with pytest.raises(UsageError, match=told):
        store.latest(saved, identity(tmp_path, sources=sources, seed=1), 200)
    many: dict[str, Any] = {
        "loss": "cispo",
        "advantage": "rloo",
        "group_size": 3,
        "temperature": 0.5,
        "max_new_tokens": 7,
        "seed": 4,
    }
    with pytest.raises(
        UsageError, match=r"; and 1 more\. Going on from it would mix two runs; set `output` to a new folder, with model="
    ):
        store.latest(saved, identity(tmp_path, **many), 200)
    with pytest.raises(UsageError, match="already done 6"):
        store.latest(saved, identity(tmp_path), 5)
    assert store.latest(saved, identity(tmp_path, steps=999, workers=1, keep_checkpoints=5), 999) is not None


def test_a_falling_schedule_depends_on_the_number_of_steps(tmp_path: Path) -> None:
    a, b = (identity(tmp_path, schedule="linear", steps=steps) for steps in (10, 20))
    assert a != b


def test_damaged_ones_never_push_out_a_good_one(saved: Path, tmp_path: Path, tiny_model: Any, tiny_tokenizer: Any) -> None:
    (saved / "step-00000006/optimizer.pt").unlink()
    assert store.latest(saved, identity(tmp_path), 200) is not None
    optimizer = torch.optim.AdamW(tiny_model.parameters(), lr=0.1)
    write = partial(write_parts, tiny_model, tiny_tokenizer, optimizer)
    made = store.save(saved, 5, write, {"arithmetic": 5}, identity(tmp_path), 1, {})
    assert made.exists()
    found = store.latest(saved, identity(tmp_path), 200)
    assert found is not None
    assert found[1].step == 5


def test_when_all_are_damaged_the_run_does_not_start_again_by_itself(saved: Path, tmp_path: Path) -> None:
    for path in saved.iterdir():
        (path / "state.json").write_text("{}")
    with pytest.raises(UsageError, match="no checkpoint in"):
        store.latest(saved, identity(tmp_path), 200)


def killed_early(output: Path, steps: int) -> None:
    """Leave what a run leaves that is killed after some steps and before its first checkpoint."""
    run_record.record_start(output, identity(output), {})
    logged = [{"step": 0, "kind": "eval"}, *({"step": step + 1, "kind": "train"} for step in range(steps))]
    (output / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in logged))


@pytest.mark.parametrize(("steps", "told"), [(3, "3 logged steps are dropped"), (1, "1 logged step is dropped")])
def test_a_run_killed_before_its_first_checkpoint_says_what_is_lost(
    steps: int, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed_early(tmp_path, steps)
    assert store.latest(tmp_path / "checkpoints", identity(tmp_path, steps=999), 999) is None
    assert caplog.messages == [f"no checkpoint yet in {tmp_path}: starting again, {told}"]


def test_logged_steps_without_a_checkpoint_are_not_replaced_by_those_of_other_settings(tmp_path: Path) -> None:
    killed_early(tmp_path, 3)
    told = (
        r"was made with other settings: learning_rate was 1e-06 and is now 0\.5\. It has no checkpoint yet, so to start again "
        r"would drop its 3 logged steps; set `output` to a new folder, delete this one, or use the settings in .*config\.json"
    )
    with pytest.raises(UsageError, match=told):
        store.latest(tmp_path / "checkpoints", identity(tmp_path, learning_rate=0.5), 200)


def test_a_run_that_logged_no_step_may_start_with_other_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    killed_early(tmp_path, 0)
    assert store.latest(tmp_path / "checkpoints", identity(tmp_path, learning_rate=0.5), 200) is None
    assert caplog.messages == []


def test_a_second_run_is_kept_out(tmp_path: Path) -> None:
    with store.locked(tmp_path), pytest.raises(UsageError, match="another run is writing"):
        with store.locked(tmp_path):
            pass
    with store.locked(tmp_path):
        pass


def test_a_run_does_not_write_into_the_folder_of_a_model(tmp_path: Path) -> None:
    model = '{"model_type": "qwen3", "hidden_size": 4}'
    (tmp_path / "config.json").write_text(model)
    with pytest.raises(UsageError, match="holds a model, whose config.json would be overwritten; name another folder"):
        store.prepare(tmp_path)
    assert (tmp_path / "config.json").read_text() == model
    (tmp_path / "config.json").write_text('{"model": "m", "output": "o"}')
    store.prepare(tmp_path)
