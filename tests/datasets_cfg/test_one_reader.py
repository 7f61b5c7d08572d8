"""One reader of YAML: in every kind of file, mistakes are named by file, line and field."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load_config
from verigym.datasets_cfg.suites import load_suite
from verigym.datasets_cfg.templates import load_template
from verigym.trainer.config.run import read_config
from verigym.trainer.pipelines.plan import read_pipeline

ROOT = Path(__file__).parents[2]

DATASET = """\
name: tiny
description: d
url: https://example.org
licence: MIT
environment: math
files: {train: rows.jsonl}
columns: {question: string, answer: string}
prompt: "{question}"
reference: {answer: {column: answer}}
"""
TEMPLATE = "name: t\ndescription: d\nplain: false\nuser: '{prompt}'\n"
SUITE = "name: s\ndescription: d\nsources:\n  - environment: units\n    weight: 1\n"
RUN = "model: m\noutput: o\nsources:\n  - environment: units\n    weight: 1\n"
PIPELINE = (
    "output: o\nstages:\n  - name: start\n    kind: scratch\n    demonstrations: [{environment: units}]\n"
    "  - name: rl\n    kind: grpo\n    model: stage:start\n    sources: [{environment: units}]\n    steps: 3\n"
)

READERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "data set": (load_config, DATASET, "licence: MIT"),
    "template": (lambda path: load_template(str(path)), TEMPLATE, "plain: false"),
    "suite": (load_suite, SUITE, "    weight: 1"),
    "run": (read_config, RUN, "    weight: 1"),
    "pipeline": (read_pipeline, PIPELINE, "    steps: 3"),
}


def refused(kind: str, text: str, path: Path) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        READERS[kind][0](path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", READERS)
def test_mistakes_in_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    read, text, line = READERS[kind]
    path = tmp_path / "f.yaml"
    number = text.splitlines().index(line) + 1
    field = line.strip().partition(":")[0]
    twice = text.replace(line, f"{line}\n{line}")
    assert refused(kind, twice, path) == f"{path}:{number + 1}: field {field!r} stands twice; keep one"
    unknown = text.replace(line, f"{line}\n{line.replace(field, field + 'x')}")
    assert re.match(
        rf"{path}:{number + 1}: .*unknown field '[a-z0-9.]*{field}x'; did you mean '{field}'", refused(kind, unknown, path)
    )
    wrong = text.replace(line, f"{line.partition(':')[0]}: [a]")
    assert re.match(
        rf"{path}:{number}: .*field '[a-z0-9.]*{field}': Input should be .*; got \['a'\]", refused(kind, wrong, path)
    )
    assert re.match(rf"{path}:\d+: not YAML: ", refused(kind, text + "x: [\n", path))
    path.write_text(text, encoding="utf-8")
    assert read(path)


def test_a_stage_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("output: o\ndata: [x.jsonl]\ndata: [y.jsonl]\n", encoding="utf-8")
    assert main(["pairs", "--config", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}:3: field 'data' stands twice; keep one\n"


def test_nothing_else_reads_yaml() -> None:
    reads = re.compile(r"\byaml\.(?:safe_load|load|full_load|compose)\b")
    product = [
        path for folder in ("src", "trainer", "datasets_cfg", "envs", "sandbox") for path in (ROOT / folder).rglob("*.py")
    ]
    assert {path.name for path in product if reads.search(path.read_text(encoding="utf-8"))} == {"yamlfile.py"}
