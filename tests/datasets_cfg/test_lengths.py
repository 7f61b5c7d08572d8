"""`verigym datasets lengths` and `validate --against`: what one wants to know of a data set before training on it."""

import json

import pytest

from verigym.cli import main
from verigym.datasets_cfg.lengths import Lengths

ROWS = [{"question": "x" * size, "answer": f"work #### {size}", "level": size} for size in (1, 2, 3, 40)]


@pytest.mark.parametrize(("share", "length"), [(0.01, 1), (0.25, 1), (0.5, 2), (0.75, 3), (0.76, 9), (1, 9)])
def test_a_share_of_the_texts_is_no_longer_than_this(share, length):
    assert Lengths(((1, 3), (2, 0), (3, 2), (9, 1))).at(share) == length


def test_lengths_of_prompts_and_answers(make, tmp_path, capsys):
    path = make([*ROWS, {"question": "no gold", "answer": "none", "level": 1}])
    assert main(["datasets", "lengths", str(path), "--data-dir", str(tmp_path)]) == 0
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    form = len(r" Put the answer in \boxed{}.")
    assert said[1] == ["prompts", "4", str(2 + form), str(40 + form), str(40 + form), "4"]
    assert said[2] == ["answers", "4", *(str(len(r"\boxed{}") + digits) for digits in (1, 2, 2)), "4"]
    assert said[3][:2] == ["1", "rows"]


def test_lengths_in_tokens_count_the_template(make, tmp_path, tiny_tokenizer, capsys):
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "model/config.json").write_text(json.dumps({"model_type": "qwen3"}))
    longest = []
    for template in ([], ["--template", "r1-zero"]):
        arguments = ["datasets", "lengths", str(make(ROWS)), "--data-dir", str(tmp_path), *template]
        assert main([*arguments, "--tokenizer", str(tmp_path / "model")]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[0].startswith("tokens")
        longest.append(int(said[1].split()[4].replace(",", "")))
    assert 0 < longest[0] < longest[1]


def test_questions_shared_with_another_set_are_counted(make, tmp_path, capsys):
    path = make(ROWS, ("environment: math", 'environment: math\nquestion: "{question}"'))
    other = tmp_path / "other.yaml"
    other.write_text(path.read_text().replace("name: tiny", "name: other").replace("Put the answer", "Write it"))
    other.write_text(other.read_text().replace("{train: rows.jsonl}", "{test: other.jsonl, new: new.jsonl}"))
    rows = [{**ROWS[3], "question": f" {ROWS[3]['question']}  ", "answer": "#### 7"}, {**ROWS[0], "question": "new"}]
    (tmp_path / "other.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "new.jsonl").write_text(f"{json.dumps(rows[1])}\n")
    arguments = ["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]
    assert main([*arguments, "--against", str(other), "--against", f"{other}:new"]) == 0
    said = capsys.readouterr()
    assert "1 of 2 prompts of other/test stand in tiny/train too (rows: 1 is 4)" in said.err
    assert "no question of other/new stands in tiny/train" in said.out and "no `question`" not in said.err
    assert main([*arguments, "--against", f"{other}:tst"]) == 2
    assert "did you mean 'test'" in capsys.readouterr().err


def test_a_comparison_by_whole_prompts_says_so(make, tmp_path, capsys):
    path = str(make(ROWS))
    assert main(["validate", path, "--data-dir", str(tmp_path), "--workers", "0", "--against", f"{path}:train"]) == 0
    said = capsys.readouterr().err
    assert "4 of 4 prompts of tiny/train stand in tiny/train too" in said
    assert "tiny has no `question`, so its whole prompts are compared" in said
