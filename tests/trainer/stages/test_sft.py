"""Supervised fine-tuning: the loss is of completions alone, packing changes nothing, and a stopped run is the same run."""

from __future__ import annotations

import copy
import gzip
import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from verigym.envs import UsageError
from verigym.trainer.logprobs.forward import ForwardOptions, row_logprobs
from verigym.trainer.models.codec import Codec
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.stages import step_run as run_module
from verigym.trainer.stages.config import SftConfig
from verigym.trainer.stages.examples import Pair, read_examples, to_pairs
from verigym.trainer.stages.scratch import ScratchConfig
from verigym.trainer.stages.sft import Batches, held_out_metrics, nll_gradient, sft

PAIRS = [Pair((5, 6, 7), (20, 21, 1)), Pair((8,), (22, 23, 24, 25, 1)), Pair((9, 10), (1,)), Pair((5, 6, 7), (30, 31))]
Fields = Callable[..., dict[str, Any]]


def written(path: Path, count: int = 40) -> Path:
    rows = [{"prompt": f"{n}+1=?", "completion": f"\\boxed{{{n + 1}}}", "source": "hand"} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def gradients(model: Any) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(("budget", "capacity"), [(8192, None), (8192, 100), (12, 12), (1, 1)])
def test_the_gradient_is_the_naive_one_however_it_is_packed(tiny_model: Any, budget: int, capacity: int | None) -> None:
    naive, packed = copy.deepcopy(tiny_model), copy.deepcopy(tiny_model)
    total, expected, probability = 0, torch.zeros(()), 0.0
    for pair in PAIRS:
        ids = torch.tensor([[*pair.prompt_ids, *pair.token_ids]])
        logp = naive(input_ids=ids).logits[0].log_softmax(-1)
        before = expected
        for place in range(len(pair.prompt_ids), ids.shape[1]):
            expected = expected - logp[place - 1, ids[0, place]]
            total += 1
        probability += math.exp(float((before - expected).detach()))
    (expected / total).backward()
    loss = nll_gradient(packed, PAIRS, ForwardOptions(pad_id=0, token_budget=budget), capacity)
    assert loss == pytest.approx(float(expected.detach()) / total, rel=1e-5)
    torch.testing.assert_close(gradients(packed), gradients(naive), rtol=1e-3, atol=1e-6)
    with torch.no_grad():
        found = held_out_metrics(packed, PAIRS, ForwardOptions(pad_id=0), capacity)
    assert found == {"loss": pytest.approx(loss, rel=1e-5), "probability": pytest.approx(probability / len(PAIRS), rel=1e-4)}


def test_prompts_are_in_no_loss(tiny_model: Any) -> None:
    alone = row_logprobs(tiny_model, [PAIRS[0].prompt_ids], [PAIRS[0].token_ids], ForwardOptions(pad_id=0)).logp_BT
    with torch.no_grad():
        found = held_out_metrics(tiny_model, PAIRS[:1], ForwardOptions(pad_id=0))
    assert found["loss"] == pytest.approx(-float(alone.detach().mean()), rel=1e-5)


def test_batches_go_over_all_examples_once_an_epoch_in_an_order_of_its_own() -> None:
    pairs = [Pair((number,), (1,)) for number in range(10)]
    batches = Batches(pairs, 4, seed=1)
    drawn = [pair.prompt_ids[0] for step in range(5) for pair in batches.of(step)]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:]
    assert drawn == [pair.prompt_ids[0] for step in range(5) for pair in Batches(pairs, 4, seed=1).of(step)]
    assert drawn != [pair.prompt_ids[0] for step in range(5) for pair in Batches(pairs, 4, seed=2).of(step)]


