"""The packages that read answers stand in layers: tables of LaTeX, then extraction, then math."""

import ast
from pathlib import Path

import pytest

ENVS = Path(__file__).resolve().parents[3] / "envs"
LAYERS = {"latex": (), "extraction": ("latex",), "math": ("latex", "extraction")}


def packages_imported(layer: str) -> set[str]:
    """Return which packages of LAYERS the modules of one import."""
    modules = [
        node.module or ""
        for path in (ENVS / layer).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    return {name for name in LAYERS if any(f"{module}.".startswith(f"verigym.envs.{name}.") for module in modules)} - {layer}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_below(layer: str) -> None:
    assert packages_imported(layer) == set(LAYERS[layer])


def test_the_tables_of_latex_import_nothing_else_of_ours() -> None:
    for path in (ENVS / "latex").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("verigym"):
                assert node.module.startswith("verigym.envs.latex"), path
