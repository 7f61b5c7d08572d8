"""The folders are the architecture: packages match the disk, imports go one way, dangerous words stay out of envs/."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import cases

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("sandbox", "envs", "datasets_cfg", "trainer")  # each may import those before it
PINS = ("constraints.txt", "lock.txt")
CODE = sorted(
    [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    + [path for path in (ROOT / "src/verigym").rglob("*.py") if path.relative_to(ROOT / "src/verigym").parts[0] not in LAYERS]
)
LONGEST = 500  # lines of a file
FULLEST = 18  # modules of a folder
# Untrusted text must never reach any of these in a trusted process.
FORBIDDEN = re.compile(
    r"(?<![\w.])(?:eval|exec|compile)\(|parse_expr|sympify|pickle|yaml\.(?:unsafe_|full_)?load\(|shell=True|os\.system"
)


def settings() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_required_places_exist() -> None:
    for name in ["pyproject.toml", "README.md", *LAYERS, "tests", "CHANGELOG.md", "Makefile", *PINS, ".ci/run"]:
        assert (ROOT / name).exists(), name


def test_every_folder_with_code_is_a_package() -> None:
    """setuptools finds packages by their `__init__.py`: a folder without one would be missing from the wheel."""
    assert settings()["packages"] == {"find": {"where": ["src"]}}
    assert [str(path) for path in CODE if not (path.parent / "__init__.py").is_file()] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_links_for_editors_are_relative_and_right(layer: str) -> None:
    link = ROOT / "src/verigym" / layer
    assert link.is_symlink()
    assert str(link.readlink()) == f"../../{layer}"
    assert link.resolve() == ROOT / layer


Import = ast.Import | ast.ImportFrom


@functools.cache
def imports(path: Path) -> list[tuple[Import, bool, bool]]:
    """Return the imports of a file; of each, whether the import is for annotations only, and whether it is at the top."""
    found: list[tuple[Import, bool, bool]] = []
    if not path.read_bytes().strip():
        return found
    tree = ast.parse(path.read_text())
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, for_types = todo.pop()
        if isinstance(node, Import):
            found.append((node, for_types, node in tree.body))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for_types = True
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):
                todo += [(one, for_types) for one in inner]
    return found


def imported(path: Path, whole: bool = False) -> set[str]:
    """Names of imported modules; `whole`: `from package import module` counts as the module, imports for types do not count."""
    modules = set()
    for node, for_types, _ in imports(path):
        if whole and for_types:
            continue
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            modules.add(node.module or "")
            modules.update(f"{node.module}.{alias.name}" for alias in node.names if whole or node.module == "verigym")
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
        top = [node for node, _, at_the_top in imports(path) if at_the_top]
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


@cases("path", sorted((ROOT / "envs").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_dangerous_calls_stay_out_of_envs(path: Path) -> None:
    if not FORBIDDEN.search(re.sub(r"\s*([(=.])\s*", r"\1", path.read_text())):
        return  # most files name none, not even in a docstring
    found = [line for line in code_only(path).splitlines() if FORBIDDEN.search(line) and "re.compile(" not in line]
    assert not found


def test_the_search_for_dangerous_calls_can_fail(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text('"""eval( in a docstring is fine."""\nvalue = eval("1")\n')
    assert FORBIDDEN.search(code_only(sample))
    sample.write_text('"""eval( in a docstring is fine."""\nvalue = 1\n')
    assert not FORBIDDEN.search(code_only(sample))


def test_files_stay_readable() -> None:
    long = {str(path.relative_to(ROOT)): count for path in CODE if (count := len(path.read_text().splitlines())) > LONGEST}
    assert long == {}


def test_folders_stay_readable() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in CODE if path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > FULLEST} == {}


def dotted(path: Path) -> tuple[str, ...]:
    """The module's name below `verigym`, by parts."""
    inner = ROOT / "src/verigym"
    parts = path.relative_to(inner if path.is_relative_to(inner) else ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def folder_graphs(modules: Mapping[tuple[str, ...], set[tuple[str, ...]]]) -> dict[tuple[str, ...], dict[str, set[str]]]:
    """For each folder, which of its members (a module, or a sub-folder as a whole) imports which other."""
    graphs: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for importer, targets in modules.items():
        for target in targets:
            shared = next((i for i, (a, b) in enumerate(zip(importer, target, strict=False)) if a != b), None)
            if shared is not None:
                graphs[importer[:shared]][importer[shared]].add(target[shared])
    return graphs


def circles(graphs: Mapping[tuple[str, ...], Mapping[str, set[str]]]) -> list[str]:
    found = []
    for folder, graph in graphs.items():
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            found.append(f"{'/'.join(folder)}: {' > '.join(reversed(error.args[1]))}")
    return found


def imports_by_module() -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    names = {dotted(path) for path in CODE}
    graph = {}
    for path in CODE:
        if path.name == "__init__.py" and dotted(path) in {(), *((layer,) for layer in LAYERS)}:
            continue  # the public names of a layer, which nothing inside it imports
        targets = set()
        for name in imported(path, whole=True):
            parts = tuple(name.split("."))[1:] if name.startswith("verigym") else ()
            while parts and parts not in names:
                parts = parts[:-1]
            targets.add(parts)
        graph[dotted(path)] = targets - {()}
    return graph


def test_no_two_members_of_a_folder_import_each_other() -> None:
    assert circles(folder_graphs(imports_by_module())) == []


def test_a_circle_of_folders_is_found() -> None:
    modules = {
        ("a", "b", "x"): {("a", "c", "y")},
        ("a", "c", "z"): {("a", "b", "w")},
        ("a", "b", "w"): set(),
        ("a", "c", "y"): set(),
    }
    assert circles(folder_graphs(modules)) in (["a: b > c > b"], ["a: c > b > c"])
    del modules[("a", "c", "z")]
    assert circles(folder_graphs(modules)) == []


def test_tests_skip_in_one_way() -> None:
    """What a machine lacks stands in one table, so that the end of a run can say what was not tested."""
    own_way = re.compile(r"pytest\.skip\(|skipif\(|importorskip\(")
    table = ROOT / "tests/support/needs.py"
    assert own_way.search(table.read_text())
    others = [path for path in (ROOT / "tests").rglob("*.py") if path not in (table, Path(__file__))]
    assert [str(path) for path in others if own_way.search(path.read_text())] == []


def test_importing_verigym_and_its_environments_is_light() -> None:
    names = [f"verigym.sandbox.backends.{name}" for name in ("local", "bubblewrap", "container")]
    names += ["torch", "sympy", "numpy", "datasets"]
    code = (
        f"import sys, verigym, verigym.envs; print([name for name in {names} if name in sys.modules]); "
        "from verigym.sandbox import LocalSandbox"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
