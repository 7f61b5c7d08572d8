"""The two clients are one text: `Client` is `AsyncClient` without its awaits."""

import ast
from pathlib import Path

import verigym.client.asynchronous
import verigym.client.blocking

BLOCKING_NAMES = {
    "AsyncClient": "Client",
    "AsyncRemoteEpisode": "RemoteEpisode",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aread": "read",
    "aiter_lines": "iter_lines",
    "asyncio": "time",
}


class Blocking(ast.NodeTransformer):
    """Rewrite a tree without `async` and `await`, in the names of the blocking client."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return self.visit(node.value)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        fields = {name: getattr(node, name) for name in node._fields}
        return ast.FunctionDef(**{**fields, "name": BLOCKING_NAMES.get(node.name, node.name)})

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        self.generic_visit(node)
        return ast.For(**{name: getattr(node, name) for name in node._fields})

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.name = BLOCKING_NAMES.get(node.name, node.name)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = BLOCKING_NAMES.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = BLOCKING_NAMES.get(node.attr, node.attr)
        return node


def definitions(module: str) -> list[ast.stmt]:
    return [node for node in ast.parse(Path(module).read_text()).body if isinstance(node, ast.ClassDef)]


def test_the_blocking_client_is_the_asynchronous_one_without_awaits() -> None:
    asynchronous = definitions(verigym.client.asynchronous.__file__)
    expected = [ast.unparse(ast.fix_missing_locations(Blocking().visit(node))) for node in asynchronous]
    blocking = definitions(verigym.client.blocking.__file__)
    assert len(blocking) == 2
    for text, node in zip(expected, blocking, strict=True):
        assert ast.unparse(node).splitlines() == text.splitlines()
