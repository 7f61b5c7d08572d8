"""No possessive or atomic groups in patterns: before Python 3.11.5 `re` matches them wrongly, and verdicts would differ.

There, `re.match(r"[0-9]++(?:[eE][0-9]++)?+", "2e")` gives `2e` (CPython issue 106052). What repeats a single character or
class is right everywhere: `[0-9]++`, `\\s*+`, `.{2,9}+`.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import re._compiler
import re._parser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import verigym

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("sandbox", "envs", "datasets_cfg", "trainer")
SOURCES = sorted({*(p for layer in LAYERS for p in (ROOT / layer).rglob("*.py")), *(ROOT / "src/verigym").rglob("*.py")})
YAML = sorted(p for folder in ("datasets_cfg", "recipes", "trainer") for p in (ROOT / folder).rglob("*.yaml"))
# For a piece that is no pattern by itself: the end of a group that is repeated possessively, the start of an atomic one.
_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\)(?:[*+?]|\{[0-9]*,?[0-9]*\})\+|\(\?>")
_REPEAT = re.compile(r"(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")


def refused(pattern: str | bytes, flags: int = 0) -> bool:
    """Whether a pattern holds an atomic group, or repeats possessively what is more than a character or a class."""
    return _within(re._parser.parse(pattern, flags))


def _within(items: Any) -> bool:
    for operation, value in items:
        if str(operation) == "ATOMIC_GROUP":
            return True
        if str(operation) == "POSSESSIVE_REPEAT" and not re._compiler._simple(value[2]):
            return True
        if any(_within(part) for part in _parts(value)):
            return True
    return False


def _parts(value: Any) -> Iterator[Any]:
    """Yield the patterns inside of what an operation of the parser holds."""
    if isinstance(value, re._parser.SubPattern):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _parts(one)


def compiled(value: object, depth: int = 4) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns that a module's name holds, in containers too."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for one in (*value.keys(), *value.values()):
            yield from compiled(one, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from compiled(one, depth - 1)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings of a source, docstrings aside; a placeholder of an f-string becomes a group, for it may be one."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    pieces = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings | pieces:
            if isinstance(node.value, str):
                yield node.lineno, node.value
            elif isinstance(node.value, bytes):
                yield node.lineno, node.value.decode("latin-1")
        elif isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "(?:ab)" for part in node.values)
            yield node.lineno, "".join(parts)


def suspicious(text: str) -> bool:
    """Whether a string, if it is a pattern or a piece of one, holds what is refused."""
    if "(?>" not in text and not _REPEAT.search(text):
        return False
    try:
        return refused(text)
    except (re.error, OverflowError, RecursionError):
        return _GROUP.search(text) is not None


@pytest.mark.parametrize("pattern", [r"(?:ab)*+", r"(a|bc)?+", r"(?:\d,)++", r"(?>a)", r"x(?:y(?:zz){2,3}+)*", rb"(?:a.)*+"])
def test_the_rule_refuses_groups(pattern: str | bytes) -> None:
    assert refused(pattern)
    assert suspicious(pattern if isinstance(pattern, str) else pattern.decode())


@pytest.mark.parametrize("pattern", [r"[0-9]++(?:a)*", r"\s*+.++", r"\)*+", r"[)]?+", r"(?:a|b)*", r"x{2,9}+", rb"[^\"]*+"])
def test_the_rule_takes_characters(pattern: str | bytes) -> None:
    assert not refused(pattern)
    assert not suspicious(pattern if isinstance(pattern, str) else pattern.decode())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('re.compile(rf"{_NOISE}*+x")', True),
        ('re.sub(rf"a{X}" + "(b", rf"{X}{{1,2}}+", t)', True),
        ("p = r'|cd)*+'", True),
        ("p = b'(?:ab)++'", True),
        ('re.compile(rf"[{_LETTERS}]*+{X}+")', False),
        ('"""Text (in brackets)++."""', False),
        ("p = r'\\)*+'", False),
    ],
)
def test_strings_are_found_in_source(source: str, found: bool) -> None:
    assert any(suspicious(text) for _, text in texts(ast.parse(source))) is found


def test_no_string_of_the_code_holds_one() -> None:
    assert len(SOURCES) > 400
    refusals = []
    for path in SOURCES:
        source = path.read_text()
        if "(?>" in source or _REPEAT.search(source):
            refusals += [f"{path}:{line}: {text[:80]!r}" for line, text in texts(ast.parse(source)) if suspicious(text)]
    assert refusals == []


def test_no_compiled_pattern_holds_one() -> None:
    seen = 0
    for module in pkgutil.walk_packages(verigym.__path__, "verigym."):
        if module.name.endswith("__main__"):
            continue
        try:
            names = vars(importlib.import_module(module.name))
        except ImportError:  # of an extra that is not installed; its strings are looked at above
            continue
        for name, value in names.items():
            for pattern in compiled(value):
                seen += 1
                assert not refused(pattern.pattern, pattern.flags), f"{module.name}.{name}"
    assert seen > 200


def strings(value: object) -> Iterator[str]:
    """Yield the texts in what a YAML file holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


def test_no_text_of_a_yaml_file_holds_one() -> None:
    assert len(YAML) > 50
    for path in YAML:
        for text in strings(yaml.safe_load(path.read_text())):
            assert not suspicious(text), f"{path}: {text[:80]!r}"
