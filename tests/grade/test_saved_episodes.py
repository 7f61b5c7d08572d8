"""Episodes in a file: what they claim of themselves, and what a text that looks like one gets, by `verigym grade`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verigym.cli import main

CASES = Path(__file__).parents[1] / "cases/episodes.jsonl"
ROWS: list[dict[str, Any]] = [
    row for line in CASES.read_text(encoding="ascii").splitlines() if "saved" in (row := json.loads(line))
]
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools": ("math", {"prompt": "What is 37 * 41?", "answer": "1517"}),
    "guessing": ("number_guessing", {"prompt": "Guess.", "above": 1000, "below": 1101, "number": 1042, "guesses": 4}),
}


@pytest.mark.parametrize("env", list(TASKS))
def test_attacks_in_files(env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, task = TASKS[env]
    rows = [row for row in ROWS if row["env"] == env]
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps({**task, "completion": row["saved"]}) + "\n" for row in rows))
    assert main(["grade", str(file), "--env", name, "--out", str(out), "--workers", "0"]) == 1, "there are bad rows"
    found = {line["row"]: line["score"] for line in map(json.loads, out.read_text().splitlines())}
    for number, row in enumerate(rows, 1):
        expected = row["expected"]
        if "bad" in expected:
            assert number not in found, row["name"]
        else:
            assert (found[number]["status"], found[number]["reward"]) == (expected["status"], expected["reward"]), row["name"]
    bad = [json.loads(line) for line in Path(f"{out}.bad.jsonl").read_text().splitlines()]
    assert len(bad) == sum("bad" in row["expected"] for row in rows) > 0
    said = capsys.readouterr().out
    failures = sum(row["expected"].get("status") == "error" for row in rows)
    assert (f"unscored     {failures} (in no figure above)" in said) is (failures > 0)