def test_examples_of_every_shape(tmp_path: Path, tiny_tokenizer: Any) -> None:
    path = tmp_path / "data.jsonl"
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1=?"}]
    rows = [
        {"prompt": "1+1=?", "completion": "2"},
        {"prompt": chat, "completion": "2", "reward": 1.0},
        {"messages": [*chat, {"role": "assistant", "content": "2"}]},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    first, second, third = read_examples(path)
    assert second == third
    assert [message.role for message in second.messages] == ["system", "user"]
    assert first.key != second.key
    codec = Codec(tiny_tokenizer)
    (pair,) = to_pairs([first], codec)
    assert tiny_tokenizer.decode(pair.prompt_ids) == "1+1=?\n"
    assert pair.token_ids[-1] == tiny_tokenizer.eos_token_id
    assert codec.decode(pair.token_ids) == "2"
    assert pair.length == len(pair.prompt_ids) + len(pair.token_ids)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "data.jsonl:2: expected an object with prompt and completion, got list"),
        ("{", "data.jsonl:2: not JSON"),
        ('{"prompt": "a"}', "data.jsonl:2: field 'completion' must be a text"),
        ('{"prompt": 3, "completion": "a"}', "data.jsonl:2: field 'prompt': expected a text or a list of messages"),
        ('{"prompt": [], "completion": "a"}', "data.jsonl:2: field 'prompt' has no message"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "data.jsonl:2: field 'messages' must end with an answer"),
        ("{}", "data.jsonl:2: field 'messages': expected"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "a", "completion": "b"}\n' + line + "\n")
    with pytest.raises(UsageError) as caught:
        read_examples(path)
    assert message in str(caught.value)


def test_a_gzip_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt": "a", "completion": "b"}\r\n\n{"prompt": "c", "completion": "d"}\n'))
    assert [example.completion for example in read_examples(path)] == ["b", "d"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"data.jsonl.gz is a damaged gzip file"):
        read_examples(path)


def test_it_learns_and_says_so(tmp_path: Path, fit_fields: Fields) -> None:
    data = written(tmp_path / "data.jsonl")
    fields = fit_fields(tmp_path / "out", data=[str(data)], steps=20, batch_size=8, eval_every=10, held_out_share=0.2)
    final = sft(SftConfig(**fields))
    rows = read_rows(tmp_path / "out/metrics.jsonl")
    looks = [row["loss"] for row in rows if row["kind"] == "eval"]
    losses = [row["loss"] for row in rows if row["kind"] == "train"]
    assert len(losses) == 20 and len(looks) == 3
    assert losses[-1] < 0.5 * losses[0] and looks[-1] < 0.6 * looks[0]
    assert final == tmp_path / "out/final" and (final / "model.safetensors").exists() and (final / "tokenizer.json").exists()


