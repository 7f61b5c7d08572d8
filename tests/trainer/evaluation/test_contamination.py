"""Contamination: shared n-grams are found wherever they stand, template words and chance words are not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from verigym.datasets_cfg.rows import make_task
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.envs import UsageError
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.evaluation.contamination import OwnText, contaminated, ngrams, words
from verigym.trainer.evaluation.tasks import held_out, own_text, own_texts
from verigym.trainer.evaluation.training_data import refuse_unreadable, training_texts

LONG = "A farmer has 12 cows and 7 horses and sells 3 of the cows to his neighbour; how many animals are left?"
OTHER = "Find all real x such that x squared minus five x plus six is zero and x exceeds two and a half"


def own(*texts: str) -> list[OwnText]:
    return [OwnText(text) for text in texts]


def test_words_know_no_case_marks_or_width() -> None:
    assert words("Find $x^2$, Ärger_now: １２!") == ["find", "x", "2", "ärger", "now", "12"]
    assert words("小明有3个苹果") == ["小", "明", "有", "3", "个", "苹", "果"]


def test_a_prompt_in_a_training_text_is_found() -> None:
    training = [("a:1", "Nothing of it."), ("b:2", f"Q: {LONG.upper().replace(' ', '  ')} Answer: 16"), ("c:3", LONG)]
    (hit,) = contaminated(own(OTHER, LONG), training)
    assert (hit.prompt, hit.where) == (1, "b:2")
    assert hit.ngrams == hit.of == len(words(LONG)) - 12
    assert hit.example in " ".join(words(LONG))


def test_twelve_words_in_common_are_not_enough_and_thirteen_are() -> None:
    said = words(LONG)
    assert not contaminated(own(LONG), [("a", " ".join(said[:12]))])
    (hit,) = contaminated(own(LONG), [("a", " ".join(said[3:16]))])
    assert (hit.ngrams, hit.of) == (1, len(said) - 12)
    assert contaminated(own(LONG), [("a", " ".join(said[:5]))], n=5)


def test_a_short_prompt_is_looked_for_as_a_whole() -> None:
    assert contaminated(own("What is 17 times 23?"), [("a", "Q. what is 17 times 23 A. 391")])
    assert not contaminated(own("What is 17 times 23?"), [("a", "what is 17 times 24")])
    assert ngrams("?!", 1) == set() and not contaminated(own("?!"), [("a", "?!")])


def test_the_words_of_a_template_are_no_contamination() -> None:
    template = "Reason step by step and put the final answer in a box like this one here please. "
    prompts = [
        f"{template}{number} plus {number} and then minus one gives what number in the end my dear friend of mine"
        for number in range(12)
    ]
    assert not contaminated(own(*prompts), [("a", template * 2)])
    assert len(contaminated(own(*prompts), [("a", template)], common=13)) == 12
    with pytest.raises(ValueError, match="at least 2"):
        contaminated(own(*prompts), [], common=1)


def test_an_ngram_never_reaches_into_the_words_around_a_run() -> None:
    said = words(LONG)
    first, second = " ".join(said[:9]), " ".join(said[9:])
    apart = OwnText(f"{first} {second}", (first, second))
    assert contaminated(own(LONG), [("a", " ".join(said[2:17]))])
    assert not contaminated([apart], [("a", " ".join(said[2:17]))])
    assert contaminated([apart], [("a", f"Q: {LONG}")]), "all of it is looked for, as no run has 13 words"


def described(**more: Any) -> DatasetConfig:
    needed = {"name": "own", "description": "d", "licence": "MIT", "url": "u", "files": {"test": "a"}, "environment": "math"}
    columns = {name: "string" for name in ("a", "b", "answer")}
    return DatasetConfig(**{**needed, "columns": columns, "reference": {"answer": {"column": "answer"}}, **more})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"prompt": "{a}\n\nReason, and box it."}, OwnText("how many")),
        ({"prompt": "{a}\n\nReason, and box it.", "question": "{a}"}, OwnText("how many", ("how many",))),
        ({"prompt": "{a}\n\n({b})\n\nBox it."}, OwnText("how many\n\n(one two)\n\n")),
        ({"prompt": "Read {a} and {b}."}, OwnText("Read how many and one two.", (" how many", "one two."))),
        (
            {"prompt": "{a} {b} Box it.", "question": "Of {a} take {b}"},
            OwnText("Of how many take one two", ("how many", "one two")),
        ),
    ],
)
def test_a_row_s_own_text(texts: dict[str, str], expected: OwnText) -> None:
    config = described(**texts)
    found = own_text(config, make_task(config, {"a": "how many", "b": "one two", "answer": "3"}))
    assert words(found.whole) == words(expected.whole)
    assert [words(run) for run in found.runs] == [words(run) for run in expected.runs]


DATASET = """
name: own
description: Two questions a split.
licence: MIT
url: https://example.org
files: {train: train.jsonl, test: test.jsonl}
environment: math
columns: {question: string, answer: string}
prompt: |-
  {question}

  Reason step by step, and put the final answer in \\boxed{}.
