"""A run goes on from the inputs that it began with: what a model's folder and data files hold is in the checkpoint."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from letters import LettersEnvironment
from runs import run

from verigym.datasets_cfg.load import load_config
from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints import input_hashes as hashing
from verigym.trainer.checkpoints.input_hashes import file_hash, input_hashes, refuse_changed
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.loop import train


def config(model: Path | str, output: Path, **more: Any) -> TrainConfig:
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "letters"}],
        "steps": 1,
        "prompts_per_step": 2,
        "group_size": 2,
        "max_new_tokens": 3,
        "eval_every": 0,
        "checkpoint_every": 1,
        "loggers": [],
        "threads": 1,
        "workers": 0,
        "device": "cpu",
    }
    return build_config(fields | more, "test")


def test_a_run_does_not_go_on_from_another_model(letters_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = tmp_path / "model"
    shutil.copytree(letters_model, model)
    letters = {"letters": LettersEnvironment()}
    train(config(model, tmp_path / "out"), letters)
    (model / "notes").mkdir()
    (model / "notes/new.txt").write_text("more")
    with (model / "config.json").open("a") as file:
        file.write("\n")
    told = r"inputs of the run have changed: model config.json, model notes/new.txt; bring them back, .*changed_inputs=accept"
    with pytest.raises(UsageError, match=told):
        train(config(model, tmp_path / "out", steps=2), letters)
    with caplog.at_level(logging.WARNING, logger="verigym.trainer"):
        train(config(model, tmp_path / "out", steps=2, changed_inputs="accept"), letters)
    assert "model notes/new.txt; going on with changed_inputs=accept" in caplog.text
    train(config(model, tmp_path / "out", steps=3), letters)  # the new checkpoint has the new inputs


def test_data_files_count_by_what_they_hold(tmp_path: Path) -> None:
    files = {split: tmp_path / "data" / file.path for split, file in load_config("gsm8k").files.items()}
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"a": 1}\n')
    (tmp_path / "data/unrelated").write_text("x")
    source = {"dataset": "gsm8k", "data_dir": str(tmp_path / "data"), "name": "school"}
    made = config("owner/name", tmp_path, sources=[source])
    before = input_hashes(made)
    assert set(before) == {"the description of school", "train data of school", "test data of school"}
    (tmp_path / "data/unrelated").write_text("y")
    files["test"].touch()
    assert input_hashes(made) == before
    files["test"].write_text('{"a": 2}\n')
    with pytest.raises(UsageError, match="have changed: test data of school; bring"):
        refuse_changed(before, input_hashes(made), "refuse")
    hub = config("owner/name", tmp_path, sources=[{"dataset": "gsm8k"}])
    assert set(input_hashes(hub)) == {"the description of gsm8k"}


def test_of_a_large_file_size_and_ends_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "WHOLE", 10)
    monkeypatch.setattr(hashing, "ENDS", 4)
    file = tmp_path / "weights"

    def hashed(data: bytes) -> str:
        file.write_bytes(data)
        return file_hash(file)

    found = [hashed(data) for data in (b"abcd-----wxyz", b"abcX-----wxyz", b"abcd-----wxyY", b"abcd----wxyz")]
    assert len(set(found)) == 4
    assert hashed(b"abcd--+--wxyz") == found[0], "as the documentation says"
    assert hashed(b"abcdwxyz") != hashed(b"abcXwxyz"), "a small one counts whole"


def test_a_checkpoint_from_before_there_were_hashes_goes_on() -> None:
    refuse_changed({}, {"model config.json": "1"}, "refuse")
    refuse_changed({"a": "1"}, {"a": "1"}, "refuse")


OWN = """
from verigym.trainer.rng import keyed_random
from verigym import BaseEnvironment, Options, Reference, Score

class Answer(Reference):
    answer: str

class Digit(BaseEnvironment[Answer, Options]):
    name, version, reference_type = "digit", "1", Answer

    def judge(self, prompt, reference, completion):
        return Score.partial(1 / (1 + len(completion.text)))

    def gold(self, prompt):
        return self.reference(prompt).answer

    def prompt_at(self, split, seed, index):
        digit = str(keyed_random(split, seed, index).randint(0, 9))
        return self.prompt(f"{digit}?", answer=digit)
"""


def test_a_run_does_not_go_on_with_an_edited_environment(
    letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits_of_mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    fields: dict[str, Any] = {"sources": [{"environment": "digits_of_mine:Digit"}], "schedule": "constant"}
    run(letters_model, tmp_path / "out", **fields, steps=1)
    (tmp_path / "digits_of_mine.py").write_text(OWN.replace("1 / (1 +", "1 / (2 +"))
    with pytest.raises(UsageError, match="inputs of the run have changed: code of digits_of_mine.py; bring"):
        run(letters_model, tmp_path / "out", **fields, steps=2)
    rows = run(letters_model, tmp_path / "out", **fields, steps=2, changed_inputs="accept")
    assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2]
    sys.modules.pop("digits_of_mine")
