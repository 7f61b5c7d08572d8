"""Settings: what is refused, and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from verigym.cli import main
from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints.store import write_config
from verigym.trainer.config.run import TrainConfig, read_config

GOOD = """
model: some/model
output: OUTPUT
sources:
  - environment: arithmetic
    options: {digits: 1}
"""
SOURCE = "sources: [{environment: arithmetic}]\n"
BASE = "model: some/model\noutput: OUTPUT\n"

MALFORMED = {
    "not yaml": ("model: [", "run.yaml:1: not YAML"),
    "an alias in itself": ("model: &m [*m]", "run.yaml:1: an alias stands inside what it stands for"),
    "a list": ("- model", "expected fields such as `name: value`; got a list"),
    "empty": ("", "got an empty file"),
    "a number as key": (BASE + SOURCE + "1: 2", "run.yaml:4: field 1: the name of a field is text; put it in quotes"),
    "unknown field": (BASE + SOURCE + "learning_rat: 1.0", "did you mean 'learning_rate'?"),
    "no model": ("output: OUTPUT\n" + SOURCE, "field 'model' is missing"),
    "no sources": (BASE, "field 'sources' is missing"),
    "empty sources": (BASE + "sources: []", "run.yaml:3: field 'sources': expected a list of at least 1 item; got []"),
    "a source that is text": (BASE + "sources: [arithmetic]", "field 'sources.0'"),
    "unknown field of a source": (BASE + "sources: [{environment: arithmetic, wait: 2}]", "did you mean 'weight'?"),
    "neither kind": (BASE + "sources: [{weight: 1}]", "an `environment` that writes its tasks, or a `dataset`"),
    "negative weight": (BASE + "sources: [{environment: arithmetic, weight: -1}]", "field 'sources.0.weight'"),
    "nan weight": (BASE + "sources: [{environment: arithmetic, weight: .nan}]", "field 'sources.0.weight'"),
    "the same name twice": (BASE + "sources: [{environment: units}, {environment: units}]", "give one a `name`"),
    "training on the held-out split": (BASE + "sources: [{environment: units, split: test}]", "held out"),
    "text for a number": (BASE + SOURCE + "steps: many", "field 'steps'"),
    "the line of a field": (BASE + SOURCE + "steps: many", "run.yaml:4: field 'steps'"),
    "the line inside a source": (
        BASE + "sources:\n  - environment: arithmetic\n    weight: x",
        "run.yaml:5: field 'sources.0.weight'",
    ),
    "the line of what clashes": (BASE + SOURCE + "kl_coef: 0.0\nreference_every: 2", "run.yaml:5: reference_every is about"),
    "the line of a source": (
        BASE + "sources:\n  - {environment: arithmetik}",
        "run.yaml:4: source 'arithmetik': no environment",
    ),
    "the line of the model": (BASE.replace("some/model", "./no/model") + SOURCE, "run.yaml:1: model: there is no directory"),
    "a field twice": (BASE + SOURCE + "steps: 3\nsteps: 4", "run.yaml:5: field 'steps' stands twice; keep one"),
    "a key without a space": (BASE + "sources: [{environment:arithmetic}]", "YAML needs a space after the colon"),
    "text for fields": (
        BASE + "sources: [{environment: story, graded_by: math}]",
        "Input should be a mapping of the fields environment, options; got 'math'",
    ),
    "a field of what is added": (
        BASE + "sources: [{environment: story, add: {length: {wait: 1}}}]",
        "unknown field 'sources.0.add.length.wait'; did you mean 'weight'?",
    ),
    "no steps": (BASE + SOURCE + "steps: 0", "field 'steps'"),
    "a group of one": (BASE + SOURCE + "group_size: 1", "group_size is 1, but grpo compares"),
    "unknown advantage": (BASE + SOURCE + "advantage: gppo", "field 'advantage'"),
    "hot": (BASE + SOURCE + "temperature: 0", "field 'temperature'"),
    "greedy samples": (BASE + SOURCE + "eval_samples: 4", "needs eval_temperature above 0"),
    "bad betas": (BASE + SOURCE + "adam_betas: [0.9, 1.0]", "adam_betas"),
    "too many updates": (BASE + SOURCE + "updates_per_step: 99", "updates_per_step cannot exceed"),
    "unknown environment": (BASE + "sources: [{environment: arithmetik}]", "did you mean 'arithmetic'?"),
    "unknown option": (BASE + "sources: [{environment: arithmetic, options: {digit: 2}}]", "did you mean 'digits'?"),
    "unknown data set": (BASE + "sources: [{dataset: gsm9k}]", "did you mean 'gsm8k'?"),
    "no data there": (BASE + "sources: [{dataset: gsm8k, data_dir: /nowhere}]", "/nowhere"),
    "an environment without tasks": (BASE + "sources: [{environment: math}]", "generates no tasks of its own"),
    "no such model": (BASE.replace("some/model", "./no/model") + SOURCE, "there is no directory './no/model'"),
    "no such model on the hub": (
        BASE + SOURCE,
        "run.yaml:1: model: there is no directory 'some/model' here, and no model of that name in the hub's cache",
    ),
    "yes is no number": (
        BASE + "sources: [{environment: arithmetic, weight: yes}]",
        "run.yaml:3: field 'sources.0': weight is true, a truth value; expected a number",
    ),
    "true steps": (BASE + SOURCE + "steps: true", "steps is true, a truth value; expected a number"),
    "a gate without a value": (
        BASE + "sources: [{environment: arithmetic, format: }]",
        "run.yaml:3: field 'format' has no value; give one, write null or {} if that is meant, or remove the field",
    ),
    "a field without a value": (BASE + SOURCE + "steps:\nseed: 1", "run.yaml:4: field 'steps' has no value"),
    "output is a file": (f"model: m\noutput: {__file__}\n" + SOURCE, "cannot be used as a folder"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_configuration_is_one_line_that_names_the_place(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text, expected = MALFORMED[case]
    path = tmp_path / "run.yaml"
    path.write_text(text.replace("OUTPUT", str(tmp_path / "out")))
    assert main(["train", "--config", str(path)]) == 2
    lines = capfd.readouterr().err.strip().removeprefix("loading torch and transformers\n").splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert expected in lines[0]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("steps", "expected key=value"),
        ("=3", "expected key=value"),
        ("steps=[", "override 'steps=[': not YAML"),
        ("sources.0.options={digits: 1, digits: 2}", "field 'digits' stands twice; keep one"),
        ("sources.7.weight=1", "there is no '7'"),
        ("nothing.at.all=1", "there is no 'nothing'"),
        ("step=1", "did you mean 'steps'?"),
    ],
)
def test_a_malformed_override_is_refused(override: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD)
    with pytest.raises(UsageError) as caught:
        read_config(path, [override])
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_value_of_the_command_line_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD + "steps: 4\n")
    with pytest.raises(UsageError, match=r"^override 'steps=many': field 'steps': .*got 'many'$"):
        read_config(path, ["steps=many"])
    with pytest.raises(UsageError, match=r"^override 'sources.0.weight=-1': field 'sources.0.weight'"):
        read_config(path, ["sources.0.weight=-1"])
    with pytest.raises(UsageError, match=r"^override 'sources=\[\{weight: x\}\]': field 'sources.0.weight'"):
        read_config(path, ["sources.0.weight=2", "sources=[{weight: x}]"])
    with pytest.raises(UsageError, match=r"run\.yaml:6: field 'sources.0.options'"):
        path.write_text(GOOD.replace("{digits: 1}", "3") + "steps: 4\n")
        read_config(path, ["steps=5"])


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_config(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_config(tmp_path / "binary.yaml")


def test_overrides_reach_inside_and_read_exponents(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD)
    config = read_config(path, ["learning_rate=1e-5", "sources.0.weight=3", "sources.0.options.digits=2", "kl_coef=0.1"])
    assert config.learning_rate == 1e-5
    assert config.sources[0].weight == 3
    assert config.sources[0].options == {"digits": 2}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("lora_alpha=16", "set lora_rank"),
        ("lora_targets=[q_proj]", "set lora_rank"),
        ("gae_lambda=0.9", "set advantage to gae"),
        ("value_clip=0.2", "set advantage to gae"),
        ("whiten_advantages=false", "set advantage to gae"),
        ("vllm_dtype=bf16", "set engine to vllm or vllm-server"),
        ("vllm_sleep=false", "set engine to vllm,"),
        ("vllm_wait_s=5", "set engine to vllm-server"),
    ],
)
def test_a_setting_without_effect_is_refused(override: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD)
    with pytest.raises(UsageError, match=override.partition("=")[0]) as caught:
        read_config(path, [override])
    assert expected in str(caught.value)


@pytest.mark.parametrize("overrides", [[], ["preset=ppo"], ["preset=ppo", "advantage=reinforce++"]], ids=str)
def test_a_run_s_own_settings_can_be_given_again(overrides: list[str], tmp_path: Path) -> None:
    """They name every field; defaults and what the preset chose are no wish of anyone's."""
    path = tmp_path / "run.yaml"
    path.write_text(GOOD)
    config = read_config(path, overrides)
    write_config(tmp_path, config)
    assert read_config(tmp_path / "config.json") == config


def test_every_field_has_a_sentence() -> None:
    for name, field in TrainConfig.model_fields.items():
        assert field.description, name


def test_a_field_that_is_overridden_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD)
    with pytest.raises(UsageError, match="override 'steps=4': 'steps=3' sets this field too; keep one"):
        read_config(path, ["steps=3", "seed=1", "steps=4"])
