"""Names of TRL and verl: each is refused with what it is here, and what it is here is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from verigym.cli import main
from verigym.envs.contract.errors import UsageError
from verigym.trainer.advantages.table import ADVANTAGES
from verigym.trainer.config.presets import PRESETS
from verigym.trainer.config.run import SourceConfig, TrainConfig, read_config
from verigym.trainer.config.synonyms import FIELDS, FORMER, VALUES, table
from verigym.trainer.losses.table import LOSSES
from verigym.trainer.preflight import refuse_unstartable

RUN = ["model=m", "output=OUTPUT", "sources=[{environment: arithmetic}]"]
TABLES = {"loss": set(LOSSES), "advantage": set(ADVANTAGES)}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_s_name_elsewhere_is_refused_with_its_name_here(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_config(None, [*RUN, f"{name}=1"])
    assert str(caught.value) == f"override '{name}=1': {name}: unknown field; here: {FIELDS[name]}"
    assert name not in TrainConfig.model_fields
    quoted = re.findall("`([^`]+)`", FIELDS[name])
    fields = {*TrainConfig.model_fields, *SourceConfig.model_fields}
    here = [word.partition(":")[0] for word in quoted]
    assert here[:1] == [word for word in here[:1] if word in fields]
    assert here or name == "logging_steps"
    assert set(here) <= fields | {*ADVANTAGES, "vllm-server"}


@pytest.mark.parametrize("given", [word for word in FIELDS.values() if re.search("`[a-z_]+: [a-z0-9-]+`", word)])
def test_values_that_are_proposed_are_taken(given: str) -> None:
    for field, value in re.findall("`([a-z_]+): ([a-z0-9-]+)`", given):
        more = {"lora_base": ["lora_rank=8", "dtype=bf16"], "kl_place": ["kl_coef=0.1"], "loss": ["aggregation=sequence_mean"]}
        urls = ["vllm_urls=[http://a]"] if value == "vllm-server" else []
        config = read_config(None, [*RUN, f"{field}={value}", *more.get(field, []), *urls])
        assert getattr(config, field) == value


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in VALUES.items() for value in values])
def test_a_value_s_name_elsewhere_is_refused_with_its_name_here(field: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_unstartable(read_config(None, [*RUN, f"{field}={value}"]))
    assert str(caught.value) == f"field '{field}': there is no {field} '{value}'; here: {VALUES[field][value]}"
    assert value not in TABLES[field]
    for word in re.findall("`([^`]+)`", VALUES[field][value]):
        name = word.removeprefix("preset: ")
        assert name in PRESETS if word != name else name in TABLES[field]


@pytest.mark.parametrize(("former", "now"), FORMER.items())
def test_a_former_name_of_a_field_is_refused_with_its_name_now(former: str, now: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_config(None, [*RUN, f"{former}=1"])
    assert str(caught.value) == f"override '{former}=1': {former}: unknown field; now called: `{now}`"
    assert former not in TrainConfig.model_fields
    assert now in TrainConfig.model_fields


def test_what_is_only_misspelt_gets_the_nearest_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.yaml").write_text(f"model: m\noutput: {tmp_path}\nsources: [{{environment: arithmetic}}]\nlr: 1.0e-4\n")
    assert main(["train", "--config", str(tmp_path / "run.yaml")]) == 2
    assert "run.yaml:4: lr: unknown field; here: `learning_rate`\n" in capsys.readouterr().err
    with pytest.raises(UsageError, match="there is no loss 'clipt'; did you mean 'clipped'"):
        refuse_unstartable(read_config(None, [*RUN, "loss=clipt"]))


def test_the_documentation_has_the_table() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/training.md").read_text()
    assert table() in page, "run `python -m verigym.trainer.config.synonyms` and paste the table into docs/training.md"
