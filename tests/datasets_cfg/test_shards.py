"""A split in several files, as the hub's repositories have it."""

import gzip
import json

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load
from verigym.datasets_cfg.json_rows import ChainedRows, ListRows
from verigym.grade.tasks import DataJob, Tasks
from verigym.trainer.checkpoints.input_hashes import data_hashes
from verigym.trainer.config.run import SourceConfig

ROWS = [{"question": f"{i}+1?", "answer": f"#### {i + 1}", "level": i} for i in range(5)]


def lines(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.fixture
def shards(make, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train-1.jsonl.gz").write_bytes(gzip.compress(lines(ROWS[2:4])))
    (folder / "train-0.jsonl").write_bytes(lines(ROWS[:2]))
    (folder / "train-2.jsonl").write_bytes(lines(ROWS[4:]))
    (folder / "test-0.jsonl").write_bytes(lines(ROWS[:1]))
    return make(None, ("{train: rows.jsonl}", "{train: data/train-*.jsonl*}"))


def answers(path, folder):
    return [prompt.references["math"].answer for prompt in load(path, "train", data_dir=folder)]


def test_files_are_read_in_the_order_of_their_names(shards, tmp_path, capsys):
    assert answers(shards, tmp_path) == ["1", "2", "3", "4", "5"]
    assert main(["validate", str(shards), "--data-dir", str(tmp_path), "--workers", "0"]) == 0
    assert "5 of 5 golds" in capsys.readouterr().out


def test_parquet_shards(make, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, rows in enumerate((ROWS[:3], ROWS[3:])):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"t-{number}.parquet")
    assert answers(make(None, ("{train: rows.jsonl}", "{train: t-*.parquet}")), tmp_path) == ["1", "2", "3", "4", "5"]
    chosen = "{train: {path: t-*.parquet, rows: {column: level, first: 2, last: 3}}}"
    assert answers(make(None, ("{train: rows.jsonl}", chosen)), tmp_path) == ["3", "4"]


def test_all_files_are_pinned_together(shards, tmp_path, capsys):
    assert main(["datasets", "pin", str(shards), "--data-dir", str(tmp_path)]) == 0
    assert len(answers(shards, tmp_path)) == 5
    (tmp_path / "data/train-3.jsonl").write_bytes(lines(ROWS[:1]))
    with pytest.raises(UsageError, match="yaml:6: field files.train.sha256 .* another revision of the data"):
        load(shards, "train", data_dir=tmp_path)


def test_a_run_and_its_grades_are_bound_to_every_file(shards, tmp_path):
    source = SourceConfig(dataset=str(shards), data_dir=tmp_path, eval_split=None)
    before = data_hashes([source])
    assert {name.rpartition(", ")[2] for name in before if ", " in name} == {
        f"train-{n}" for n in ("0.jsonl", "1.jsonl.gz", "2.jsonl")
    }
    graded = Tasks(DataJob(name=str(shards), split="train", data_dir=tmp_path, id_column="question"), None, {}).described()
    assert len(graded["file"]) == 3
    (tmp_path / "data/train-2.jsonl").write_bytes(lines(ROWS[:1]))
    after = data_hashes([source])
    assert [name.rpartition(", ")[2] for name in before if before[name] != after[name]] == ["train-2.jsonl"]


def test_the_file_that_is_broken_is_named(shards, tmp_path):
    (tmp_path / "data/train-2.jsonl").write_text("{]")
    with pytest.raises(UsageError, match=r"yaml:6: .*train-2.jsonl cannot be read as JSON Lines: line 1"):
        load(shards, "train", data_dir=tmp_path)


def test_a_folder_or_a_pattern_without_files_is_said(make, shards, tmp_path):
    for place, message in [("data", "data is a folder; name the file in it"), ("data/valid-*.jsonl", "does not exist")]:
        with pytest.raises(UsageError, match=f"yaml:6: .*{message.replace('*', '.')}"):
            load(make(None, ("rows.jsonl", place)), "train", data_dir=tmp_path)


def test_rows_of_several_files_are_chosen_by_their_number_in_all():
    rows = ChainedRows([ListRows([{"a": 0}, {"a": 1}]), ListRows([{"b": 2}]), ListRows([{"a": 3}])])
    assert list(rows) == [{"a": 0}, {"a": 1}, {"b": 2}, {"a": 3}] and rows.column_names == ["a", "b"]
    assert list(rows.select([3, 1]).select([0])) == [{"a": 3}]
    with pytest.raises(IndexError):
        rows[4]