question: "{question}"
reference: {answer: {column: answer}}
"""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Questions of which one is in both splits; the others only end alike."""
    rows = {
        "train": [f"{OTHER} how many is it in the end and why is that?", LONG],
        "test": ["Take a week off, and say how many is it in the end and why is that?", LONG],
    }
    for split, questions in rows.items():
        lines = [json.dumps({"question": question, "answer": "3"}) for question in questions]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    (tmp_path / "own.yaml").write_text(DATASET)
    return tmp_path / "own.yaml"


@pytest.mark.parametrize("asked", [{}, {"shots": 1}, {"template": "r1-zero"}, {"template": "r1-zero", "shots": 1}])
def test_templates_and_shots_are_no_contamination(asked: dict[str, Any], dataset: Path) -> None:
    config = SourceConfig(dataset=str(dataset), data_dir=dataset.parent, eval_split="test", **asked)
    source = held_out(config, 2)
    texts = own_texts(config, source)
    (hit,) = contaminated(texts, training_texts([f"{dataset}:train"], {str(dataset): dataset.parent}))
    assert texts[hit.prompt].whole == LONG and hit.where.endswith("row 2")
    assert hit.example in " ".join(words(source.held_out[hit.prompt].text))


def test_a_generated_task_is_its_environments_text_whatever_the_template() -> None:
    config = SourceConfig(environment="story", template="r1-zero")
    source = held_out(config, 5)
    texts = own_texts(config, source)
    assert len(texts) == 5 and all(text.whole in prompt.text for text, prompt in zip(texts, source.held_out, strict=True))
    assert not any("<think>" in text.whole for text in texts)


ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": LONG}]
CALLED = [*ASKED, {"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool", "content": "9", "name": "sum"}]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    "row",
    [
        {"prompt": LONG},
        {"prompt": ASKED},
        {"prompt": "Solve it.", "question": LONG},
        {"prompt": None, "problem": LONG},
        {"question": LONG, "answer": "16"},
        {"text": f"Q: {LONG} A: 16"},
        {"messages": CALLED},
        {"prompt": "Go on.", "completion": LONG},
        {"prompt": "Go on.", "completion": [{"role": "assistant", "content": LONG}]},
    ],
    ids=str,
)
def test_the_layouts_of_training_files(row: dict[str, Any], zipped: bool, tmp_path: Path) -> None:
    lines = "\n" + json.dumps(row) + "\n" + json.dumps({"prompt": "Nothing of it.", "answer": LONG}) + "\n"
    path = tmp_path / ("train.jsonl.gz" if zipped else "train.jsonl")
    path.write_bytes(gzip.compress(lines.encode()) if zipped else lines.encode())
    refuse_unreadable([str(path)])
    (hit,) = contaminated(own(LONG), training_texts([str(path)]))
    assert hit.where == f"{path}:2"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"instruction": "a", "output": "b"},
            "found the fields 'instruction', 'output'",
        ),
        ({"prompt": None}, "one of the fields prompt, question, problem, text, messages; found the fields 'prompt'"),
        ({}, "found the fields none"),
        ([1], "found list"),
        ({"prompt": 3}, "field 'prompt': expected a text, or a list of messages with `content`; got int"),
        (
            {"messages": [{"role": "user"}]},
            "field 'messages': expected a text, or a list of messages with `content`",
        ),
        ({"prompt": "a", "completion": {}}, "field 'completion': expected a text"),
    ],
    ids=str,
)
def test_a_row_without_a_prompt_is_named(row: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"prompt": "a"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UsageError) as caught:
        refuse_unreadable([str(path)])
    assert str(caught.value).startswith(f"{path}:2: ") and message in str(caught.value)


def test_training_data_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"prompt": "a"}')[:-9])
    for name, message in [
        ("absent.jsonl", "field 'train_data': there is no file"),
        ("train.json", "is neither a .jsonl or .jsonl.gz file nor NAME:SPLIT"),
        ("empty.jsonl", "has no rows"),
        ("cut.jsonl.gz", "is a damaged gzip file"),
        ("gsm9k:train", "gsm9k"),
    ]:
        with pytest.raises(UsageError, match=message):
            refuse_unreadable([name if ":" in name else str(tmp_path / name)])


GSM8K = Path(__file__).parents[4] / "shared/data"


@needs("shared data")
@pytest.mark.slow
def test_gsm8k_shares_questions_and_not_our_words() -> None:
    config = SourceConfig(dataset="gsm8k", data_dir=GSM8K, eval_split="test")
    source = held_out(config, 2000)
    assert len(source.held_out) == 1319
    hits = contaminated(own_texts(config, source), training_texts(["gsm8k:train"], {"gsm8k": GSM8K}))
    assert sorted(hit.where for hit in hits) == ["gsm8k:train row 1315", "gsm8k:train row 21", "gsm8k:train row 407"]
    assert not any("reason step by step" in hit.example for hit in hits)
