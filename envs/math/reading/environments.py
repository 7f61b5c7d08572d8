"""Grammar of environments: matrices, determinants, cases and aligned lines."""

from __future__ import annotations

from verigym.envs.math.reading.tokens.cursor import Cursor
from verigym.envs.math.tree import Call, Listing, Matrix, Node, Phrase, Relation

_END = frozenset(("end",))
_STOPS = frozenset(("&", "row", "end"))


class Environments(Cursor):
    r"""The part of the parser that reads TeX environments, from `\begin{...}` to `\end{...}`."""

    def environment(self) -> Node:
        """Read a TeX environment and return its tree."""
        kind = self.take()[1]
        saved = self.bars, self.builder, self.integrals
        self.bars, self.builder, self.integrals = "", False, 0
        self.enter()
        rows = self._lines() if kind == "lines" else self._rows()
        self.depth -= 1
        self.bars, self.builder, self.integrals = saved
        if kind == "lines":
            return rows[0][0] if len(rows) == 1 else Listing(tuple(row[0] for row in rows), "comma")
        if kind == "cases" or any(type(cell) is Relation for row in rows for cell in row):
            return self._cases(rows)
        if len({len(row) for row in rows}) != 1:
            raise self.error("rows of different lengths")
        matrix = Matrix(tuple(tuple(row) for row in rows))
        return Call("det", (matrix,)) if kind == "det" else matrix

    def _cases(self, rows: list[list[Node]]) -> Node:
        if all(len(row) == 1 for row in rows):
            return rows[0][0] if len(rows) == 1 else Listing(tuple(row[0] for row in rows), "and")
        return Call("cases", tuple(row[0] if len(row) == 1 else Phrase(tuple(row)) for row in rows))

    def _rows(self) -> list[list[Node]]:
        rows: list[list[Node]] = [[]]
        while True:
            if self.kind == "end" and self.tokens[self.at][1] == "":
                raise self.error("an environment is not closed")
            if self.kind in ("&", "row", "end"):
                raise self.error("an empty cell") if self.kind != "end" or rows[-1] else self.error("an empty matrix")
            rows[-1].append(self._cell())
            kind, text, _, _ = self.take() if self.kind != "end" else self.tokens[self.at]
            if kind == "row" and self.kind != "end":
                rows.append([])
            elif kind == "end" or (kind == "row" and self.kind == "end"):
                self._close(text)
                return rows

    def _close(self, _: str) -> None:
        if self.kind != "end" or self.tokens[self.at][1] == "":
            raise self.error("an environment is not closed")
        self.take()

    def _cell(self) -> Node:
        items, joiner, _ = self.items(_STOPS)
        if not items:
            raise self.error("an empty cell")
        if len(items) == 1:
            return items[0]
        return Listing(tuple(items), "or" if joiner == "or" else "and" if joiner == "and" else "comma")

    def _lines(self) -> list[list[Node]]:
        """Read lines whose alignment marks mean nothing."""
        self.tokens[self.at :] = [token for token in self.tokens[self.at :] if token[0] != "&"]
        self.jump(self.at)
        items, _, _ = self.items(_END)
        self._close("")
        if not items:
            raise self.error("empty lines")
        return [[item] for item in items]
