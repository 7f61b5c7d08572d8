"""docs/reliability.md names tests that exist, one or more for each fault."""

from __future__ import annotations

import ast

import pytest
from catalogue import PAGE, ROOT, named


@pytest.mark.parametrize(("file", "function"), sorted(named()))
def test_a_test_that_the_page_names_is_there(file: str, function: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_fault_has_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and "---" not in line]
    faults = [row for row in rows if not row.startswith("| fault |")]
    assert len(faults) >= 30
    assert [row for row in faults if "::test_" not in row] == []


def test_they_have_the_marker(request: pytest.FixtureRequest) -> None:
    names = {(item.path, getattr(item, "originalname", "")): item for item in request.session.items}
    here = {(path.relative_to(ROOT).as_posix(), name): item for (path, name), item in names.items()}
    assert [one for one in named() if one in here and not here[one].get_closest_marker("chaos")] == []