@pytest.mark.parametrize("extra", [{}, {"lora_rank": 2}])
def test_stopped_anywhere_it_ends_with_the_same_weights(
    tmp_path: Path, fit_fields: Fields, extra: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written(tmp_path / "data.jsonl", 12)
    fields = {"data": [str(data)], "steps": 5, "batch_size": 4, "checkpoint_every": 2, "eval_every": 2, **extra}
    whole = sft(SftConfig(**fit_fields(tmp_path / "whole", **fields)))

    real = run_module.StepRun._step

    def step(self: Any, number: int, *more: Any) -> dict[str, float]:
        if number == 2 and not self.resumed:
            signal.raise_signal(signal.SIGINT)
        return real(self, number, *more)

    monkeypatch.setattr(run_module.StepRun, "_step", step)
    config = SftConfig(**fit_fields(tmp_path / "halved", **fields))
    with pytest.raises(Interrupted, match="stopped after step 3 of 5"):
        sft(config)
    assert not (tmp_path / "halved/final").exists()
    halved = sft(config)
    for name in [path.name for path in whole.glob("*.safetensors")]:
        ours, theirs = load_file(halved / name), load_file(whole / name)
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    metrics = [
        [{name: value for name, value in row.items() if name != "step_s"} for row in read_rows(folder / "metrics.jsonl")]
        for folder in (tmp_path / "whole", tmp_path / "halved")
    ]
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize("stopped_after", [None, 1, 4])
def test_it_ends_when_held_out_completions_are_likely_enough(
    tmp_path: Path, fit_fields: Fields, stopped_after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is stopped at the very step, before its evaluation."""
    data = written(tmp_path / "data.jsonl", 12)
    fields = {"data": [str(data)], "batch_size": 4, "steps": 9, "eval_every": 2, "held_out_share": 0.3, "schedule": "constant"}
    sft(SftConfig(**fit_fields(tmp_path / "whole", **fields)))
    looks = {row["step"]: row["probability"] for row in read_rows(tmp_path / "whole/metrics.jsonl") if row["kind"] == "eval"}
    assert looks[0] < looks[2] < looks[4] < looks[6]

    real = run_module.StepRun._step

    def step(self: Any, number: int, *more: Any) -> dict[str, float]:
        if number + 1 == stopped_after and not self.resumed:
            signal.raise_signal(signal.SIGINT)
        return real(self, number, *more)

    monkeypatch.setattr(run_module.StepRun, "_step", step)
    target = (looks[2] + looks[4]) / 2
    config = SftConfig(**fit_fields(tmp_path / "out", **fields, target_probability=target))
    if stopped_after is not None:
        with pytest.raises(Interrupted):
            sft(config)
    for _ in range(2):  # the second call trains nothing
        final = sft(config)
        rows = read_rows(tmp_path / "out/metrics.jsonl")
        assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2, 3, 4]
        assert [row["step"] for row in rows if row["kind"] == "eval"] == [0, 2, 4]
        assert (final / "model.safetensors").exists()


def test_a_target_without_held_out_examples_is_refused(tmp_path: Path, fit_fields: Fields) -> None:
    data = written(tmp_path / "data.jsonl", 4)
    with pytest.raises(UsageError, match="no example is held out"):
        sft(SftConfig(**fit_fields(tmp_path / "a", data=[str(data)], held_out_share=0, target_probability=0.5)))


def test_other_examples_do_not_go_on_from_these(tmp_path: Path, fit_fields: Fields) -> None:
    data = written(tmp_path / "data.jsonl", 8)
    config = SftConfig(**fit_fields(tmp_path / "out", data=[str(data)], steps=2, batch_size=4, eval_every=0))
    sft(config)
    written(data, 9)
    with pytest.raises(UsageError, match="new folder"):
        sft(config)


def test_demonstrations_are_a_cold_start_whose_held_out_tasks_are_others(tmp_path: Path, fit_fields: Fields) -> None:
    sources = [{"environment": "arithmetic", "options": {"digits": 1}}, {"environment": "units"}]
    fields = fit_fields(tmp_path, demonstrations=sources, demonstration_count=20, held_out_count=6, batch_size=10)
    config = SftConfig(**fields, eval_every=1)
    sft(config)
    from verigym.trainer.stages.sft import gather_examples

    train, held = gather_examples(config)
    assert (len(train), len(held)) == (20, 6)
    assert not {one.key for one in train} & {one.key for one in held}
    assert len([row for row in read_rows(tmp_path / "metrics.jsonl") if row["kind"] == "train"]) == 2, "one epoch"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "nothing to learn from"),
        ({"demonstrations": [{"dataset": "gsm8k"}]}, "written by an environment"),
        ({"data": ["x"], "eval_every": 0, "target_probability": 0.5}, "target_probability.*eval_every above 0"),
        ({"data": ["x"], "adam_betas": [1.0, 0.9]}, "adam_betas"),
        ({"data": ["x"], "lora_base": "bf16", "lora_rank": 4}, "set dtype to bf16"),
    ],
)
def test_settings_that_clash_are_refused(tmp_path: Path, fit_fields: Fields, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SftConfig(**fit_fields(tmp_path, **fields))


@pytest.mark.parametrize("source", [{"dataset": "gsm8k"}, {"dataset": "gsm8k", "environment": "math"}])
def test_a_data_set_writes_no_demonstrations(source: dict[str, Any], tmp_path: Path, fit_fields: Fields) -> None:
    for make in (
        lambda: SftConfig(**fit_fields(tmp_path, demonstrations=[source])),
        lambda: ScratchConfig(output=tmp_path, demonstrations=[source]),
    ):
        with pytest.raises(ValueError, match="a data set's rows go into `data` of an sft stage"):
            make()


def test_what_cannot_be_learnt_from_is_refused(tmp_path: Path, fit_fields: Fields) -> None:
    data = written(tmp_path / "data.jsonl", 4)
    with pytest.raises(UsageError, match="all 4 examples are longer"):
        sft(SftConfig(**fit_fields(tmp_path / "a", data=[str(data)], max_tokens=3, held_out_share=0)))
    with pytest.raises(UsageError, match="cannot be read"):
        sft(SftConfig(**fit_fields(tmp_path / "b", data=[str(tmp_path / "none.jsonl")])))
    with pytest.raises(UsageError, match="writes no worked solutions"):
        sft(SftConfig(**fit_fields(tmp_path / "c", demonstrations=[{"environment": "math"}])))
