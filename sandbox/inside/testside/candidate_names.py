"""Decides which names in a test belong to the candidate, from the test's text alone, so that no candidate can influence it.

The candidate is the program under test. A test may use the candidate's functions by name (`assert f(3) == 6`), import them
(`from solution import f`), or get one as `entry_point`. A test may also use built-in names and names of the prelude (available
without an import), as in `isclose(f(2), 4)`. Such names belong to the candidate only if the test uses no others, as in
`assert gcd(12, 8) == 4`.
"""

from __future__ import annotations

import _symtable as symtable  # type: ignore[import-not-found]
import ast
import builtins

from verigym.sandbox.inside.candidate import prelude_names

_BUILTINS = vars(builtins).keys()
_USED = symtable.USE
_BOUND = symtable.DEF_LOCAL | symtable.DEF_PARAM | symtable.DEF_IMPORT


class Text:
    """Names that the code of a test or of its setup uses, binds and imports."""

    def __init__(self, code: str, module: str) -> None:
        self._code = code
        self.used: set[str] = set()
        """Names that it uses."""
        self.bound: set[str] = set()
        """Names that the code binds, without the names of a star import from the candidate."""
        self.imports = False
        """Whether the code imports the candidate or names from it. A star import does not count, as it names nothing."""
        if not code:
            return
        tables = [symtable.symtable(code, "<text>", "exec")]  # the compiler's own, far cheaper than a syntax tree
        while tables:
            table = tables.pop()
            tables += table.children
            for name, flags in table.symbols.items():
                if flags & _USED:
                    self.used.add(name)
                if flags & _BOUND:
                    self.bound.add(name)
        if "import" in code:
            self._read_imports(module)

    def _read_imports(self, module: str) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                self.imports |= any(alias.name == module for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name == "*":
                        self.bound.update(_public(node.module, module))
                    self.imports |= node.module == module and alias.name != "*"

    def of_other_things(self, free: set[str]) -> set[str]:
        """Return the prelude names of which the code uses an attribute that the prelude's object lacks.

        For example, `Counter.instance()` uses an attribute that `collections.Counter` lacks. These names must belong to the
        candidate, since with the prelude's object the test would fail for every candidate.

        Args:
            free: the names that test and setup use without binding them.
        """
        accessed = {
            name
            for name in self.used & free & prelude_names.PLACES.keys()
            if prelude_names.PLACES[name][1] and f"{name}." in self._code
        }
        names: set[str] = set()
        if accessed:
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in accessed:
                    try:
                        provided = prelude_names.find(node.value.id)
                    except LookupError:
                        continue
                    if not hasattr(provided, node.attr):
                        names.add(node.value.id)
        return names

    @property
    def tree(self) -> ast.Module:
        """The syntax tree of the code."""
        return ast.parse(self._code)


def of(entry: str | None, test: Text, setup: Text) -> frozenset[str]:
    """Return the names that the candidate must define.

    They are the entry point and the names that `test` and `setup` use without defining them, except built-in and prelude names.

    Args:
        entry: the entry point; None if there is none.
        test: the names in the test's code.
        setup: the names in the code of the test's setup.
    """
    names = {entry} if entry else set()
    free = (test.used | setup.used) - test.bound - setup.bound
    names |= {name for name in free if name not in _BUILTINS and name not in prelude_names.PLACES and name[:2] != "__"}
    for text in (test, setup):
        names |= text.of_other_things(free)
    if names or test.imports or setup.imports:
        return frozenset(names)
    # The test calls only prelude or built-in functions, so the tested one must be among them.
    for known in (prelude_names.PLACES.keys() - set(prelude_names.MODULES), _BUILTINS):
        called = _called(test.tree, free & known)
        if called:
            return called
    return frozenset()


def _public(imported: str | None, module: str) -> list[str]:
    if imported is None or imported == module:
        return []
    try:
        loaded = __import__(imported, fromlist=["*"])
    except Exception:  # noqa: BLE001, reported when the test imports it
        return []
    return list(getattr(loaded, "__all__", [name for name in vars(loaded) if name[:1] != "_"]))


def _called(tree: ast.Module, among: set[str]) -> frozenset[str]:
    """Return the first of these functions that each claim calls; if no claim calls one, the first that is called at all.

    A claim is an `assert` or an assertion method; of nested calls, the inner one counts.
    """
    called: dict[bool, list[str]] = {True: [], False: []}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assert | ast.Expr | ast.Assign):
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
            matching = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in among]
            outer = {id(node) for node in matching if any(other is not node and _inside(other, node) for other in matching)}
            inner = [node.func for node in matching if id(node) not in outer and isinstance(node.func, ast.Name)]
            if inner:
                called[_is_claim(statement)].append(min(inner, key=lambda node: (node.lineno, node.col_offset)).id)
    return frozenset(called[True] or called[False][:1])


def _is_claim(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr[:6] == "assert"
    return isinstance(statement, ast.Assert)


def _inside(node: ast.AST, outer: ast.AST) -> bool:
    return any(inner is node for inner in ast.walk(outer))
