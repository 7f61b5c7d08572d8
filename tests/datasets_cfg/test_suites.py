"""Suites: those that are shipped are whole; a run takes one as its sources; mistakes are named."""

from pathlib import Path

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load_config
from verigym.datasets_cfg.suites import available_suites, check_split, load_suite
from verigym.datasets_cfg.templates import load_template
from verigym.trainer.config.run import build_config, read_config
from verigym.trainer.tasks.mixture import build_source

NAMES = ["code", "instruction", "lean", "math", "quickstart", "r1", "r1-zero", "reasoning-mix", "tulu3-rlvr"]
RUN = {"model": "m", "output": "out"}


def test_the_named_suites_are_there():
    assert available_suites() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_makes_a_run(name):
    suite = load_suite(name)
    assert suite.name == name and suite.description
    config = build_config({**RUN, "suite": name}, "test")
    assert [source.label for source in config.sources] == [source.label for source in suite.sources]
    assert config.suite is None, "a run's own config.json can be given again"
    assert config.curriculum is (suite.curriculum is not None)
    for measured in suite.measure:
        check_split(measured.dataset, measured.split)
        assert measured.template is None or load_template(measured.template)
    for source in suite.sources:
        if source.dataset is not None:
            assert source.split not in load_config(source.dataset).evaluation_only, "nothing for measuring is trained on"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("lean", "code", "r1-zero", "r1")])
