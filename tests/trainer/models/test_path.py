"""A model by its folder, by its checkpoint's folder, and what is said of folders that hold no whole model."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
import torch

from verigym.envs import UsageError
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.models.loading import load_model
from verigym.trainer.models.path import model_path, require_model


def test_a_checkpoint_is_its_model(tmp_path: Path, letters_model: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "step-00000002"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model").symlink_to(letters_model)
    assert model_path(checkpoint) == str(checkpoint / "model")
    assert model_path(letters_model) == str(letters_model) and model_path("owner/name") == "owner/name"
    loaded, _ = load_model(checkpoint, torch.device("cpu"))
    wanted, _ = load_model(letters_model, torch.device("cpu"))
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), wanted.parameters(), strict=True))
    assert model_digest(str(checkpoint)) == model_digest(str(letters_model))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("step-00000002/adapter.safetensors", "a checkpoint of adapters alone; let its run end and name its folder `final`"),
        ("step-00000002/shards/0.safetensors", "a checkpoint of several processes"),
        ("step-00000002/checkpoints/step-1/model/config.json", "is the folder of a run; name its `final`"),
        ("step-00000002/final/config.json", "is the folder of a run; name its `final`"),
    ],
)
def test_a_folder_without_a_whole_model_says_what_to_name(tmp_path: Path, made: str, message: str) -> None:
    file = tmp_path / made
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "step-00000002/config.json").touch() if "checkpoints" in made else None
    with pytest.raises(UsageError, match=message):
        load_model(tmp_path / "step-00000002", torch.device("cpu"))


@pytest.fixture
def dead_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A hub at which nobody listens, and the pauses that are made before it is tried again."""
    pauses: list[float] = []
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{held.getsockname()[1]}")
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)  # as tests have it
        monkeypatch.setattr("time.sleep", pauses.append)
        yield pauses


@pytest.mark.parametrize("name", ["no-such-model", "owner/no-such"])
def test_a_hub_that_does_not_answer_is_tried_once(name: str, dead_hub: list[float]) -> None:
    with pytest.raises(UsageError, match=f"no directory '{name}' here, and no model .* hub does not answer .*refused"):
        load_model(name, torch.device("cpu"))
    assert dead_hub == [], "its library would try again for 45 s"
    assert not huggingface_hub.constants.HF_HUB_OFFLINE


@pytest.mark.usefixtures("dead_hub")
def test_a_misspelt_directory_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs/cold_start").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"did you mean 'runs/cold_start'\?"):
        require_model("runs/cold_strat")
    with pytest.raises(UsageError, match=r"there is no directory './runs/cold_strat'.*did you mean 'runs/cold_start'\?"):
        require_model("./runs/cold_strat")
