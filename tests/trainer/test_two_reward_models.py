"""Two reward models in one mixture, from YAML: one reads the answer alone, the other the whole text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import Completion, UsageError
from verigym.envs.grading import Grader
from verigym.trainer.config.run import read_config
from verigym.trainer.pipelines.pipeline import graders
from verigym.trainer.tasks.mixture import Source, build_source

DATASET = """
name: chats
description: Questions that models of reward judge the answers of.
licence: ours
url: none
hub: null
files:
  train: {path: train.jsonl}
  test: {path: test.jsonl}
environment: reward_model
columns: {question: string}
prompt: "{question}"
question: "{question}"
sample_row: {question: "Why is the sky blue?"}
contamination: Made for this test.
"""
TEMPLATE = "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] | trim }}<eos>{% endfor %}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> tuple[str, str]:
    """Two Qwen3 classifiers of one layer with different weights."""
    import copy

    import torch
    from transformers import Qwen3Config, Qwen3ForSequenceClassification

    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = TEMPLATE
    folders = []
    for seed in (1, 2):
        sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
        heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256}
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            config = Qwen3Config(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=1, **sizes, **heads)
            model = Qwen3ForSequenceClassification(config)
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.ndim > 1:
                        parameter.mul_(6)
        folder = tmp_path_factory.mktemp(f"reward{seed}")
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        folders.append(str(folder))
    return folders[0], folders[1]


@pytest.fixture
def source(tmp_path: Path, models: tuple[str, str]) -> Callable[..., Source]:
    for split in ("train", "test"):
        rows = [json.dumps({"question": f"{split} {number}: why?"}) for number in range(3)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows))
    (tmp_path / "chats.yaml").write_text(DATASET)

    def make(extra: str = "", name: str = "harmless") -> Source:
        helpful, harmless = models
        path = tmp_path / "run.yaml"
        path.write_text(f"""
model: m
output: o
sources:
  - dataset: {tmp_path}/chats.yaml
    data_dir: {tmp_path}
    name: chats
    options: {{model: {helpful}, device: cpu}}
    {extra}
    add:
      {name}:
        environment: reward_model
        weight: 1.0
        options: {{model: {harmless}, device: cpu, reads: whole}}
""")
        (config,) = read_config(path).sources
        graders(read_config(path))  # a pipeline can tell which models it was made with
        return build_source(config, 0, 2)

    return make


def test_helpful_on_the_answer_and_harmless_on_the_whole_text(source: Callable[..., Source]) -> None:
    made = source("added_may_dominate: true")
    prompt = made.train(0)
    mild, rude = (f"<think>{thought}</think>It is 46." for thought in ("2+4=6", "nonsense, nonsense, nonsense"))
    with Grader(made.environment, workers=0) as grader:
        group = [Completion(text=text, finish_reason="stop") for text in (mild, rude, mild)]
        first, second, third = (future.result() for future in grader.submit_group(prompt, group))
    assert first.components["reward_model"] == second.components["reward_model"], "the thinking is not read"
    assert abs((first.components["harmless"] or 0) - (second.components["harmless"] or 0)) > 1e-3, "the thinking is read"
    assert first.components == third.components
    for score in (first, second):
        assert score.reward == pytest.approx((score.components["reward_model"] or 0) + (score.components["harmless"] or 0))
    assert made.environment.reward_range == (0.0, 2.0)


def test_an_opinion_added_may_dominate_only_where_it_is_said(source: Callable[..., Source]) -> None:
    with pytest.raises(UsageError, match="source 'chats'.*could outrank.*added_may_dominate"):
        source()
    with pytest.raises(UsageError, match=r"add names 'reward_model', which already grades it; give the added one a name"):
        source("added_may_dominate: true", name="reward_model")
