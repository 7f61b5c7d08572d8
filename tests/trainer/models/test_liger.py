"""What only a GPU has: refused with one line where there is none. Liger is a stand-in that records its calls."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.engines.build import build_engine
from verigym.trainer.engines.native.cuda_graphs import wants_graphs
from verigym.trainer.engines.native.decoders import decodable
from verigym.trainer.learner.learner import Learner
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.liger import LIGER, use_liger
from verigym.trainer.models.lora import add_adapter

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def config(model: Path | str, **more: Any) -> TrainConfig:
    fields = {"model": str(model), "output": "o", "sources": [{"environment": "arithmetic"}], "device": "cpu", **more}
    return build_config(fields, "run.yaml")


@pytest.mark.parametrize(("wanted", "device", "expected"), [(None, CPU, False), (None, CUDA, True), (False, CUDA, False)])
def test_graphs_are_taken_where_there_is_cuda(wanted: bool | None, device: torch.device, expected: bool) -> None:
    assert wants_graphs(wanted, device) is expected
    assert wants_graphs(True, CUDA)


def test_graphs_without_cuda_are_refused_with_what_to_do(tiny_model: Any, tiny_tokenizer: Any) -> None:
    codec = Codec(tiny_tokenizer, tiny_model.generation_config)
    with pytest.raises(UsageError, match="cuda_graphs: true needs device cuda, and this run is on cpu; leave cuda_graphs out"):
        build_engine(config("m", cuda_graphs=True), tiny_model, codec)
    engine: Any = build_engine(config("m"), tiny_model, codec)
    assert not engine.static_cache
    with pytest.raises(UsageError, match="cuda_graphs is about engine native; set engine to native"):
        config("m", cuda_graphs=False, engine="transformers")


def test_liger_without_cuda_is_refused_before_training(letters_model: Path) -> None:
    with pytest.raises(UsageError, match="liger: true needs device cuda, and this run is on cpu; leave liger out"):
        Learner(config(letters_model, liger=True))


def test_liger_without_its_package_or_for_another_model_is_refused(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "liger_kernel", None)  # as where it is not installed
    with pytest.raises(UsageError, match=r"liger: true needs the package liger_kernel.*pip install 'verigym\[liger\]'"):
        use_liger(tiny_model, CUDA)
    other = copy.deepcopy(tiny_model)
    other.config.model_type = "another"
    with pytest.raises(UsageError, match="llama, mistral, qwen2, qwen3 here, and this model is another"):
        use_liger(other, CUDA)


@pytest.mark.parametrize("adapters", [False, True])
def test_liger_gets_the_model_itself_and_leaves_its_loss_out(
    adapters: bool, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    stand_in = ModuleType("liger_kernel.transformers")
    for name in LIGER.values():
        setattr(stand_in, name, lambda name=name, **given: calls.append({"name": name, **given}))
    monkeypatch.setitem(sys.modules, "liger_kernel", ModuleType("liger_kernel"))
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", stand_in)
    model = base = copy.deepcopy(tiny_model)
    if adapters:
        model = add_adapter(base, AdapterFields(lora_rank=2), 0)
    use_liger(model, CUDA)
    (call,) = calls
    assert call.pop("model") is base
    assert call == {
        "name": "apply_liger_kernel_to_qwen3",
        "rope": True,
        "rms_norm": True,
        "swiglu": True,
        "cross_entropy": False,
        "fused_linear_cross_entropy": False,
    }


def replaced(model: Any, factor: float) -> None:
    """Give an MLP another forward, as a package of kernels does; its result is off by this factor."""
    for layer in model.model.layers:
        plain = layer.mlp.forward
        layer.mlp.forward = lambda x, plain=plain: plain(x) * factor


def test_kernels_that_compute_the_same_leave_decoding_as_it_is_and_others_are_noticed(tiny_model: Any) -> None:
    for factor, expected in ((1.0, True), (1.5, False)):
        model = copy.deepcopy(tiny_model)
        replaced(model, factor)
        assert decodable(model) is expected
