"""Mistakes in descriptions and data: each is one line that names file, line and field."""

import gzip
import hashlib
import json

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load, load_config
from verigym.datasets_cfg.pin import pin_files, pin_revision
from verigym.datasets_cfg.reading import digest

ROWS = [{"question": f"{i}+1?", "answer": f"#### {i + 1}", "level": i} for i in range(3)]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("licence:", "license:", 4, "unknown field 'license'; did you mean 'licence'"),
        ("level: integer", "level: whole", 8, "field 'columns.level'"),
        ("[level]", "[levels]", 12, "metadata uses column 'levels'"),
        ("{train: rows.jsonl}", "{train: {path: rows.jsonl, sha256: abc}}", 6, "field 'files.train.sha256'"),
        ("name: tiny", "name: tiny\nname: other", 3, "field 'name' stands twice"),
        ("extract: hash", "extract: hash, column: question", 11, "field 'column' stands twice"),
        ("environment: math", "environment: math\nhub: {path: a/b, revision: main, splits: {a: b}}", 8, "field 'hub.revision'"),
        ("environment: math", "environment: math\ngolds: few", 8, "field 'golds'"),
        ("environment: math", "environment: math\nquestion: nothing", 8, "question names no {column}"),
        ("environment: math", "environment: math\nworked: '{steps}'", 8, "worked uses column 'steps'"),
        ("environment: math", "environment: math\ntexts: {s: {column: stops}}", 8, "texts uses column 'stops'"),
        ("environment: math", "environment: math\ngenerated: {train: 3}", 7, "columns describes rows"),
        ("{question} Put", "{{question}} Put", 9, "prompt holds '{{question}}', whose outer braces would stand in every text"),
        ("environment: math", "environment: math\nquestion: '{ question }'", 8, "question holds '{ question }', which nothing"),
        ("environment: math", "environment: math\nworked: '{{gold}}'", 8, "worked holds '{{gold}}', whose outer braces"),
        (
            "answer: {column: answer, extract: hash}",
            "answer: answer",
            11,
            "a mapping of the fields column, extract, optional; got 'answer'",
        ),
        (
            "environment: math",
            "environment: math\nhub: owner/name",
            8,
            "a mapping of the fields path, revision, config, splits",
        ),
    ],
)
def test_a_mistake_in_a_description_names_file_line_and_field(make, old, new, line, message):
    path = make(None, (old, new))
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    if "describes rows" not in message:
        assert str(caught.value).startswith(f"{path}:{line}: ")


