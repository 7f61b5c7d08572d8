"""What a prompt has already written of the completion: an open thought or fence at its very end, and nothing else."""

from __future__ import annotations

import pytest

from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.extraction.opened import opened

TURN = "<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        (f"{TURN}<think>\n", "<think>\n"),
        (f"{TURN}<think>", "<think>"),
        ("<｜User｜>2+2=?<｜Assistant｜><think>\n", "<think>\n"),
        ("[INST]2+2=?[/INST][THINK]", "[THINK]"),
        ("<seed:bos>assistant\n<seed:think>", "<seed:think>"),
        ("<|im_assistant|>assistant<|im_middle|>\u25c1think\u25b7", "\u25c1think\u25b7"),
        ("<|start|>assistant<|channel|>analysis<|message|>", "<|channel|>analysis<|message|>"),
        (f"{TURN}<think>\n\n</think>\n\n", ""),
        (f"{TURN}<think></think>", ""),
        ("<｜Assistant｜></think>", ""),
        ("<|start|>assistant<|channel|>final<|message|>", ""),
        (TURN, ""),
        ("", ""),
        (f"What does <think> mean?<|im_end|>\n{TURN}", ""),
        (f"Is <think>\nOkay{TURN}", ""),
        ("Write it.\n```python\n", "```python\n"),
        ("Write it.\n~~~", "~~~"),
        ("Does it end?\n```python\nprint(1)\n```\n", ""),
        ("Does it end?\n```python\nprint(1)\n```\nGo on:\n```python\n", "```python\n"),
        ("```python", "```python"),
        ("Type ``` to begin\n", ""),
    ],
)
def test_only_what_is_open_at_the_end_belongs_to_the_completion(prompt: str, found: str) -> None:
    assert opened(prompt) == found
    if found and "`" not in found and "~" not in found:
        assert strip_thinking(f"{found}It is \\boxed{{4}}") is None, "an unfinished thought has no answer"
        assert strip_thinking("It is \\boxed{4}") is not None, "which the completion alone does not show"
