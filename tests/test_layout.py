"""The folders are the architecture: packages match the disk, imports go one way, dangerous words stay out of envs/."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("sandbox", "envs", "datasets_cfg", "trainer")  # each may import those before it
PINS = ("constraints.txt", "lock.txt")
CODE = sorted(p for layer in LAYERS for p in (ROOT / layer).rglob("*.py")) + sorted((ROOT / "src/verigym").glob("*.py"))
# Untrusted text must never reach any of these in a trusted process.
FORBIDDEN = re.compile(
    r"(?<![\w.])(?:eval|exec|compile)\(|parse_expr|sympify|pickle|yaml\.(?:unsafe_|full_)?load\(|shell=True|os\.system"
)


def settings() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_required_places_exist() -> None:
    for name in ["pyproject.toml", "README.md", *LAYERS, "tests", "CHANGELOG.md", "Makefile", *PINS, ".ci/run"]:
        assert (ROOT / name).exists(), name


def test_every_package_on_disk_is_listed_and_every_listed_one_is_on_disk() -> None:
    listed = settings()["package-dir"]
    assert isinstance(listed, dict)
    assert sorted(listed) == sorted(settings()["packages"])
    places = [ROOT / layer for layer in LAYERS] + [ROOT / "src/verigym"]
    found = set()
    for place in places:
        for init in place.rglob("__init__.py"):
            folder = init.parent.relative_to(ROOT)
            if folder.parts[:2] == ("src", "verigym") and len(folder.parts) > 2 and folder.parts[2] in LAYERS:
                continue  # the links that let mypy and editors find the root folders
            found.add(str(folder))
    assert found == set(listed.values())


@pytest.mark.parametrize("layer", LAYERS)
def test_links_for_editors_are_relative_and_right(layer: str) -> None:
    link = ROOT / "src/verigym" / layer
    assert link.is_symlink()
    assert str(link.readlink()) == f"../../{layer}"
    assert link.resolve() == ROOT / layer


def imported(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            modules.add(node.module or "")
            modules.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "verigym")
    return modules


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_one_way(layer: str) -> None:
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for path in (ROOT / layer).rglob("*.py"):
        for module in imported(path):
            parts = module.split(".")
            if parts[0] == "verigym":
                assert len(parts) > 1 and parts[1] in allowed, f"{path} imports {module}"


@pytest.mark.parametrize("layer", ["sandbox", "envs"])
def test_no_torch_below_the_trainer(layer: str) -> None:
    for path in (ROOT / layer).rglob("*.py"):
        top = ast.parse(path.read_text()).body
        names = {alias.name.split(".")[0] for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {(node.module or "").split(".")[0] for node in top if isinstance(node, ast.ImportFrom)}
        assert not names & {"torch", "transformers"}, path


def code_only(path: Path) -> str:
    """The source without its docstrings, which may name what is forbidden."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                body[0] = ast.Expr(ast.Constant(0))
    return ast.unparse(tree)


@pytest.mark.parametrize("path", sorted((ROOT / "envs").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_dangerous_calls_stay_out_of_envs(path: Path) -> None:
    found = [line for line in code_only(path).splitlines() if FORBIDDEN.search(line) and "re.compile(" not in line]
    assert not found


def test_the_search_for_dangerous_calls_can_fail(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text('"""eval( in a docstring is fine."""\nvalue = eval("1")\n')
    assert FORBIDDEN.search(code_only(sample))
    sample.write_text('"""eval( in a docstring is fine."""\nvalue = 1\n')
    assert not FORBIDDEN.search(code_only(sample))


def test_files_stay_readable() -> None:
    for path in CODE:
        assert len(path.read_text().splitlines()) <= 400, path


def test_tests_skip_in_one_way() -> None:
    """What a machine lacks stands in one table, so that the end of a run can say what was not tested."""
    own_way = re.compile(r"pytest\.skip\(|skipif\(|importorskip\(")
    table = ROOT / "tests/support/needs.py"
    assert own_way.search(table.read_text())
    others = [path for path in (ROOT / "tests").rglob("*.py") if path not in (table, Path(__file__))]
    assert [str(path) for path in others if own_way.search(path.read_text())] == []


def test_importing_envs_is_light() -> None:
    code = "import sys, verigym.envs; print([m for m in ('torch', 'sympy', 'numpy', 'datasets') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_importing_verigym_imports_no_back_end_of_the_sandbox() -> None:
    names = [f"verigym.sandbox.{name}" for name in ("local", "bubblewrap", "container")]
    code = f"import sys, verigym; print([m for m in {names} if m in sys.modules]); from verigym.sandbox import LocalSandbox"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
