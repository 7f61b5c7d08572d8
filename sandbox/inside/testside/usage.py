"""Static analysis of how a test's text uses names, independent of anything that a candidate does."""

from __future__ import annotations

import ast
import builtins
import collections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OF_PLAIN_VALUES = frozenset(
    name
    for kind in (
        str,
        bytes,
        bytearray,
        int,
        float,
        complex,
        list,
        tuple,
        dict,
        set,
        frozenset,
        collections.deque,
        collections.Counter,
    )
    for name in dir(kind)
) | {"shape", "dtype", "size", "ndim", "T", "all", "any", "sum", "min", "max", "tolist", "equals", "apply"}
"""Attributes of plain values, arrays and tables. A test that uses one of them may expect a plain value, array or table."""
_LEAVING = ("exit", "_exit", "quit", "skip", "skipTest", "fail", "xfail")
_BUILT_IN = vars(builtins).keys()
_FOLDERS = frozenset(("tmp_path", "tmpdir"))
_CONDITIONAL = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.ExceptHandler)
_CHOOSING = (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Usage:
    """How a test's source text, with its setup, uses names.

    A name is used as a class name in three cases:

    - The test calls the name, and accesses an attribute of the result that plain values do not have, or uses the result in
      `with`.
    - The name is passed to `isinstance`; or it is capitalised, and the test calls it without arguments or accesses one of its
      attributes.
    - The name is in CapWords style, and a separate statement mutates the result of calling it. (If the name were a function,
      the test would only read the result.)
    """

    def __init__(self, texts: Iterable[str]) -> None:
        nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
        self.classes: set[str] = set()
        """Names used as class names."""
        self.attributes: dict[str, set[str]] = collections.defaultdict(set)
        """Name -> attributes accessed on the results of its calls."""
        self.compares_identity = any(isinstance(node, ast.Compare) and _is_of_identity(node) for node in nodes)
        """Whether it compares objects by identity."""
        calls = [_last(node.func) for node in nodes if isinstance(node, ast.Call)]
        self.made = {name for name in calls if looks_like_a_class(name)}
        """Names in CapWords style of which the test makes instances."""
        self._makers: dict[str, set[str]] = {}
        """Variable or function of the test -> names whose call results it may hold."""
        for _ in range(3):  # follows chains of assignments
            for node in nodes:
                for target, value in _bindings(node):
                    if made := _made(value, self._makers):
                        self._makers.setdefault(target, set()).update(made)
        for node in nodes:
            self._look(node)

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id[:1].isupper():
                self.classes.add(node.value.id)
            held = _holds(node.value, self._makers)
            for name in held:
                self.attributes[name].add(node.attr)
            if node.attr not in OF_PLAIN_VALUES:
                self.classes |= held
        elif isinstance(node, ast.Call):
            name = _last(node.func)
            self.compares_identity |= name in ("assertIs", "assertIsNot")
            if name in ("isinstance", "issubclass") and len(node.args) == 2:
                self.classes |= {inner.id for inner in ast.walk(node.args[1]) if isinstance(inner, ast.Name)}
            elif name[:1].isupper() and not node.args and not node.keywords:
                self.classes.add(name)
        elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Delete):
            for changed in _changed(node):
                self.classes |= set(filter(looks_like_a_class, _holds(changed, self._makers)))
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.classes |= _holds(item.context_expr, self._makers)


def _changed(node: ast.Expr | ast.Assign | ast.AugAssign | ast.Delete) -> list[ast.Name]:
    """Return the variables that a statement mutates: by a method whose result is unused, or by item assignment."""
    if isinstance(node, ast.Expr):
        call = node.value
        mutated = [call.func.value] if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else []
    else:
        targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
        mutated = [target.value for target in targets if isinstance(target, ast.Subscript)]
    return [value for value in mutated if isinstance(value, ast.Name)]


def looks_like_a_class(name: str) -> bool:
    """Return whether `name` is in CapWords style."""
    return name[:1].isupper() and not name.isupper() and "_" not in name


