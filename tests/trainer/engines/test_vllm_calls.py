"""What is prepared for vLLM in the trainer's process; vLLM itself is not needed."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import transformers

from verigym.trainer.engines.vllm.calls import prepare_environment
from verigym.trainer.models.lora import plain_config

SWITCH = "VLLM_ENABLE_V1_MULTIPROCESSING"


def test_a_4bit_base_is_described_as_the_whole_weights_that_are_pushed(policy: Any, tmp_path: Path) -> None:
    config = copy.deepcopy(policy.config)
    config.quantization_config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    plain_config(config).save_pretrained(tmp_path)
    assert "quantization_config" not in (tmp_path / "config.json").read_text()
    assert config.quantization_config.load_in_4bit, "the policy's own stays as it is"
    assert plain_config(policy.config).to_dict() == policy.config.to_dict()


def test_weights_by_reference_keep_vllm_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SWITCH, "VLLM_LOGGING_LEVEL", "VLLM_CPU_OMP_THREADS_BIND"):
        monkeypatch.setenv(name, "1")
    prepare_environment(by_reference=False)
    assert os.environ[SWITCH] == "1"
    prepare_environment(by_reference=True)
    assert os.environ[SWITCH] == "0"
    assert os.environ["VLLM_LOGGING_LEVEL"] == "1"
