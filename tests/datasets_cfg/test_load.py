import json
import os
import subprocess
import sys

import pytest
from patience import HANG_S

from verigym import UsageError
from verigym.datasets_cfg import load

ROWS = [{"question": f"{i}+1?", "answer": f"so\n#### {i + 1}", "level": i} for i in range(5)]


def test_rows_become_prompts(make, tmp_path):
    prompts = load(make(ROWS), "train", data_dir=tmp_path)
    assert len(prompts) == 5
    prompt = prompts[3]
    assert prompt.text == "3+1? Put the answer in \\boxed{}."
    assert prompt.references["math"].answer == "4"
    assert prompt.metadata == {"dataset": "tiny", "split": "train", "row_index": 3, "level": 3}
    assert prompts.environment.score(prompt, r"\boxed{4}").reward == 1.0


def test_prompts_are_a_sequence_with_stable_keys(make, tmp_path):
    path = make(ROWS)
    prompts, again = (load(path, "train", data_dir=tmp_path) for _ in range(2))
    assert [p.key for p in prompts] == [p.key for p in again]
    assert len({p.key for p in prompts}) == 5
    assert prompts[-1] == prompts[4] and prompts[1:3] == [prompts[1], prompts[2]]
    with pytest.raises(IndexError):
        prompts[5]
    with pytest.raises(IndexError):
        prompts[-6]


def test_limit_and_options(make, tmp_path):
    prompts = load(make(ROWS), "train", data_dir=tmp_path, limit=2, options={"extract": "last"})
    assert len(prompts) == 2
    assert prompts.environment.score(prompts[0], "it is 1").reward == 1.0
    assert len(load(make(ROWS), "train", data_dir=tmp_path, limit=99)) == 5
    with pytest.raises(UsageError, match="limit=0"):
        load(make(ROWS), "train", data_dir=tmp_path, limit=0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "level": 1}, "field 'answer' is missing; expected string"),
        ({"question": None, "answer": "#### 1", "level": 1}, "field 'question' is missing; expected string"),
        ({"question": "q", "answer": "no mark", "level": 1}, "field 'answer' no gold is found by 'hash'"),
        ({"question": "q", "answer": "#### 1"}, "field 'level' is missing; expected integer"),
    ],
)
def test_a_row_that_does_not_fit_is_named(make, tmp_path, row, message):
    prompts = load(make([ROWS[0], row]), "train", data_dir=tmp_path)
    assert prompts[0].key
    with pytest.raises(UsageError) as caught:
        prompts[1]
    assert str(caught.value).startswith(f"data set 'tiny', split 'train', row 2: {message}")


@pytest.mark.parametrize("rows", [["{oops}"], [ROWS[0], "{oops}"], []])
def test_files_that_are_not_json_lines(make, tmp_path, rows, capsys):
    with pytest.raises(UsageError, match="rows.jsonl cannot be read as JSON Lines") as caught:
        load(make(rows), "train", data_dir=tmp_path)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().err == ""


def test_a_split_may_be_a_range_of_rows(make, tmp_path):
    split = "files: {train: {path: rows.jsonl, rows: {column: level, first: 1, last: 3}}}"
    prompts = load(make(ROWS, ("files: {train: rows.jsonl}", split)), "train", data_dir=tmp_path)
    assert [(prompt.metadata["row_index"], prompt.metadata["level"]) for prompt in prompts] == [(0, 1), (1, 2), (2, 3)]
    path = make(ROWS, ("files: {train: rows.jsonl}", split.replace("level", "number")))
    with pytest.raises(UsageError, match="rows.jsonl has no column 'number' to choose rows by"):
        load(path, "train", data_dir=tmp_path)


def test_a_file_may_be_one_json_list(make, tmp_path):
    path = make(None)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS), encoding="utf-8")
    assert len(load(path, "train", data_dir=tmp_path)) == 5


