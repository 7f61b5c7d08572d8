import json

import pytest

CONFIG = """
name: tiny
description: Sums.
licence: CC0-1.0
url: https://example.org
files: {train: rows.jsonl}
environment: math
columns: {question: string, answer: string, level: integer}
prompt: "{question} Put the answer in \\\\boxed{}."
reference:
  answer: {column: answer, extract: hash}
metadata: [level]
"""


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory):
    """Keeps converted copies out of the user's cache."""
    import datasets

    previous = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("datasets_cache")
    yield
    datasets.config.HF_DATASETS_CACHE = previous


@pytest.fixture
def make(tmp_path):
    """Write a description and its rows; return the path of the YAML file."""

    def write(rows, *changes):
        text = CONFIG
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "tiny.yaml"
        path.write_text(text, encoding="utf-8")
        if rows is not None:
            lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
            (tmp_path / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write