def test_a_prompt_that_is_missing_is_called_missing(make):
    lines = make(None).read_text().splitlines()
    path = make(None)
    path.write_text("\n".join(line for line in lines if not line.startswith("prompt:")))
    with pytest.raises(UsageError, match="yaml: prompt is missing: the text that asks"):
        load_config(path)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("rows.jsonl", "row.jsonl"), 6, "row.jsonl does not exist; did you mean 'rows.jsonl'?"),
        (("rows.jsonl", "a/b.jsonl"), 6, "(there is no folder {folder}/a); is --data-dir {folder} the right folder?"),
        (("rows.jsonl", "{path: rows.jsonl, layout: columns}"), 6, "cannot be read as columns: line 2: Extra data"),
        (("rows.jsonl", "tiny.yaml"), 6, "cannot be read as JSON Lines: line 2"),
        (
            ("level: integer", "levels: integer"),
            8,
            "no row of {folder}/rows.jsonl has a column 'levels'; did you mean 'level'?",
        ),
        (("level: integer", "level.of: integer"), None, ""),
        (("environment: math", "environment: math\ntemplate: r1zero"), 8, "no template is called 'r1zero'; did you mean"),
    ],
)
def test_a_description_that_fits_no_row_names_its_own_line(make, tmp_path, change, line, message):
    changes = [change] if "level" not in change[0] else [change, ("metadata: [level]", "metadata: []")]
    path = make(ROWS, *changes)
    if line is None:  # a path into a column that is there is a matter of each row
        assert len(load(path, "train", data_dir=tmp_path)) == 3
        return
    with pytest.raises(UsageError) as caught:
        load(path, "train", data_dir=tmp_path)
    assert str(caught.value).startswith(f"{path}:{line}: "), str(caught.value)
    assert message.format(folder=tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_without_our_files_is_not_called_a_mistake_of_our_description(tmp_path):
    with pytest.raises(UsageError, match="^data set 'gsm8k': .* is --data-dir .* the right folder"):
        load("gsm8k", "train", data_dir=tmp_path)


def test_rows_are_chosen_by_whole_numbers_and_truth_values_too(make, tmp_path):
    rows = [{**row, "hard": row["level"] == 1} for row in ROWS]
    for choice, answers in [("level, equals: 1", ["2"]), ("hard, equals: true", ["2"]), ("hard, equals: false", ["1", "3"])]:
        path = make(rows, ("{train: rows.jsonl}", f"{{train: {{path: rows.jsonl, where: {{column: {choice}}}}}}}"))
        prompts = load(path, "train", data_dir=tmp_path)
        assert [prompt.references["math"].answer for prompt in prompts] == answers
    path = make(rows, ("{train: rows.jsonl}", "{train: {path: rows.jsonl, where: {column: hard, equals: 1}}}"))
    with pytest.raises(UsageError, match=r"no row of .* has hard = 1; values there: false \(bool\), true \(bool\)"):
        load(path, "train", data_dir=tmp_path)


def test_a_split_that_is_not_there(make, tmp_path):
    with pytest.raises(UsageError, match="data set 'tiny' has no local file for split 'trian'; did you mean 'train'"):
        load(make(ROWS), "trian", data_dir=tmp_path)
    with pytest.raises(UsageError, match="has no split 'valid'; known: test, train"):
        load("countdown_generated", "valid")


def test_a_wrong_type_names_row_and_field(make, tmp_path):
    prompts = load(make([*ROWS, {"question": "q", "answer": "#### 1", "level": None}]), "train", data_dir=tmp_path)
    with pytest.raises(UsageError, match=r"data set 'tiny', split 'train', row 4: field 'level' is missing"):
        prompts[3]


def test_a_name_without_its_suffix(make, monkeypatch):
    monkeypatch.chdir(make(ROWS).parent)
    with pytest.raises(UsageError, match="no data set is called 'tiny'; did you mean the file tiny.yaml?"):
        load_config("tiny")


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_revision_of_a_local_file_is_refused(make, tmp_path):
    make(ROWS)
    path = make(ROWS, ("{train: rows.jsonl}", f"{{train: {{path: rows.jsonl, sha256: {sha(tmp_path / 'rows.jsonl')}}}}}"))
    assert len(load(path, "train", data_dir=tmp_path)) == 3
    with (tmp_path / "rows.jsonl").open("a") as stream:
        stream.write(json.dumps(ROWS[0]) + "\n")
    with pytest.raises(UsageError) as caught:
        load(path, "train", data_dir=tmp_path)
    assert str(caught.value).startswith(f"{path}:6: field files.train.sha256 is ")
    assert "another revision of the data" in str(caught.value) and "rows.jsonl" in str(caught.value)


def test_packing_again_is_no_other_revision(tmp_path):
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(b"{}\n")
    packed.write_bytes(gzip.compress(b"{}\n", 1, mtime=7))
    assert digest(plain) == digest(packed) == sha(plain)


def test_pin_writes_the_sha256_of_local_files(make, tmp_path, capsys):
    path = make(ROWS, ("name: tiny", "# a comment\nname: tiny"))
    assert main(["datasets", "pin", str(path), "--data-dir", str(tmp_path)]) == 0
    assert load_config(path).files["train"].sha256 == sha(tmp_path / "rows.jsonl")
    assert "# a comment" in path.read_text() and "files.train.sha256" in capsys.readouterr().out
    assert len(load(path, "train", data_dir=tmp_path)) == 3
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[1]) + "\n")
    assert main(["datasets", "pin", str(path), "--data-dir", str(tmp_path)]) == 0
    assert len(load(path, "train", data_dir=tmp_path)) == 1


def test_pin_without_the_hub_says_so_and_invents_nothing(tmp_path, capsys):
    out = tmp_path / "gsm8k.yaml"
    assert main(["datasets", "pin", "gsm8k"]) == 2
    assert "--out gsm8k.yaml" in capsys.readouterr().err
    assert main(["datasets", "pin", "gsm8k", "--out", str(out)]) == 2
    assert "openai/gsm8k: the hub gives no revision" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize(
    "hub",
    [
        "hub:\n  path: a/b # where\n  revision: null\n  splits: {train: train}\n",
        "hub:\n  path: a/b # where\n  splits: {train: train}\n",
        "hub: {path: a/b, splits: {train: train}}\n",
        f"hub: {{path: a/b, revision: '{'0' * 40}', splits: {{train: train}}}}\n",
    ],
)
def test_a_revision_is_written_where_it_belongs(make, hub):
    text = make(None).read_text() + hub
    pinned = pin_revision(text, "12" * 20)
    path = make(None)
    path.write_text(pinned)
    assert load_config(path).hub.revision == "12" * 20
    assert ("# where" in pinned) == ("# where" in hub)
    assert pin_revision(pinned, "34" * 20).replace("34" * 20, "12" * 20) == pinned