def test_the_command_prices_a_suite(name, capsys):
    assert main(["suite", "check", name, "--golds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "prompt tokens" in shown and "s of grading" in shown and "problem" not in shown


def test_the_price_is_counted_on_local_rows(shared_data, capsys):
    assert main(["suite", "check", "instruction", "--golds", "3", "--data-dir", str(shared_data)]) == 0
    assert "7,473" in capsys.readouterr().out


def test_the_run_wins_over_the_suite():
    config = read_config(None, ["model=m", "output=o", "suite=math", "group_size=4", "preset=grpo", "hard_share=0.5"])
    assert (config.group_size, config.preset, config.hard_share, config.easy_share) == (4, "grpo", 0.5, 0.05)


def test_a_file_names_a_suite(tmp_path):
    (tmp_path / "run.yaml").write_text("model: m\noutput: o\nsuite: quickstart\n")
    assert len(read_config(tmp_path / "run.yaml").sources) == 4


def test_composition_adds_rewards_inside_the_gate(shared_data):
    fields = {"dataset": "gsm8k", "data_dir": str(shared_data), "template": "think", "format": {"preset": "r1"}}
    source = build_config({**RUN, "sources": [{**fields, "add": {"length": {"weight": 0.1}}}]}, "test").sources[0]
    built = build_source(source, 0, 2)
    assert built.environment.name == "format>math+length"
    assert built.environment.reward_range[1] == pytest.approx(1.1)
    for prompt in (built.train(0), built.held_out[0]):
        answer = prompt.references["math+length/math"].answer
        assert prompt.messages[0].role == "system" and prompt.metadata["template"] == "think"
        right = built.environment.score(prompt, f"<think>hm</think> \\boxed{{{answer}}}")
        assert right.status.value == "correct" and 1.0 <= right.reward <= 1.1
        assert built.environment.score(prompt, f"\\boxed{{{answer}}}").reward == 0.0, "the gate"
        assert built.environment.score(prompt, "<think>hm</think> \\boxed{no}").reward <= 0.1


def test_generated_tasks_take_a_template_and_rewards_too():
    fields = {"environment": "units", "template": "think", "add": {"format": {"weight": 0.2, "options": {"preset": "r1"}}}}
    built = build_source(build_config({**RUN, "sources": [fields]}, "test").sources[0], 0, 2)
    prompt = built.train(3)
    assert prompt.messages[0].role == "system" and built.held_out[0].messages[0].role == "system"
    assert built.environment.score(prompt, "<think>hm</think> \\boxed{-1}").reward == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"suite": "maths"}, "no suite is called 'maths'; did you mean 'math'"),
        ({"suite": "math", "sources": [{"environment": "units"}]}, "suite and sources both say what is trained on"),
        ({"sources": [{"environment": "units"}], "data_dir": "."}, "data_dir goes with a suite"),
        ({"sources": [{"environment": "units", "shots": 2}]}, "shots are rows of a data set"),
    ],
)
def test_mistakes_in_a_run(fields, message):
    with pytest.raises(UsageError, match=message):
        build_config({**RUN, **fields}, "run.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources: [{dataset: gsm8k, wieght: 2}]", "s.yaml:3: unknown field 'sources.0.wieght'"),
        ("sources: [{dataset: gsm8k}, {dataset: gsm8k}]", "s.yaml:3: sources: two are called 'gsm8k'"),
        (
            "sources:\n  - {dataset: gsm8k}\n  - {environment: units, weight: -1}",
            "s.yaml:5: field 'sources.1.weight'",
        ),
        ("sources: [{dataset: gsm9k}]", "no data set is called 'gsm9k'"),
        ("sources: [{dataset: gsm8k, split: trian}]", "data set 'gsm8k' has no split 'trian'; did you mean 'train'"),
        ("sources: [{dataset: gsm8k, template: r2}]", "no template is called 'r2'"),
        ("sources: [{environment: math}]", "environment 'math' generates no tasks of its own"),
        ("sources: [{dataset: gsm8k}]\ntrain: {group_sise: 4}", "unknown field 'group_sise'"),
        ("sources: [{dataset: gsm8k}]\nmeasure: [{dataset: aime24, split: train}]", "s.yaml:4: data set 'aime24' has no split"),
        ("sources: [{dataset: gsm8k}]\nmeasure:\n  - dataset: aime25x", "s.yaml:5: no data set is called 'aime25x'"),
        ("sources: [{dataset: gsm8k}]\nmeasure: [{dataset: aime24, template: r2}]", "s.yaml:4: no template is called 'r2'"),
        ("sources: [{dataset: gsm8k, format: {preset: r2}}]", "s.yaml:3: source 'gsm8k': options of 'format': field 'preset'"),
        (
            "sources: [{dataset: gsm8k, add: {length: {weight: 0.1, options: {x: 1}}}}]",
            "options of 'length': unknown",
        ),
        ("sources: [{dataset: gsm8k, options: {tol: 1}}]", "options of 'math': unknown field 'tol'"),
        (
            "sources: [{dataset: aime24, split: test, eval_split: null}]",
            "split 'test' of data set 'aime24' is for evaluation",
        ),
        ("sources: []", "s.yaml:3: field 'sources'"),
    ],
)
def test_mistakes_in_a_suite_of_yours(tmp_path, capsys, text, message):
    path = tmp_path / "s.yaml"
    path.write_text(f"name: s\ndescription: d\n{text}\n")
    assert main(["suite", "check", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources: [{environment: units}]\ntrain:\n  stepz: 3", "s.yaml:5: unknown field 'stepz'; did you mean 'steps'"),
        ("sources: [{environment: units}]\ntrain:\n  steps: few", "s.yaml:5: field 'steps'"),
        ("sources: [{environment: units}]\ntrain: {steps: 1}\ntrain: {steps: 2}", "s.yaml:5: field 'train' stands twice"),
        ("sources:\n  - environment: units\n    wieght: 2", "s.yaml:5: unknown field 'sources.0.wieght'"),
        (
            "sources:\n  - environment: units\n    options:\n      lvl: 2",
            "s.yaml:6: source 'units': options of 'units'",
        ),
        ("sources:\n  - environment: units\n    format:\n      preset: r2", "s.yaml:6: source 'units': options of 'format'"),
        ("sources:\n  - weight: 1\n    dataset: gsm9k", "s.yaml:5: source 'gsm9k': no data set is called 'gsm9k'"),
        ("sources:\n  - dataset: gsm8k\n    split: trian", "s.yaml:5: source 'gsm8k': data set 'gsm8k' has no split 'trian'"),
        ("sources:\n  - dataset: gsm8k\n    eval_split: tst", "s.yaml:5: source 'gsm8k': data set 'gsm8k' has no split 'tst'"),
        ("sources: [{environment: units}]\ntrain:\n  advantage: nosuch", "s.yaml:5: field 'advantage': there is no advantage"),
    ],
)
def test_a_mistake_in_a_suite_is_the_same_line_for_check_and_train(tmp_path, capsys, text, message):
    path = tmp_path / "s.yaml"
    path.write_text(f"name: s\ndescription: d\n{text}\n")
    said = []
    for command in (["suite", "check", str(path)], ["train", "--suite", str(path), "model=m", f"output={tmp_path}/o"]):
        assert main(command) == 2
        said.append(capsys.readouterr().err.splitlines()[-1])
        assert message in said[-1]
    assert said[0] == said[1]


def test_a_suite_that_does_not_exist_is_placed_where_it_is_named(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: m\noutput: o\nsuite: maths\n")
    with pytest.raises(UsageError, match="run.yaml:3: no suite is called 'maths'; did you mean 'math'"):
        read_config(path)
    with pytest.raises(UsageError, match="override 'suite=maths': no suite is called"):
        read_config(None, ["model=m", "output=o", "suite=maths"])


def test_train_asks_for_a_file_or_a_suite(capsys):
    assert main(["train"]) == 2
    assert "give --config FILE, or --suite NAME" in capsys.readouterr().err
    assert main(["train", "--suite", "quickstart"]) == 2
    assert "the command line: field 'model' is missing" in capsys.readouterr().err


def test_list_and_show(capsys):
    assert main(["suite", "list"]) == 0
    assert all(f"{name} " in capsys.readouterr().out for name in NAMES[:1])
    assert main(["suite", "show", "r1"]) == 0
    text = Path(__file__).parents[2].joinpath("datasets_cfg/suites/r1.yaml").read_text(encoding="utf-8")
    assert capsys.readouterr().out == text


def test_a_folder_that_is_not_there_is_no_reason_to_ask_the_hub(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder; name that of the local files"):
        load_suite("math").fields(tmp_path / "nope")
