"""The critic: values and their gradient against plain formulas, advantages of rows, and PPO in the loop."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from exact import float64, relative
from runs import LETTERS, rows
from safetensors.torch import load_file

from verigym.envs.contract.errors import UsageError
from verigym.trainer.advantages.gae import gae, value_loss
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.learner.critic import Critic, ValueModel, accumulate_values
from verigym.trainer.learner.update import policy_logprobs
from verigym.trainer.logprobs.forward import ForwardOptions, decoder
from verigym.trainer.logprobs.shared_prefix import shareable
from verigym.trainer.loop import train

FORWARD: dict[str, Any] = {"token_budget": 1000, "pad_id": 0}
PLAIN: dict[str, Any] = {"critic_learning_rate": 1e-5}
"""The default, for runs without a critic."""
ROWS = [
    TrainingRow((5, 6, 7), (20, 21, 22), 1.0, True),
    TrainingRow((5, 6, 7), (23,), 0.0, True),
    TrainingRow((8, 9), (24, 25, 26, 27, 28), 0.5, True, loss_mask=(True, False, False, True, False)),
    TrainingRow((8, 9), (29, 30), 0.0, False),
]


def config(model: Path, output: Path, **more: Any) -> TrainConfig:
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "letters"}],
        "preset": "ppo",
        "steps": 3,
        "prompts_per_step": 6,
        "group_size": 1,
        "max_new_tokens": 10,
        "learning_rate": 1e-2,
        "critic_learning_rate": 1e-2,
        "warmup_steps": 0,
        "eval_every": 0,
        "checkpoint_every": 1,
        "workers": 0,
        "threads": 1,
        "device": "cpu",
    }
    return build_config(fields | more, "test")


def run(model: Path, output: Path, **more: Any) -> list[dict[str, Any]]:
    train(config(model, output, **more), LETTERS)
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows(output)]


def weights(folder: Path) -> bytes:
    return (folder / "final/model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def values_model(tiny_model: Any) -> Any:
    model = ValueModel(decoder(float64(tiny_model)), seed=3).double()
    with torch.no_grad():
        model.value_head.weight.mul_(30)  # not near 0, as at the start
    return model


def naive_values(model: Any, row: TrainingRow) -> torch.Tensor:
    """From one unpadded row: the hidden state before each token, times the head."""
    hidden_LH = model.base_model(input_ids=torch.tensor([[*row.prompt_ids, *row.token_ids]])).last_hidden_state[0]
    before_TH = hidden_LH[len(row.prompt_ids) - 1 : -1]
    return before_TH @ model.value_head.weight[0] + model.value_head.bias  # type: ignore[no-any-return]


@pytest.mark.parametrize("shared_prefix", [True, False])
def test_a_value_is_of_the_state_before_its_token(values_model: Any, shared_prefix: bool) -> None:
    assert shareable(values_model)
    found = policy_logprobs(values_model, ROWS, temperature=1.0, shared_prefix=shared_prefix, **FORWARD)
    with torch.no_grad():
        for row, values in zip(ROWS, found, strict=True):
            assert values == pytest.approx(naive_values(values_model, row).tolist(), rel=1e-9)
    assert max(map(abs, found[0])) > 0.1


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize(("budget", "shared_prefix"), [(1000, True), (1000, False), (9, True), (9, False)])
def test_the_gradient_is_that_of_the_mean_over_trained_tokens(
    values_model: Any, budget: int, shared_prefix: bool, clip: float | None
) -> None:
    rows = [
        replace(row, values=tuple(0.1 * t for t in range(len(row.token_ids))), returns=(1.0,) * len(row.token_ids))
        for row in ROWS
    ]
    values_model.zero_grad(set_to_none=True)
    how = ForwardOptions(pad_id=0, token_budget=budget, shared_prefix=shared_prefix)
    metrics = accumulate_values(values_model, rows, value_clip=clip, how=how)
    found = flat(values_model)
    values_model.zero_grad(set_to_none=True)
    total = torch.zeros((), dtype=torch.float64)
    for row in rows[:3]:  # the last is not trained on
        own = torch.tensor(row.loss_mask or (True,) * len(row.token_ids))
        old, returns = (torch.tensor([given], dtype=torch.float64) for given in (row.values, row.returns))
        loss_1T, _ = value_loss(naive_values(values_model, row)[None], old, returns, value_clip=clip)
        total = total + loss_1T[0, own].sum() / 6  # 3 + 1 + 2 tokens
    total.backward()  # type: ignore[no-untyped-call]
    assert metrics["value_loss"] == pytest.approx(float(total.detach()), rel=1e-9)
    assert relative(found, flat(values_model)) < 1e-10


def flat(model: Any) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.fixture(scope="module")
def critic(letters_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Critic:
    made = config(letters_model, tmp_path_factory.mktemp("out"), gae_lambda=0.9, gae_gamma=0.8, whiten_advantages=False)
    return Critic(made, torch.device("cpu"))


def test_the_reward_is_paid_for_the_last_token_written(critic: Critic) -> None:
    penalties = torch.arange(20, dtype=torch.float64).reshape(4, 5) / 100
    (found,), metrics = critic.credit([ROWS], penalties, **FORWARD)
    assert [row.advantage for row in found] == [row.advantage for row in ROWS], "the reward stays to be seen"
    for number, (row, place) in enumerate(zip(found[:3], (2, 0, 3), strict=True)):
        length = len(row.token_ids)
        rewards = -penalties[number : number + 1, :length]
        rewards[0, place] += row.advantage
        values, mask = torch.tensor([row.values], dtype=torch.float64), torch.tensor([row.trained_mask])
        advantages, returns = gae(rewards, values, mask, gamma=0.8, lam=0.9)
        assert row.advantages == pytest.approx(advantages[0].tolist())
        assert row.returns == pytest.approx(returns[0].tolist())
    assert found[3].advantages == (0.0, 0.0), "without a verdict"
    assert metrics["value"] == pytest.approx(0, abs=0.5)


def test_nothing_to_train_on_teaches_nothing(critic: Critic) -> None:
    (found,), metrics = critic.credit([[replace(row, trained=False) for row in ROWS]], None, **FORWARD)
    assert not any(any(row.advantages) for row in found) and metrics == {}
    assert critic.update(0, found, **FORWARD) == {}


def test_whitening_is_over_the_tokens_of_the_step(letters_model: Path, tmp_path: Path) -> None:
    whitening = Critic(config(letters_model, tmp_path), torch.device("cpu"))
    groups, _ = whitening.credit([ROWS[:2], ROWS[2:]], None, **FORWARD)
    rows = [row for group in groups for row in group]
    known = torch.tensor([a for row in rows for a, own in zip(row.advantages, row.trained_mask, strict=True) if own])
    assert len(known) == 6
    assert float(known.mean()) == pytest.approx(0, abs=1e-6)
    assert float(known.std()) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_a_critic_learns_what_its_states_were_worth(letters_model: Path, tmp_path: Path) -> None:
    made = Critic(config(letters_model, tmp_path, steps=60, value_clip=None), torch.device("cpu"))
    apart = [ROWS[0], ROWS[2]]  # no state with two returns
    (rows,), first = made.credit([apart], None, **FORWARD)
    losses = [made.update(step, rows, **FORWARD)["value_loss"] for step in range(60)]
    assert losses[-1] < 0.05 * losses[0]
    _, last = made.credit([apart], None, **FORWARD)
    assert last["explained_variance"] > 0.8 > first["explained_variance"]


def test_a_gradient_that_is_not_finite_leaves_the_critic_alone(
    letters_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Critic(config(letters_model, tmp_path), torch.device("cpu"))
    before = copy.deepcopy(made.model.state_dict())
    (rows,), _ = made.credit([ROWS], None, **FORWARD)
    bad = [replace(rows[0], returns=(float("nan"),) * 3), *rows[1:]]
    made.update(0, bad, **FORWARD)
    assert "step 1: the critic's gradient is not finite" in caplog.text
    assert all(torch.equal(before[name], tensor) for name, tensor in made.model.state_dict().items())


def test_a_critic_that_is_not_finite_leaves_its_batch_and_stops_the_run(
    letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credit = Critic.credit

    def spoilt(self: Critic, *args: Any, **forward: Any) -> Any:
        groups, metrics = credit(self, *args, **forward)
        return [[replace(row, returns=(float("inf"),) * len(row.token_ids)) for row in group] for group in groups], metrics

    monkeypatch.setattr(Critic, "credit", spoilt)
    with pytest.raises(UsageError, match="training stopped at step 2: not_finite: .*critic_grad_norm"):
        run(letters_model, tmp_path, max_bad_steps=2)
    kept = load_file(tmp_path / "bad_batches/step-00000001.safetensors")
    assert kept["returns"].isinf().all() and kept["values"].isfinite().all()
    page = json.loads((tmp_path / "bad_batches/step-00000001.json").read_text())
    assert page["metrics"]["critic_grad_norm"] in ("inf", "nan") and isinstance(page["metrics"]["grad_norm"], float)


def test_the_spread_of_the_rewards_is_reported(critic: Critic) -> None:
    assert critic.credit([ROWS], None, **FORWARD)[1]["reward_spread"] == 1.0
    equal = [replace(row, advantage=0.5) for row in ROWS]
    assert critic.credit([equal[:2], equal[2:]], None, **FORWARD)[1]["reward_spread"] == 0.0
    assert "reward_spread" not in critic.credit([ROWS[2:]], None, **FORWARD)[1], "one reward is neither equal nor different"


def test_a_run_learns_without_groups(letters_model: Path, tmp_path: Path) -> None:
    found = run(letters_model, tmp_path, epochs_per_step=2, updates_per_step=2, kl_coef=0.1, checkpoint_every=100)
    assert all(row["rows_with_advantage"] == row["trained_rows"] == 6 for row in found)
    for name in ("value_loss", "critic_grad_norm", "grad_norm", "explained_variance"):
        assert all(row[name] != 0 for row in found), name
    assert found[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert abs(found[2]["kl"]) > 1e-4
    assert weights(tmp_path) != (letters_model / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_stopped_it_goes_on_with_its_critic(letters_model: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"epochs_per_step": 2, "updates_per_step": 2, "kl_coef": 0.1, "group_size": 2}
    whole = run(letters_model, tmp_path / "whole", **more)
    run(letters_model, tmp_path / "parts", **more, steps=1)
    assert run(letters_model, tmp_path / "parts", **more) == whole
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    one, two = (
        torch.load(tmp_path / name / "checkpoints/step-00000003/critic.pt", weights_only=True) for name in ("whole", "parts")
    )
    assert all(torch.equal(tensor, two["model"][name]) for name, tensor in one["model"].items())
    for number, state in one["optimizer"]["state"].items():
        assert all(torch.equal(tensor, two["optimizer"]["state"][number][name]) for name, tensor in state.items())


@pytest.fixture(scope="module")
def plain(letters_model: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("plain")
    run(letters_model, folder, steps=2, epochs_per_step=2, value_clip=None, checkpoint_every=100)
    return weights(folder)


@pytest.mark.parametrize(
    "setting",
    [
        {"gae_lambda": 0.5},
        {"gae_gamma": 0.9},
        {"whiten_advantages": False},
        {"critic_learning_rate": 1e-3},
        {"value_clip": 1e-3},
    ],
    ids=str,
)
def test_every_setting_reaches_the_mathematics(
    setting: dict[str, Any], plain: bytes, letters_model: Path, tmp_path: Path
) -> None:
    run(letters_model, tmp_path, **{"steps": 2, "epochs_per_step": 2, "value_clip": None, "checkpoint_every": 100, **setting})
    assert weights(tmp_path) != plain


def test_the_head_begins_as_the_seed_says(tiny_model: Any) -> None:
    one, again, other = (ValueModel(decoder(tiny_model), seed).value_head.weight for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"preset": "grpo"}, "group_size is 1, but grpo compares the completions of a group"),
        ({"sources": [{"environment": "letters", "advantage": "rloo"}]}, "a critic gives every source its advantages"),
        (
            {**PLAIN, "preset": None, "group_size": 4, "sources": [{"environment": "letters", "advantage": "gae"}]},
            "a critic gives every source its advantages",
        ),
        (
            {**PLAIN, "advantage": "reinforce++", "sources": [{"environment": "letters", "advantage": "rloo"}]},
            "'letters': group_size is 1, but rloo compares",
        ),
        ({"step_rewards": True}, "step_rewards would take the place of the critic's"),
        ({"dynamic_sampling": True}, "groups of equal rewards that dynamic_sampling drops"),
        ({"advantage_options": {"lam": 0.9}}, "gae takes no option 'lam'"),
        ({"gae_lambda": 1.5}, "gae_lambda"),
    ],
    ids=str,
)
def test_settings_that_clash_are_refused(fields: dict[str, Any], message: str, letters_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        train(config(letters_model, tmp_path, **fields), LETTERS)
    assert "\n" not in str(caught.value)


def test_one_completion_a_prompt_is_enough_for_reinforce_too(letters_model: Path, tmp_path: Path) -> None:
    found = run(letters_model, tmp_path, preset="reinforce++", steps=1, **PLAIN)
    assert found[0]["rows_with_advantage"] == 6 and "value_loss" not in found[0]


def test_the_documentation_shows_settings_that_work(letters_model: Path, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/training.md").read_text()
    snippet = page.split("## PPO with a critic")[1].split("```yaml\n")[1].split("```")[0]
    made = config(letters_model, tmp_path, **yaml.safe_load(snippet))
    assert (made.advantage, made.group_size, made.epochs_per_step) == ("gae", 1, 2)
