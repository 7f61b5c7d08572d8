"""AdamW in fp32 and in 8 bits: what is trained, how close the two are, and that 8 bits come back exactly."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from needs import require

from verigym.envs import extras
from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.formulas import moment_bytes
from verigym.trainer.learner.optimizers import build_optimizer, clipped_step

SIZES = {"large": (64, 160), "small": (50,)}
"""One tensor whose moments are held in 8 bits, and one too small for it."""


def config(**fields: Any) -> TrainConfig:
    base: dict[str, Any] = {"model": "m", "output": Path("o"), "sources": (SourceConfig(environment="arithmetic"),)}
    return TrainConfig(**base | {"learning_rate": 0.01, "weight_decay": 0.1} | fields)


def weights(batch: Any) -> dict[str, torch.nn.Parameter]:
    return {name: torch.nn.Parameter(batch(name, *shape).float()) for name, shape in SIZES.items()}


def run(optimizer: torch.optim.Optimizer, found: dict[str, torch.nn.Parameter], batch: Any, steps: range) -> None:
    for step in steps:
        for name, parameter in found.items():
            parameter.grad = batch(f"{name} {step}", *parameter.shape).float() + parameter.detach()
        optimizer.step()


def eight_bits() -> TrainConfig:
    require("bitsandbytes")
    return config(optimizer="adamw_8bit")


def test_frozen_weights_are_left_out() -> None:
    frozen, trained = torch.nn.Parameter(torch.ones(2), requires_grad=False), torch.nn.Parameter(torch.ones(3))
    optimizer = build_optimizer([frozen, trained], config())
    assert type(optimizer) is torch.optim.AdamW
    (group,) = optimizer.param_groups
    assert group["params"] == [trained]
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.01, (0.9, 0.99), 0.1)


def test_the_fused_step_is_that_of_plain_adamw(batch: Any) -> None:
    """Rounding apart: a few units in the last place of a weight, because the fused kernel multiplies in another order."""
    fused, plain = weights(batch), weights(batch)
    optimizer = build_optimizer(fused.values(), config())
    assert optimizer.param_groups[0]["fused"] is True
    other = torch.optim.AdamW(plain.values(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.1, fused=False)
    run(optimizer, fused, batch, range(20))
    run(other, plain, batch, range(20))
    for name, parameter in plain.items():
        torch.testing.assert_close(fused[name], parameter, rtol=0, atol=1e-6)


def test_a_gradient_in_another_layout_is_read_as_it_is() -> None:
    """torch's fused kernel of the CPU reads a transposed gradient as if it were none, without a word."""
    given = torch.arange(12.0).reshape(4, 3).t() - 5
    laid_out, transposed = (torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2))
    laid_out.grad, transposed.grad = given.contiguous(), given
    for parameter in (laid_out, transposed):
        optimizer = build_optimizer([parameter], config())
        optimizer.step()
        optimizer.step()
    assert torch.equal(laid_out, transposed)


def test_a_checkpoint_of_the_plain_step_goes_on_with_it(batch: Any) -> None:
    whole, halves = weights(batch), weights(batch)
    plain: dict[str, Any] = {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.1}
    run(torch.optim.AdamW(whole.values(), **plain), whole, batch, range(6))
    first = torch.optim.AdamW(halves.values(), **plain)
    run(first, halves, batch, range(3))
    resumed = build_optimizer(halves.values(), config())
    resumed.load_state_dict(first.state_dict())
    run(resumed, halves, batch, range(3, 6))
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


def test_8_bits_go_the_way_of_fp32(batch: Any) -> None:
    exact, coarse = weights(batch), weights(batch)
    start = {name: parameter.detach().clone() for name, parameter in exact.items()}
    run(build_optimizer(exact.values(), config()), exact, batch, range(20))
    run(build_optimizer(coarse.values(), eight_bits()), coarse, batch, range(20))
    for name, parameter in exact.items():
        moved = (parameter - start[name]).norm()
        gap = (coarse[name] - parameter).norm() / moved
        assert moved > 0.1
        assert gap < (0.05 if name == "large" else 1e-5), (name, float(gap))
    assert not torch.equal(exact["large"], coarse["large"])


def test_8_bits_come_back_exactly(batch: Any, tmp_path: Path) -> None:
    settings = eight_bits()
    whole = weights(batch)
    optimizer = build_optimizer(whole.values(), settings)
    run(optimizer, whole, batch, range(4))
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    resumed = copy.deepcopy(whole)
    run(optimizer, whole, batch, range(4, 9))

    other = build_optimizer(resumed.values(), settings)
    other.load_state_dict(torch.load(tmp_path / "optimizer.pt", map_location="cpu", weights_only=True))
    run(other, resumed, batch, range(4, 9))
    assert all(torch.equal(whole[name], resumed[name]) for name in SIZES)


def test_the_moments_take_the_bytes_that_are_priced(batch: Any) -> None:
    found = weights(batch)
    optimizer = build_optimizer(found.values(), eight_bits())
    run(optimizer, found, batch, range(1))
    kept = [
        part.nbytes
        for state in optimizer.state.values()
        for name, part in state.items()
        if isinstance(part, torch.Tensor) and not name.startswith("qmap")  # the tables of 256 values are shared
    ]
    assert sum(kept) == moment_bytes([parameter.numel() for parameter in found.values()], "adamw_8bit")


def test_an_absent_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(UsageError, match=r"optimizer: adamw_8bit needs the package bitsandbytes .*'verigym\[quant\]'"):
        build_optimizer([torch.nn.Parameter(torch.ones(2))], config(optimizer="adamw_8bit"))


def test_a_clipped_step_by_hand() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
    optimizer = torch.optim.SGD([weight], lr=9.0)
    weight.grad = torch.tensor([3.0, 4.0])
    assert clipped_step(optimizer, rate=0.5, max_norm=1.0, step=0) == pytest.approx(5.0), "the norm before it is clipped"
    assert weight.tolist() == pytest.approx([1 - 0.5 * 0.6, 1 - 0.5 * 0.8], abs=1e-6)
    before = weight.tolist()
    weight.grad = torch.tensor([float("nan"), 4.0])
    clipped_step(optimizer, rate=0.5, max_norm=1.0, step=1)
    assert weight.tolist() == before
