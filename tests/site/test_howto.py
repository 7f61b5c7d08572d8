"""The how-to pages: short, every block run or said not to be, and what they show is what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, Trl, blocks, run_page

PAGES = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "howto").glob("*.md"))
RUN_BY_THEIR_OWN_TEST = {"howto/other_trainers.md"}
LONGEST = 120


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Any) -> Path:
    """A folder with `model`, whose chat template knows tools."""
    from verigym.trainer.models.scratch import CONVERSATION_TEMPLATE, scratch_qwen3, scratch_tokenizer

    texts = ["12+34=?\n<think>2+4=6</think>\\boxed{46}", "How many days are 4 weeks and 3 days?"]
    tokenizer = scratch_tokenizer(texts, template=CONVERSATION_TEMPLATE)
    model = scratch_qwen3(tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=1)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short_and_every_block_says_what_it_is(page: str) -> None:
    assert len((DOCS / page).read_text().splitlines()) < LONGEST
    blocks(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and page not in RUN_BY_THEIR_OWN_TEST])
def test_a_page_runs_as_it_stands(page: str, folder: Path) -> None:
    ran = run_page(page, folder, extra={"OMP_NUM_THREADS": "1"}, warm=True)
    assert set(SHOWN.get(page, {})) <= set(ran)
    for name, texts in SHOWN.get(page, {}).items():
        for text in texts:
            assert text in ran[name].out + ran[name].err, (name, text, ran[name])


SHOWN = {
    "howto/grade.md": {"grade": ["accuracy", "line 2"], "diff": ["no_answer"]},
    "howto/register.md": {"check": ["passed"]},
    "howto/mix.md": {"mixture": [" of 2: ", "units"], "compose": ["1.2"]},
    "howto/choose_a_loss.md": {"preset": [" of 2: "]},
    "howto/tools_and_turns.md": {"train": [" of 2: "], "play": ["correct"]},
    "howto/scale.md": {
        "price": ["memory", "native generation"],
        "torchrun": [" of 2: "],
        "full": [" of 2: "],
        "plan": ["8 processes"],
    },
    "howto/dead_run.md": {
        "dead": ["nothing_right", "dead_run", "the run stopped with"],
        "show_warnings": ["dead_run"],
        "contamination": ["training data"],
    },
    "howto/read_a_run.md": {"compare": ["after minus before"]},
}
"""What the examples of a page must have printed, by their names."""


@pytest.mark.slow
def test_verdicts_are_the_reward_of_trl(folder: Path, trl: Trl) -> None:
    ran = run_page("howto/other_trainers.md", folder, extra=trl.environment, leave_out=trl.leave_out)
    trl.require()
    assert "verdicts: 16 without one: 0" in ran["trl"].out, ran["trl"]
