"""A run with a chat model: what it was made with, the end tokens that it samples and trains, and the folder that it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from qwen_like import THINKING_CHATML
from runs import LETTERS, run, settings

from verigym.envs import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.loop import train
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.reward_models.config import StepLabelsConfig
from verigym.trainer.reward_models.step_labelling import label_steps
from verigym.trainer.stages.config import OnPolicyConfig, SampleConfig, SftConfig
from verigym.trainer.stages.distill import distill_on_policy
from verigym.trainer.stages.rejection_sampling import sample
from verigym.trainer.stages.sample_log import read_samples
from verigym.trainer.stages.sft import sft

OFF, ON = {"enable_thinking": False}, {"enable_thinking": True}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model with several end tokens, whose generation_config.json has more than verigym reads."""
    folder = tmp_path_factory.mktemp("chat_model")
    tokenizer = scratch_tokenizer(["What is 2+2?"], template=THINKING_CHATML)
    made = scratch_qwen3(tokenizer, hidden_size=32, layers=1, heads=2, intermediate_size=32)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ends = list(range(1, len(tokenizer), 8))
    more = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05}
    written = {"eos_token_id": ends, "pad_token_id": tokenizer.pad_token_id, **more}
    (folder / "generation_config.json").write_text(json.dumps(written))
    return folder


def read(file: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(file.read_text())
    known.pop("transformers_version", None)
    return known


def test_a_resumed_run_refuses_another_value(model: Path, tmp_path: Path) -> None:
    run(model, tmp_path, steps=1, chat_template_kwargs=OFF)
    told = "chat_template_kwargs.enable_thinking was false and is now true"
    with pytest.raises(UsageError, match=f"was made with other settings: {told}"):
        run(model, tmp_path, steps=2, chat_template_kwargs=ON)
    sources = [{"environment": "letters", "system": "Be brief."}]
    with pytest.raises(UsageError, match='sources.0.system was null and is now "Be brief."'):
        run(model, tmp_path, steps=2, chat_template_kwargs=OFF, sources=sources)
    assert len(run(model, tmp_path, steps=2, chat_template_kwargs=OFF)) == 2


def test_a_run_with_an_unused_variable_is_refused_at_once(model: Path, tmp_path: Path) -> None:
    config = build_config(settings(model, tmp_path, chat_template_kwargs={"thinking": False}), "test")
    with pytest.raises(UsageError, match="does not use 'thinking'"):
        train(config, LETTERS)


@pytest.mark.parametrize(
    ("stage", "config"),
    [
        (sft, lambda sources, **fields: SftConfig(demonstrations=sources, **fields)),
        (distill_on_policy, lambda **fields: OnPolicyConfig(teacher=fields["model"], workers=0, **fields)),
        (sample, lambda **fields: SampleConfig(prompts=1, workers=0, **fields)),
        (label_steps, lambda **fields: StepLabelsConfig(prompts=1, workers=0, **fields)),
    ],
)
def test_every_stage_gives_the_variables_to_the_template(stage: Any, config: Any, model: Path, tmp_path: Path) -> None:
    fields = {"model": str(model), "output": tmp_path, "sources": ({"environment": "arithmetic"},), "device": "cpu"}
    with pytest.raises(UsageError, match="does not use 'thinking'; did you mean 'enable_thinking'"):
        stage(config(chat_template_kwargs={"thinking": False}, **fields))


@pytest.mark.parametrize("more", [{}, pytest.param({"lora_rank": 2}, marks=[pytest.mark.slow, needs("peft")])])
def test_the_final_folder_ends_and_talks_as_the_first_model_did(more: dict[str, Any], model: Path, tmp_path: Path) -> None:
    run(model, tmp_path, steps=1, chat_template_kwargs=OFF, **more)
    final = tmp_path / "final"
    assert read(final / "generation_config.json") == read(model / "generation_config.json")
    assert (final / "chat_template.jinja").read_text() == (model / "chat_template.jinja").read_text() == THINKING_CHATML
    before, after = (read(folder / "tokenizer_config.json") for folder in (model, final))
    assert {name: after.get(name) for name in ("eos_token", "pad_token", "bos_token")} == {
        name: before.get(name) for name in ("eos_token", "pad_token", "bos_token")
    }


@pytest.mark.slow
def test_an_evaluation_samples_with_the_variable_and_adds_none_with_another(model: Path, tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "models": {"m": str(model)},
        "sources": [{"environment": "arithmetic", "template": "chat"}],
        "prompts": 2,
        "max_new_tokens": 8,
        "workers": 0,
        "device": "cpu",
    }
    texts = {}
    for name, given in (("on", ON), ("off", OFF)):
        run_evaluation(EvalConfig(output=tmp_path / name, chat_template_kwargs=given, **fields))
        found = read_samples(tmp_path / name / "samples-m.jsonl")
        texts[name] = [sample.text for one in found for sample in one.samples]
    assert all(text.startswith("<think>\n") for text in texts["on"])
    assert not any(text.startswith("<think>") for text in texts["off"])
    with pytest.raises(UsageError, match="chat_template_kwargs.enable_thinking was true and is now false"):
        run_evaluation(EvalConfig(output=tmp_path / "on", chat_template_kwargs=OFF, **fields))