def _is_of_identity(node: ast.Compare) -> bool:
    uses_is = any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
    return uses_is and not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))


def _bindings(node: ast.AST) -> list[tuple[str, ast.AST]]:
    """Return what a statement binds: the last name of each target, and the value."""
    if isinstance(node, ast.Assign):
        return [(name, node.value) for target in node.targets for name in _names(target)]
    if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        return [(name, node.value) for name in _names(node.target)]
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [(name, node.iter) for name in _names(node.target)]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [(name, node.context_expr) for name in _names(node.optional_vars)]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # a fixture or factory
        return [
            (node.name, inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Return | ast.Yield) and inner.value
        ]
    return []


def _names(target: ast.AST) -> list[str]:
    if isinstance(target, ast.Tuple | ast.List):
        return [name for element in target.elts for name in _names(element)]
    return [name] if (name := _last(target)) else []


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _made(value: ast.AST, makers: dict[str, set[str]]) -> set[str]:
    """Return the names whose call results a value is, or contains as a list does."""
    names: set[str] = set()
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            todo += node.elts
        elif isinstance(node, ast.Dict):
            todo += node.values
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            todo.append(node.elt)
        else:
            names |= _holds(node, makers)
    return names


def _holds(node: ast.AST, makers: dict[str, set[str]]) -> set[str]:
    """Return the names whose call result the expression is; results of its methods do not count."""
    if isinstance(node, ast.Subscript):
        return _holds(node.value, makers)
    if isinstance(node, ast.Call):
        name = _last(node.func)
        if isinstance(node.func, ast.Name) or (isinstance(node.func, ast.Attribute) and name[:1].isupper()):
            return {name} | makers.get(name, set())
        return set()
    return makers.get(_last(node), set())


def is_always_reached(text: str, line: int) -> bool:
    """Return whether `line` of `text` is outside of branches and loops.

    The test reaches such a line with every program that passes the lines before it.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _CONDITIONAL) and _spans(node, line):
            return False
        if isinstance(node, ast.With | ast.AsyncWith) and _spans(node, line) and line > (node.body[0].end_lineno or 0):
            return False  # an expected exception may come earlier or not at all
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            around = isinstance(node, ast.Module) or _spans(node, line)
            if around and any(_leaves(before) for before in node.body if before.lineno < line and not _spans(before, line)):
                return False
    innermost = _statement(tree, line)
    return innermost is not None and not any(isinstance(node, _CHOOSING) for node in ast.walk(innermost))


def _leaves(node: ast.stmt) -> bool:
    """Return whether a branch or loop may end the function or test that contains it."""
    return isinstance(node, _CONDITIONAL) and any(
        isinstance(inner, ast.Return | ast.Raise) or (isinstance(inner, ast.Call) and _last(inner.func) in _LEAVING)
        for inner in ast.walk(node)
    )


def _spans(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.stmt | ast.ExceptHandler) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _statement(tree: ast.AST, line: int) -> ast.stmt | None:
    """Return the innermost statement at a line."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _spans(node, line)]
    return max(around, key=lambda node: node.lineno, default=None)


def imports(text: str, line: int) -> bool:
    """Return whether the statement at `line` of `text` is an import, of a module that no output chooses."""
    return isinstance(_statement(ast.parse(text), line), ast.Import | ast.ImportFrom)


def binds(text: str, name: str | None) -> bool:
    """Return whether `text` binds `name` in any scope. A NameError gives None for a variable of an enclosing function: True."""
    bounds: Sequence[str | None]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=bound, ctx=ast.Store() | ast.Del()) | ast.arg(arg=bound) | ast.alias(asname=str(bound)):
                bounds = [bound]
            case ast.alias(name=whole):
                bounds = [whole.partition(".")[0]]
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                bounds = [bound]
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                bounds = several
            case (
                ast.ExceptHandler(name=bound)
                | ast.MatchAs(name=bound)
                | ast.MatchStar(name=bound)
                | ast.MatchMapping(rest=bound)
            ):
                bounds = [bound]
            case _:
                continue
        if name is None or name in bounds:
            return True
    return False


