"""Files of people who mean harm, or who saved them badly: one line says what is wrong, and nothing takes long."""

import gzip
import json
import os

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load, load_config
from verigym.datasets_cfg.suites import load_suite
from verigym.datasets_cfg.templates import load_template
from verigym.datasets_cfg.yamlfile import MAX_CHARACTERS

ROWS = [{"question": f"{i}+1?", "answer": f"#### {i + 1}", "level": i} for i in range(3)]
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
UNDER_OPTIONS = "options:\n" + "".join(f"  {line}\n" for line in BOMB.splitlines())
GENERATED = "name: t\ndescription: d\nlicence: l\nurl: u\nenvironment: arithmetic\ngenerated: {train: %d}\n"


def said(caught):
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message
    return message


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (BOMB, ".yaml:17: over 100,000 values, too many for a description"),
        (UNDER_OPTIONS, ".yaml:18: over 100,000 values"),
        ("options: &x {a: *x}\n", ".yaml:13: an alias stands inside what it stands for"),
        ("fixed: &x {a: [*x]}\n", ".yaml:13: an alias stands inside what it stands for"),
        ("options: " + "[" * 5000 + "]" * 5000, "not YAML: brackets or fields stand too deep in each other"),
        ("note: '" + "x" * MAX_CHARACTERS + "'", "too long for a description; is it the data?"),
        ("note: !!python/object/apply:os.system ['true']\n", ".yaml:13: not YAML: could not determine a constructor"),
        ("1: 2\n", ".yaml:13: field 1: the name of a field is text; put it in quotes"),
        ("[a, b]: 2\n", ".yaml:13: not YAML: found unhashable key"),
        ("options:\n\ta: 1\n", ".yaml:14: not YAML: found character '\\t'"),
        ("---\nname: b\n", ".yaml:13: not YAML: but found another document"),
        ('note: "a\x00b"\n', "not YAML: unacceptable character #x0000"),
    ],
    ids=["bomb", "bomb-inside", "loop", "loop-deep", "deep", "long", "tag", "number", "list", "tab", "two", "nul"],
)
def test_hostile_yaml(make, added, message):
    path = make(None)
    path.write_text(path.read_text(encoding="utf-8") + added, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert message in said(caught) and str(path) in said(caught)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected fields such as name, files and prompt; got an empty file"),
        (b"# nothing\n", "got an empty file"),
        (b"- a\n", "got a list"),
        (b"name: \xff\n", "not UTF-8: invalid start byte; save the file as UTF-8"),
        ("name: a\n".encode("utf-16"), "not UTF-8"),
    ],
)
def test_files_that_are_no_description(tmp_path, content, message):
    path = tmp_path / "d.yaml"
    path.write_bytes(content)
    for reader in (load_config, load_suite, load_template):
        with pytest.raises(UsageError) as caught:
            reader(str(path))
        assert message.replace("name, files and prompt", "") in said(caught) or "got an empty file" in said(caught)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p.yaml")
    for place in (tmp_path / "p.yaml", tmp_path):
        for reader in (load_config, lambda name: load_template(f"{name}/x.yaml" if os.path.isdir(name) else str(name))):
            with pytest.raises(UsageError, match="cannot read"):
                reader(place)


@pytest.mark.parametrize("change", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")])
def test_a_mark_at_the_start_and_other_line_ends_do_no_harm(make, tmp_path, change):
    path = make(ROWS)
    for file in (path, tmp_path / "rows.jsonl"):
        file.write_bytes(change(file.read_bytes()))
    assert [prompt.references["math"].answer for prompt in load(path, "train", data_dir=tmp_path)] == ["1", "2", "3"]
    path.write_bytes(path.read_bytes().replace(b"licence", b"license"))
    with pytest.raises(UsageError, match=".yaml:4: unknown field 'license'"):
        load_config(path)


def test_one_alias_used_often_is_fine(make, tmp_path):
    path = make(ROWS)
    path.write_text(path.read_text() + "sample_row: {a: &x [1, 2], b: *x, c: *x}\n")
    assert load_config(path).sample_row["c"] == [1, 2]


@pytest.mark.parametrize(
    ("prompt", "given"),
    [
        ("{% for i in range(10**9) %}x{% endfor %}{{ question }}", "{ question }"),
        ("{question.__class__.__mro__}", "{question.__class__.__mro__}"),
        ("{question[0]}", "{question[0]}"),
        ("{ question | upper }", "{ question | upper }"),
    ],
)
def test_another_template_language_is_refused_by_name(make, prompt, given):
    path = make(None, ("{question} Put", f"{prompt} Put"))
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert f".yaml:9: prompt holds {given!r}, which nothing fills in; a whole column is {{question}}" in said(caught)


def test_braces_of_latex_are_text(make, tmp_path):
    path = make(ROWS, ("Put the", r"\\text{{question}} in {two words} {% x %} Put the"))
    assert load(path, "train", data_dir=tmp_path)[0].text.startswith(r"0+1? \text{0+1?} in {two words} {% x %} Put")


def test_what_a_row_holds_is_never_filled_in(make, tmp_path):
    row = {"question": "{answer} {{ level }} {question.__class__}", "answer": "#### 1", "level": 1}
    assert load(make([row]), "train", data_dir=tmp_path)[0].text.startswith(row["question"] + " Put")


@pytest.mark.parametrize("place", ["/etc/passwd", "../x.jsonl", "a/../../x.jsonl", ".", '""', "https://example.org/x.jsonl"])
def test_a_file_lies_below_the_data_directory(make, place):
    with pytest.raises(UsageError, match="yaml:6: files.train is .*; expected a file's path below the data directory"):
        load_config(make(None, ("rows.jsonl", place)))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("  answer:", "  anser:", 11, "unknown field 'reference.anser' for environment 'math'; did you mean 'answer'"),
        ("environment: math", "environment: math\nfixed: {gold: 1}", 8, "unknown field 'fixed.gold' for environment 'math'"),
        (
            "reference:\n  answer: {column: answer, extract: hash}\n",
            "",
            None,
            "environment 'math' needs the field 'reference.answer'",
        ),
    ],
)
def test_a_reference_fits_its_environment(make, tmp_path, old, new, line, message):
    path = make(ROWS, (old, new))
    with pytest.raises(UsageError) as caught:
        load(path, "train", data_dir=tmp_path)
    assert said(caught).startswith(f"{path}:{line}: {message}" if line else f"{path}: {message}")


