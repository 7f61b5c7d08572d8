import pytest

from verigym import UsageError, available
from verigym.datasets_cfg import available as data_sets
from verigym.datasets_cfg import load_config


def test_the_shipped_descriptions_are_valid():
    assert {"gsm8k", "math"} <= set(data_sets())
    for name in data_sets():
        config = load_config(name)
        assert config.name == name and config.splits and config.environment in available()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("licence:", "license:", "unknown field 'license'; did you mean 'licence'"),
        ("name: tiny\n", "", "field 'name' is missing"),
        ("environment: math", "environment: [math]", "field 'environment'"),
        ("{train: rows.jsonl}", "{}", "neither hub nor files says where the rows are"),
        ("{question} Put", "{querstion} Put", "prompt uses column 'querstion', which columns does not declare"),
        ("column: answer,", "column: gold,", "reference uses column 'gold'"),
        ("[level]", "[levels]", "metadata uses column 'levels'"),
        ("{question} Put", "Put", "prompt names no {column}"),
        ("extract: hash", "extract: magic", "field 'reference.answer.extract'"),
        ("level: integer", "level: int", "field 'columns.level'"),
        ("extract: hash", "extracts: hash", "unknown field 'reference.answer.extracts'"),
        ("files: {", "files: {{", "yaml:7: not YAML: expected"),
        ("environment: math", "environment: math\nshape: mbbp", "no shape is called 'mbbp'; did you mean 'mbpp'"),
        ("environment: math", "environment: math\nshape: mbpp", "shape and reference both say what a row is compared with"),
        (
            "environment: math",
            "environment: math\nexceptions: [{task_id: a, reason: b, reference: {}}]",
            "exceptions go by the task_id that a shape finds",
        ),
        ("environment: math", "environment: math\nevaluation_only: [tran]", "evaluation_only names 'tran', which is no split"),
        ("environment: math", "environment: math\nhub: {path: a/b}", "neither splits nor files names a split"),
        ("{train: rows.jsonl}", "{train: ../rows.jsonl}", "files.train is '../rows.jsonl'; expected a file's path below"),
        ("{train: rows.jsonl}", "{train: {path: /rows.jsonl}}", "files.train is '/rows.jsonl'; expected a file's path below"),
        ("{train: rows.jsonl}", "{train: {path: a, rows: {column: level}}}", "field 'files.train.rows.first' is missing"),
        ("{train: rows.jsonl}", "{train: 3}", "field 'files.train'"),
        ("name: tiny", "name: !!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_mistakes_name_the_file_and_field(make, old, new, message):
    path = make(None, (old, new))
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "just text", "- a\n- b"])
def test_a_file_that_is_no_description(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="expected fields such as name"):
        load_config(path)


def test_names_and_paths(tmp_path):
    with pytest.raises(UsageError, match="no data set is called 'gsm'.*did you mean 'gsm8k'.*or give the path"):
        load_config("gsm")
    with pytest.raises(UsageError, match="cannot read .*nowhere.yaml: No such file"):
        load_config("nowhere.yaml")
    with pytest.raises(UsageError, match="it is no regular file"):
        load_config(tmp_path)
