"""The golds of public data sets, from the folder of shared data; none is dropped without being counted."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from verigym.envs.extraction.methods import last_box

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


class Gold(NamedTuple):
    """One gold with its question: `text` is the LaTeX as the data set has it."""

    dataset: str
    row: int
    question: str
    text: str


class Loaded(NamedTuple):
    """The golds of one data set, the rows without one, and why a whole set is absent."""

    golds: list[Gold]
    empty: int
    absent: str = ""


Row = dict[str, Any]


def boxed(solution: str) -> str:
    r"""Return what stands in the last `\boxed` of a solution; nothing where there is none."""
    return last_box(solution) or ""


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _olympiad(row: Row) -> str:
    """The answers of a row are written beside each other: `$69$,$84$`; its unit stands in a field of its own."""
    return ", ".join(answer.strip() for answer in row["final_answer"])


def _gaokao(row: Row) -> str:
    return re.sub(r"solution:$", "", str(row["answer"])).strip()


_SETS: dict[str, tuple[str, Callable[[Row], str], Callable[[Row], str]]] = {
    "math5000": ("math/math_test_5000.jsonl.gz", lambda row: row["problem"], lambda row: boxed(row["solution"])),
    "math500": ("math/math500_cleaned.json.gz", lambda row: row["problem"], lambda row: boxed(row["solution"])),
    "gsm8k_test": ("gsm8k/test.jsonl.gz", lambda row: row["question"], lambda row: row["answer"].rpartition("####")[2].strip()),
    "gsm8k_train": (
        "gsm8k/train.jsonl.gz",
        lambda row: row["question"],
        lambda row: row["answer"].rpartition("####")[2].strip(),
    ),
    "aime24": ("math_benchmarks/aime24.jsonl", lambda row: row["problem"], lambda row: str(row["answer"])),
    "amc23": ("math_benchmarks/amc23.jsonl", lambda row: row["problem"], lambda row: _number(row["answer"])),
    "minerva": ("math_benchmarks/minerva_math.jsonl", lambda row: row["problem"], lambda row: boxed(row["solution"])),
    "olympiadbench": ("math_benchmarks/olympiadbench.jsonl.gz", lambda row: row["question"], _olympiad),
    "gaokao2023en": ("math_benchmarks/gaokao2023en.jsonl", lambda row: row["question"], _gaokao),
    "svamp": (
        "math_benchmarks/svamp.jsonl.gz",
        lambda row: f"{row['Body']} {row['Question']}",
        lambda row: _number(row["Answer"]),
    ),
}
DATASETS = tuple(_SETS)


def load(dataset: str, folder: Path = DATA) -> Loaded:
    """Return a data set's golds in its order."""
    path, question, gold = _SETS[dataset]
    file = folder / path
    if not file.exists():
        return Loaded([], 0, f"{file} is not here")
    rows = list(_rows(file))
    found = [Gold(dataset, index, question(row), gold(row)) for index, row in enumerate(rows)]
    full = [item for item in found if item.text]
    return Loaded(full, len(found) - len(full))


def _rows(file: Path) -> Iterator[Row]:
    content = gzip.open(file, "rt", encoding="utf-8").read() if file.suffix == ".gz" else file.read_text(encoding="utf-8")
    if file.name.endswith(".json.gz"):
        columns = json.loads(content)
        for index in columns["problem"]:
            yield {name: values[index] for name, values in columns.items()}
    else:
        yield from (json.loads(line) for line in content.splitlines() if line)