SHAPED = (
    ("environment: math\n", "environment: code\nshape: mbpp\nfixed: {limits: {wall_s: 2.5}, policy: {trust: separate}}\n"),
    ("columns: {question: string, answer: string, level: integer}\n", ""),
    ("{question} Put the answer in \\\\boxed{}.", "{text}\\n{tests}"),
    ("reference:\n  answer: {column: answer, extract: hash}\nmetadata: [level]\n", ""),
)
MBPP_ROW = {
    "task_id": 5,
    "text": "Twice.",
    "code": "def f(n): return 2 * n",
    "test_setup_code": "",
    "test_list": ["assert f(3) == 6"],
}


def test_a_shape_makes_reference_prompt_and_metadata(make, tmp_path):
    exceptions = "exceptions: [{task_id: '6', reason: why not, reference: {policy: {trust: shared}}}]\n"
    name = ("description: Sums.\n", f"description: Sums.\n{exceptions}")
    prompts = load(make([MBPP_ROW, {**MBPP_ROW, "task_id": 6}], *SHAPED, name), "train", data_dir=tmp_path)
    first, second = (prompt.references["code"] for prompt in prompts)
    assert prompts[0].text == "Twice.\nassert f(3) == 6"
    assert prompts[0].metadata == {"dataset": "tiny", "split": "train", "row_index": 0, "task_id": "5"}
    assert (first.limits.wall_s, first.limits.cpu_s, first.policy.trust, second.policy.trust) == (
        2.5,
        10.0,
        "separate",
        "shared",
    )
    assert second.limits.wall_s == 2.5


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**MBPP_ROW, "code": None}, "field 'code' is missing; expected string"),
        ({**MBPP_ROW, "test_list": []}, "field 'test_list' holds no tests"),
        ({**MBPP_ROW, "code": " "}, "field 'code' reference of 'code': solution is empty"),
    ],
)
def test_a_row_that_does_not_fit_its_shape_is_named(make, tmp_path, row, message):
    prompts = load(make([MBPP_ROW, row], *SHAPED), "train", data_dir=tmp_path)
    with pytest.raises(UsageError) as caught:
        prompts[1]
    assert str(caught.value).startswith("data set 'tiny', split 'train', row 2: ")
    assert message in str(caught.value)


def test_missing_splits_and_files(make, tmp_path):
    path = make(None)
    with pytest.raises(UsageError, match="rows.jsonl does not exist; is --data-dir .* the right folder"):
        load(path, "train", data_dir=tmp_path)
    with pytest.raises(UsageError, match="no local file for split 'tran'; did you mean 'train'"):
        load(path, "tran", data_dir=tmp_path)
    with pytest.raises(UsageError, match="is in local files, not on the hub; give --data-dir"):
        load(path, "train")
    with pytest.raises(UsageError, match="no split 'dev' on the hub; known: test, train"):
        load("gsm8k", "dev")


@pytest.mark.slow
def test_a_hub_out_of_reach_is_one_line():
    program = "from verigym.datasets_cfg import load\ntry: load('gsm8k', 'test')\nexcept ValueError as error: print(error)\n"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.stderr == "" and done.stdout.count("\n") == 1
    assert "cannot be read from the hub (openai/gsm8k)" in done.stdout
    assert "pass --data-dir DIR to read DIR/gsm8k/test.jsonl.gz" in done.stdout


def test_import_is_light():
    program = "import sys, verigym.datasets_cfg; assert not {'datasets', 'torch', 'pyarrow', 'sympy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANG_S)


@pytest.mark.parametrize(
    ("name", "split", "rows", "gold"),
    [("gsm8k", "train", 7473, "72"), ("gsm8k", "test", 1319, "18"), ("math", "test", 5000, "2")],
)
def test_the_shipped_data_sets(shared_data, name, split, rows, gold, capsys):
    prompts = load(name, split, data_dir=shared_data)
    assert len(prompts) == rows
    assert prompts[0].references["math"].answer == gold
    assert prompts[0].text.endswith("put the final answer in \\boxed{}.")
    assert capsys.readouterr() == ("", ""), "loading is quiet"