@pytest.mark.parametrize("count", [0, -1, 10**13, 10**30])
def test_how_many_tasks_are_written_is_bounded(tmp_path, count):
    path = tmp_path / "t.yaml"
    path.write_text(GENERATED % count)
    with pytest.raises(UsageError, match=r"t\.yaml:6: generated\.train is -?\d+; expected a number of tasks from 1 to"):
        load_config(path)


def test_many_written_tasks_take_no_memory(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(GENERATED % 10**12)
    prompts = load(path, "train", limit=2)
    assert len(prompts) == 2 and len(load(path, "train")) == 10**12 and prompts[1].metadata["row_index"] == 1


BAD_FILES = {
    "empty": ("rows.jsonl", b"", "rows.jsonl cannot be read as JSON Lines: it is empty"),
    "blank": ("rows.jsonl", b"\n\n", "it is empty"),
    "nothing": ("rows.jsonl", b"[]", "cannot be read as JSON Lines"),
    "scalars": ("rows.jsonl", b"1\n2\n", "line 1: expected an object, a row; found int"),
    "cut": ("rows.jsonl", b'{"question": "a", "answer": "####', "line 1: Unterminated string starting at character 29"),
    "twice": ("rows.jsonl", b'{"question": "a", "question": "b"}\n', "line 1: key 'question' occurs twice in one object"),
    "deep": ("rows.jsonl", b'{"question": ' + b"[" * 5000 + b"]" * 5000 + b"}\n", "nested deeper than 100 levels"),
    "packed": ("rows.jsonl.gz", b'{"question": "a"}\n', "Not a gzipped file"),
    "cut-packed": ("rows.jsonl.gz", gzip.compress(os.urandom(4000))[:-20], "ended before the end-of-stream marker"),
    "no-parquet": ("rows.parquet", b"not at all", "rows.parquet cannot be read as Parquet: Parquet magic bytes not found"),
    "no-archive": ("rows.tar.gz", b"not at all", "cannot be read as JSON Lines"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_hold_no_rows(make, tmp_path, capfd, name):
    file, content, message = BAD_FILES[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load(make(None, ("rows.jsonl", file)), "train", data_dir=tmp_path)
    assert message in said(caught) and "data set 'tiny'" in said(caught)
    assert capfd.readouterr().err == "", "the library's own lines say it a second time"


@pytest.mark.parametrize("content", ["[1]", "{}", '{"question": 1}', '{"question": {"0": "a"}, "answer": {}}'])
def test_columns_that_are_none(make, tmp_path, content):
    (tmp_path / "rows.jsonl").write_text(content)
    path = make(None, ("{train: rows.jsonl}", "{train: {path: rows.jsonl, layout: columns}}"))
    with pytest.raises(UsageError, match="rows.jsonl cannot be read as columns: (expected one JSON object|the columns do not)"):
        load(path, "train", data_dir=tmp_path)


def test_a_packed_bomb_is_refused_before_it_is_unpacked(make, tmp_path, monkeypatch):
    monkeypatch.setattr("verigym.datasets_cfg.reading.MAX_UNASKED_BYTES", 1 << 20)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(b'{"question": "' + b"a" * (8 << 20) + b'"}\n'))
    with pytest.raises(UsageError, match=r"it unpacks to over [\d,]+ bytes, 200 times its size"):
        load(make(None, ("rows.jsonl", "rows.jsonl.gz")), "train", data_dir=tmp_path)


def test_a_broken_file_with_a_sha256_and_a_broken_file_to_pin(make, tmp_path, capsys):
    (tmp_path / "rows.jsonl.gz").write_bytes(b"no gzip")
    path = make(None, ("{train: rows.jsonl}", f"{{train: {{path: rows.jsonl.gz, sha256: {'a' * 64}}}}}"))
    with pytest.raises(UsageError, match="cannot be read as JSON Lines: Not a gzipped file"):
        load(path, "train", data_dir=tmp_path)
    packed = bytearray(gzip.compress(b"text " * 100))
    packed[12:20] = b"\xff" * 8
    (tmp_path / "rows.jsonl.gz").write_bytes(packed)
    assert main(["datasets", "pin", str(path), "--data-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: cannot read {tmp_path}/rows.jsonl.gz: ")


def test_a_row_that_is_not_utf8_is_named_and_the_others_count(make, tmp_path, capsys):
    path = make(ROWS)
    with (tmp_path / "rows.jsonl").open("ab") as stream:
        stream.write(b'{"question": "\xff", "answer": "#### 1", "level": 1}\n')
    assert main(["datasets", "validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]) == 1
    shown = capsys.readouterr().out
    assert "row 4, field (any): is not UTF-8" in shown and "3 of 4 golds score the maximum" in shown


def test_a_split_whose_condition_no_row_meets(make, tmp_path):
    path = make(ROWS, ("{train: rows.jsonl}", "{train: {path: rows.jsonl, where: {column: question, equals: x}}}"))
    with pytest.raises(UsageError, match="field files.train.where: no row of .* has question = 'x'; values there: "):
        load(path, "train", data_dir=tmp_path)


def test_a_whole_number_that_its_column_made_a_fraction(make, tmp_path):
    import datasets

    rows = [{**ROWS[0], "level": 1.0}, {**ROWS[0], "level": 1.5}]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "rows.parquet"))
    prompts = load(make(None, ("rows.jsonl", "rows.parquet")), "train", data_dir=tmp_path)
    with pytest.raises(UsageError, match="field 'level' is float; expected integer; a column is read as float where one of"):
        prompts[0]


def test_a_row_of_another_type_is_that_rows_own_matter(make, tmp_path):
    prompts = load(make([*ROWS, {**ROWS[0], "level": 1.5}, {**ROWS[0], "answer": 12}]), "train", data_dir=tmp_path)
    assert [prompt.metadata["level"] for prompt in prompts.first(3)] == [0, 1, 2]
    for row, field in ((3, "level"), (4, "answer")):
        with pytest.raises(UsageError, match=f"row {row + 1}: field .{field}"):
            prompts[row]


MIXED = """name: mixed
description: d
licence: none
url: https://example.org
contamination: none
environment: code
files: {train: rows.jsonl}
columns: {q: string, tests: list}
prompt: "{q}"
reference: {tests: {column: tests}}
"""


@pytest.mark.parametrize("one_list", [False, True])
def test_values_are_what_the_file_says_whatever_other_rows_hold(tmp_path, one_list):
    rows = [
        {"q": "as text", "tests": [{"type": "call", "function": "s", "args": ["12"], "expected": "12"}]},
        {"q": "double", "tests": [{"type": "call", "function": "d", "args": [3], "expected": 6}]},
        {"q": "digits", "tests": [{"type": "stdio", "stdin": "3.14159265358979323846", "stdout": "2020-01-01"}]},
    ]
    text = json.dumps(rows) if one_list else "".join(json.dumps(row) + "\n\n" for row in rows)
    (tmp_path / "rows.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "mixed.yaml").write_text(MIXED)
    prompts = load(tmp_path / "mixed.yaml", "train", data_dir=tmp_path)
    tests = [prompt.references["code"].tests[0] for prompt in prompts]
    assert (tests[0].args, tests[0].expected, tests[1].args) == (("12",), "12", (3,))
    assert (tests[2].stdin, tests[2].stdout) == ("3.14159265358979323846", "2020-01-01")
    env = prompts.environment
    for source, reward in (("def s(n): return str(n)", 1.0), ("def s(n): return int(n)", 0.0)):
        assert env.score(prompts[0], f"```python\n{source}\n```").reward == reward


def test_parquet_is_read(make, tmp_path):
    import datasets

    datasets.Dataset.from_list(ROWS).to_parquet(str(tmp_path / "rows.parquet"))
    prompts = load(make(None, ("rows.jsonl", "rows.parquet")), "train", data_dir=tmp_path)
    assert [prompt.metadata["level"] for prompt in prompts] == [0, 1, 2]


def test_a_name_does_not_move_the_cursor(make, tmp_path, capsys):
    path = make([json.dumps(ROWS[0])], ("name: tiny", 'name: "\\e[31mtiny"'))
    assert main(["datasets", "validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]) == 0
    assert "\x1b" not in capsys.readouterr().out