def calls(text: str, line: int, name: str) -> bool:
    """Return whether the statement at `line` of `text` calls the function `name` directly, not through `map` or the like."""
    statement = _statement(ast.parse(text), line)
    return statement is not None and any(
        isinstance(node, ast.Call) and _last(node.func) == name for node in ast.walk(statement)
    )


def has_branches(text: str) -> bool:
    """Return whether `text` contains branches, loops or comprehensions."""
    return any(isinstance(node, _CONDITIONAL + _CHOOSING) for node in ast.walk(ast.parse(text)))


def _called(node: ast.AST) -> set[str]:
    """Return the names that are called there: their results are passed, not they."""
    return {inner.func.id for inner in ast.walk(node) if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name)}


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def names_from_candidate(text: str, under_test: Iterable[str], module: str) -> set[str]:
    """Return the names in `text` that may hold a value or object from the program under test.

    These are the program's own names, values derived from them, arguments passed to the program, all parameters, and
    every name that occurs in a branch or loop.

    Args:
        text: source text of setup and test.
        under_test: names that the candidate defines.
        module: name of the candidate's module.
    """
    nodes = list(ast.walk(ast.parse(text)))
    of_pytest = _from_fixtures(nodes)
    names = {*under_test, module}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == module and alias.asname}
        elif isinstance(node, ast.arg) and node.arg not in of_pytest:
            names.add(node.arg)
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        if isinstance(node, _CONDITIONAL):
            names |= _names_in(node) - _BUILT_IN
    before = -1
    while len(names) != before:
        before = len(names)
        for node in nodes:
            pairs = _bindings(node)
            if isinstance(node, ast.AugAssign):
                pairs = [(name, node.value) for name in _names(node.target)]
            names |= {target for target, value in pairs if names & _names_in(value)}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and names & _names_in(node):
                names.add(node.name)
            if isinstance(node, ast.Call) and names & _names_in(node.func):
                passed = {name for part in (*node.args, *node.keywords) for name in _names_in(part) - _called(part)}
                names |= passed - _BUILT_IN - of_pytest  # a program cannot change a path
    return names


def _from_fixtures(nodes: list[ast.AST]) -> set[str]:
    """Return the names of pytest's folders for a test, and of paths that are made of nothing else."""
    bound = [pair for node in nodes for pair in _bindings(node)]
    makers = {name for name, _ in bound}
    names = {node.arg for node in nodes if isinstance(node, ast.arg) and node.arg in _FOLDERS} - makers
    before = -1
    while len(names) != before:
        before = len(names)
        for name in makers:
            values = [value for other, value in bound if other == name]
            if all(names & _names_in(value) and _names_in(value) <= names for value in values):
                names.add(name)
    return names


def passes_only_own_values(text: str, line: int, of_program: set[str]) -> bool:
    """Return whether the values that the statement at `line` of `text` passes in calls are all the test's own.

    That is, its calls have arguments, and no argument may come from the program.

    Args:
        text: source text of the test.
        line: line number.
        of_program: the names that may hold a value from the program; see `names_from_candidate`.
    """
    statement = _statement(ast.parse(text), line)
    given = [
        part
        for node in (ast.walk(statement) if statement is not None else ())
        if isinstance(node, ast.Call)
        for part in (*node.args, *node.keywords)
    ]
    return bool(given) and not any(of_program & _names_in(part) for part in given)


def returns_a_value(text: str, name: str) -> bool:
    """Return whether a function called `name`, if `text` defines one by `def` at top level, has a `return` with a value."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    return not functions or any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(functions[-1]))


def defines(text: str, name: str) -> bool:
    """Return whether `text` defines or imports a function called `name` at top level.

    An assignment of a computed value to `name` does not count.
    """
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Import | ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            return True
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) and name in _bound_by(node):
            return True
    return False


def _bound_by(node: ast.Assign) -> list[str]:
    return [name for target in node.targets for name in _names(target)]