def test_files_written_over_several_lines_are_pinned_too(make):
    text = (
        make(None)
        .read_text()
        .replace("files: {train: rows.jsonl}", "files:\n  train: rows.jsonl # all\n  test: {path: b.jsonl}")
    )
    path = make(None)
    path.write_text(pin_files(text, {"train": "a" * 64, "test": "b" * 64}))
    files = load_config(path).files
    assert (files["train"].path, files["train"].sha256, files["test"].sha256) == ("rows.jsonl", "a" * 64, "b" * 64)
    assert "# all" in path.read_text()


@pytest.mark.parametrize(
    ("choice", "line", "message"),
    [
        (
            "where: {column: fold, equals: tst}",
            6,
            "field files.train.where: no row of {rows} has fold = 'tst'; values there: train, test",
        ),
        ("where: {column: flod, equals: test}", 6, "has no column 'flod' to choose rows by; did you mean 'fold'?"),
        ("where: {column: level, equals: '1'}", 6, "has level = '1'; values there: 0 (int), 1 (int), 2 (int)"),
        ("rows: {column: level, first: 7, last: 9}", 6, "has level from 7 to 9; values there: 0 (int), 1 (int), 2 (int)"),
    ],
)
def test_a_filter_that_leaves_no_row_names_its_line_and_the_values(make, tmp_path, choice, line, message):
    rows = [{**row, "fold": "test" if row["level"] else "train"} for row in ROWS]
    path = make(rows, ("{train: rows.jsonl}", f"{{train: {{path: rows.jsonl, {choice}}}}}"))
    with pytest.raises(UsageError) as caught:
        load(path, "train", data_dir=tmp_path)
    assert str(caught.value).startswith(f"{path}:{line}: field files.train.")
    assert message.format(rows=tmp_path / "rows.jsonl") in str(caught.value)


@pytest.mark.parametrize(
    ("new", "line", "message"),
    [
        ("environment: maths", 7, "no environment is called 'maths'; did you mean 'math'?"),
        ("environment: math\noptions: {string_teir: false}", 8, "unknown field 'string_teir'; did you mean 'string_tier'?"),
    ],
)
def test_an_environment_that_is_not_there_is_named_with_file_and_line(make, tmp_path, new, line, message):
    path = make(ROWS, ("environment: math", new))
    with pytest.raises(UsageError) as caught:
        load(path, "train", data_dir=tmp_path)
    assert str(caught.value).startswith(f"{path}:{line}: ") and message in str(caught.value)


def test_a_row_that_asks_nothing_is_no_task(make, tmp_path, capsys):
    path = make([*ROWS, {"question": "  ", "answer": "#### 1", "level": 3}])
    with pytest.raises(UsageError, match=r"row 4: field 'question' is empty, so the row asks nothing"):
        load(path, "train", data_dir=tmp_path)[3]
    assert main(["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]) == 1
    assert "3 of 4 golds score the maximum" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("extract: hash", "extract: boxed"), "{path}:11: field 'reference.answer' fits no row"),
        (("level: integer", "level: string"), "{path}:8: field 'columns.level' fits no row"),
        (
            ("environment: math", "environment: math\ntexts: {s: {column: answer, after: '>>'}}"),
            "{path}:8: field 'texts.s' fits",
        ),
    ],
)
def test_a_field_that_fits_no_row_is_named_with_its_line(make, tmp_path, capsys, change, fault):
    arguments = ["--data-dir", str(tmp_path), "--workers", "0"]
    path = make(ROWS, change)
    assert main(["validate", str(path), *arguments]) == 1
    assert fault.format(path=path) in capsys.readouterr().out
    one_row_fits = {**ROWS[0], "answer": "\\boxed{1} >> #### 1"} if "integer" not in change[0] else {**ROWS[0], "level": "1"}
    path = make([one_row_fits, *ROWS], change)
    assert main(["validate", str(path), *arguments]) == 1
    assert "fits no row" not in capsys.readouterr().out


def test_rows_given_for_a_description_are_told_apart(make, tmp_path, capsys):
    make(ROWS)
    rows = str(tmp_path / "rows.jsonl")
    assert main(["validate", rows]) == 2
    assert f"{rows} is no description; write a .yaml file that names it under `files`" in capsys.readouterr().err


def test_local_files_without_a_folder(make, tmp_path, capsys):
    path = str(make(ROWS))
    for arguments in (["validate", path], ["datasets", "sample", path], ["datasets", "sample", path, "--split", "train"]):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert "give --data-dir, the folder" in error and "on the hub" not in error.replace("not on the hub", "")
    assert main(["validate", f"{path}:trian"]) == 2
    assert "has no split 'trian'; did you mean 'train'" in capsys.readouterr().err
    assert main(["datasets", "sample", "gsm8k", "--rows", "2"]) == 2
    assert "--rows needs --split or --data-dir" in capsys.readouterr().err
    assert main(["datasets", "sample", path, "--data-dir", str(tmp_path), "--rows", "2"]) == 0
    assert "row 2, key" in capsys.readouterr().out
