"""The notebook of the quickstart runs, and its model learns."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from needs import require
from notebooks import QUICKSTART, accuracies, executed, printed

LONGEST = 3000
"""Characters that a cell may show."""


@pytest.mark.slow
def test_the_notebook_runs_and_rewards_teach_its_model(tmp_path: Path) -> None:
    require("nbclient")
    shown = printed(executed(QUICKSTART, tmp_path))
    accuracy = accuracies(shown["train"])
    assert accuracy["untrained"] < accuracy["after the cold start"] < accuracy["after GRPO"], accuracy
    assert shown["score"].splitlines()[1].startswith("1.0 correct")
    assert {line.split()[0] for line in shown["held_out"].splitlines()[1:]} == {"0", "10", "20"}
    assert len(shown["samples"].splitlines()) == 4


@pytest.mark.slow
def test_a_notebook_is_run_in_its_folder_and_leaves_no_kernel_behind(tmp_path: Path) -> None:
    require("nbclient")
    import nbformat

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("import os\nprint(os.getpid(), os.getcwd())", id="where")],
    )
    nbformat.write(notebook, tmp_path / "small.ipynb")
    pid, folder = printed(executed(tmp_path / "small.ipynb", tmp_path))["where"].split()
    assert folder == str(tmp_path.resolve())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_the_notebook_shows_short_outputs_without_paths_of_a_machine() -> None:
    cells = [cell for cell in json.loads(QUICKSTART.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        (output,) = cell["outputs"]
        text = "".join(output["text"])
        assert output["name"] == "stdout" and 0 < len(text) < LONGEST, cell["id"]
        assert not re.search(r"(?<![\w.])/(?:\w+/)+|\\x1b", text), (cell["id"], text)
    assert accuracies("".join(cells[1]["outputs"][0]["text"])).keys() == {"untrained", "after the cold start", "after GRPO"}
