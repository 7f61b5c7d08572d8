"""5,276 completions of OpenAI's models with OpenAI's own verdicts on them."""

import json
from pathlib import Path

import pytest
from needs import needs

from verigym.cli import main
from verigym.grade.out_file import sidecar

SOURCE = Path(__file__).parents[3] / "shared/data/graded_gsm8k_openai/example_model_solutions.jsonl.gz"
MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


@pytest.mark.slow
@needs("shared data")
def test_verdicts_agree_with_the_labels(tmp_path, capsys):
    out = tmp_path / "scores.jsonl"
    columns = ["--prompt-column", "question", "--reference", "answer=ground_truth", "--gold-extract", "label"]
    for model in MODELS:
        columns += ["--completion-column", f"{model}.solution", "--keep", f"{model}.is_correct"]
    assert main(["grade", str(SOURCE), "--env", "math", "--option", "extract=label", *columns, "--out", str(out)]) == 0
    capsys.readouterr()
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 5276
    differing = []
    for line in lines:
        label = line["columns"][line["column"].replace("solution", "is_correct")]
        if label != (line["score"]["status"] == "correct"):
            differing.append((line["row"], line["column"], label, line["score"]["answer"], line["score"]["reason"]))
    assert len(differing) <= 5, differing
    summary = json.loads(sidecar(out, "summary.json").read_text())
    assert summary["groups"] == 1319 and summary["unscored"] == 0
    assert [at["groups"] for at in summary["pass_at"]] == [1319] * 3
