"""Settings become functions with their options bound; what does not fit is refused by name. KL in the reward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from groups import RIGHT, WRONG, group

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.update import UpdateFields
from verigym.trainer.learner.kl_reward import kl_penalties
from verigym.trainer.learner.objective import K1_IN_THE_LOSS, build_objective, choose_correction, choose_loss
from verigym.trainer.losses.corrections import CORRECTIONS
from verigym.trainer.losses.kl import KL_ESTIMATORS
from verigym.trainer.losses.table import LOSSES, ON_POLICY_LOSSES, PolicyLoss

LOGP = torch.tensor([[-1.0, -2.0], [-0.5, -0.1]])
OLD = torch.tensor([[-1.5, -1.0], [-0.5, -3.0]])
MASK = torch.tensor([[True, True], [True, False]])
ADVANTAGES = torch.tensor([1.0, -1.0])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_loss_can_be_chosen(name: str) -> None:
    found, _ = choose_loss(UpdateFields(loss=name, aggregation="sequence_mean"))(LOGP, OLD, ADVANTAGES, mask_BT=MASK)
    wanted, _ = LOSSES[name].function(LOGP, OLD, ADVANTAGES, mask_BT=MASK)
    assert torch.equal(found, wanted)


def test_an_entry_of_the_table_is_all_that_a_new_loss_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "newest", PolicyLoss("sequence_level:gspo", whole_completions=True))
    given = {"loss": "newest", "clip_low": 0.1}
    found, _ = choose_loss(UpdateFields(aggregation="sequence_mean", **given))(LOGP, OLD, ADVANTAGES, mask_BT=MASK)
    wanted, _ = LOSSES["gspo"].function(LOGP, OLD, ADVANTAGES, mask_BT=MASK, clip_low=0.1)
    assert torch.equal(found, wanted)
    with pytest.raises(UsageError, match="newest is a loss of whole completions, which token_mean would weight"):
        choose_loss(UpdateFields(aggregation="token_mean", **given))


def test_options_reach_the_loss() -> None:
    loss = choose_loss(UpdateFields(clip_high=0.5, dual_clip=3.0, loss_options={"max_log_ratio": 5.0}))
    found, _ = loss(LOGP, OLD, ADVANTAGES)
    wanted, _ = LOSSES["clipped"].function(LOGP, OLD, ADVANTAGES, clip_high=0.5, dual_clip=3.0, max_log_ratio=5.0)
    assert torch.equal(found, wanted)
    assert not torch.equal(found, LOSSES["clipped"].function(LOGP, OLD, ADVANTAGES)[0])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"loss": "gspoo"}, "field 'loss': there is no loss 'gspoo'; did you mean 'gspo'?"),
        ({"loss": "reinforce", "clip_low": 0.1}, "reinforce takes no option 'clip_low'"),
        ({"loss_options": {"clip_hi": 1}}, "did you mean 'clip_high'?"),
        ({"clip_low": 7.0}, "field 'loss': clipped: clip_low"),
        ({"loss_options": {"max_log_ratio": "a lot"}}, "field 'loss': clipped: "),
        ({"loss_options": {"mask_BT": None}}, "takes no option 'mask_BT'"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_loss(UpdateFields(**fields))
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_losses_without_a_ratio_are_those_that_refuse_an_older_policy(name: str) -> None:
    found = []
    for old in (LOGP, OLD):
        logp = LOGP.clone().requires_grad_()
        loss, _ = LOSSES[name].function(logp, old, ADVANTAGES, mask_BT=MASK)
        found.append(torch.autograd.grad(loss.sum(), logp)[0])
    assert torch.equal(*found) is (name in ON_POLICY_LOSSES)
    if name in ON_POLICY_LOSSES:
        for more in ({"updates_per_step": 2}, {"epochs_per_step": 3}):
            with pytest.raises(ValueError, match=f"loss {name} takes no ratio, .* epochs_per_step to 1"):
                UpdateFields(loss=name, **more)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kl_estimator": "k2", "kl_unbiased": True}, "kl_unbiased would bias k2"),
        ({"clip_low": 0.1, "loss_options": {"clip_low": 0.2}}, "clip_low is set by its own field"),
        ({"delta": 4.0, "loss_options": {"delta": None}}, "delta is set by its own field"),
    ],
)
def test_what_would_be_ignored_is_refused(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        UpdateFields(**fields)


@pytest.mark.parametrize(
    ("fields", "warned"),
    [
        ({"kl_coef": 0.1, "kl_estimator": "k1"}, True),
        ({"kl_coef": 0.0, "kl_estimator": "k1"}, False),
        ({"kl_coef": 0.1, "kl_estimator": "k1", "kl_unbiased": True}, False),
        ({"kl_coef": 0.1, "kl_estimator": "k1", "kl_place": "reward"}, False),
        ({"kl_coef": 0.1, "kl_estimator": "k3"}, False),
    ],
)
def test_k1_in_the_loss_is_warned_of(fields: dict[str, Any], warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    objective = build_objective(UpdateFields(**fields), None, max_new_tokens=4, temperature=1.0)
    assert (K1_IN_THE_LOSS in caplog.text) is warned
    if warned:
        logp = LOGP.clone().requires_grad_()
        assert objective.kl is not None
        assert torch.autograd.grad(objective.kl(logp, OLD).sum(), logp)[0].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("kind", sorted(CORRECTIONS))
def test_every_correction_can_be_chosen(kind: str) -> None:
    correction = choose_correction(UpdateFields(correction=kind, correction_options={"high": 1.2}))
    assert correction is not None
    weights = correction(LOGP, LOGP, OLD, ADVANTAGES[:, None].expand(2, 2), MASK)
    assert weights.shape == (2, 2)
    assert weights.max() <= 1.2 + 1e-6
    assert weights[1, 1] == 0


def test_opsm_drops_a_bad_completion_that_has_become_unlikely() -> None:
    correction = choose_correction(UpdateFields(correction="opsm", correction_options={"delta": 0.1}))
    assert correction is not None
    advantages_BT = torch.tensor([[-1.0, -1.0], [-1.0, -1.0]])
    assert correction(LOGP, LOGP, OLD, advantages_BT, MASK).tolist() == [[0, 0], [1, 0]]
    assert correction(LOGP, LOGP, OLD, -advantages_BT, MASK).tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"correction": "token_trunkated"}, "there is no correction 'token_trunkated'; did you mean 'token_truncated'?"),
        ({"correction": "token_masked", "correction_options": {"hihg": 2.0}}, "did you mean 'high'?"),
        ({"correction": "token_masked", "correction_options": {"low": 3.0, "high": 2.0}}, "low <= high"),
        ({"correction": "opsm"}, "field 'correction': opsm"),
    ],
)
def test_a_correction_that_does_not_fit_is_refused(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_correction(UpdateFields(**fields))
    assert expected in str(caught.value)


def test_the_unbiased_kl_has_the_gradient_of_the_kl_and_the_value_of_its_estimator() -> None:
    settings: dict[str, Any] = {"max_new_tokens": 4, "temperature": 1.0}
    logp = LOGP.clone().requires_grad_()
    for unbiased, wanted in ((True, LOGP - OLD), (False, 1 - (OLD - LOGP).exp())):
        kl = build_objective(UpdateFields(kl_coef=0.1, kl_unbiased=unbiased), None, **settings).kl
        assert kl is not None
        values = kl(logp, OLD)
        torch.testing.assert_close(values.detach(), KL_ESTIMATORS["k3"](LOGP, OLD))
        torch.testing.assert_close(torch.autograd.grad(values.sum(), logp)[0], wanted)


def test_the_kl_stands_in_one_place() -> None:
    settings: dict[str, Any] = {"max_new_tokens": 4, "temperature": 1.0}
    assert build_objective(UpdateFields(kl_coef=0.1), None, **settings).kl_coef == 0.1
    assert build_objective(UpdateFields(kl_coef=0.1, kl_place="reward"), None, **settings).kl_coef == 0
    with pytest.raises(ValueError, match="kl_unbiased"):
        UpdateFields(kl_coef=0.1, kl_place="reward", kl_unbiased=True)


def test_a_completion_loses_its_summed_kl(tiny_model: Any) -> None:
    groups = [group("a", [RIGHT, WRONG], tokens=[3, 1]), group("b", [RIGHT, WRONG], tokens=[2, 4])]
    forward: dict[str, Any] = {"temperature": 1.0, "token_budget": 100, "pad_id": 0}
    found_BT, metrics = kl_penalties(tiny_model, groups, KL_ESTIMATORS["k1"], 0.5, **forward)
    nats = []
    for length in (3, 1, 2, 4):  # tokens 7, after the prompt (5, 6), each sampled at -1 nat
        logits = tiny_model(torch.tensor([[5, 6, *[7] * length]])).logits[0, 1:-1]
        nats.append(float((-1 - torch.log_softmax(logits.detach(), -1)[:, 7]).sum()))
    assert found_BT.shape == (4, 4)
    torch.testing.assert_close(found_BT.sum(1), 0.5 * torch.tensor(nats, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    assert metrics["kl"] == pytest.approx(sum(nats) / 10, rel=1e-5)
