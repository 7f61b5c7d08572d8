"""The tools `search` and `open`: find documents, and read one page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Protocol

from pydantic import Field, JsonValue

from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.retrieval.corpus import CorpusFiles
from verigym.envs.retrieval.index import VERSION, Index, index_of, words
from verigym.envs.tools.function import OpenTool, Signature, ToolError

MOST_RESULTS = 20
LONGEST_QUERY = 400
EXCERPT_CHARS = 120
_SCANNED_CHARS = 20_000


class Source(Protocol):
    """Where documents come from."""

    @property
    def identity(self) -> str:
        """Return a text that determines the documents, such as their hash."""

    def index(self) -> Index:
        """Return the index of the documents.

        Raises:
            EnvironmentFailure: the index cannot be made or read.
        """


class FileSource:
    """The documents of a corpus on disk."""

    def __init__(self, corpus: CorpusFiles, folder: str) -> None:
        self._corpus, self._folder = corpus, folder
        self.identity = corpus.sha256

    def index(self) -> Index:
        """Return the index of the files. Each process makes or reads it when it is first needed."""
        return index_of(self._corpus, self._folder)


class CorpusTool:
    """The tool `search` or `open` for the documents of a source. It has no state: opening it only loads the source's index."""

    def __init__(self, kind: type[Search] | type[Read], source: Source, page_chars: int) -> None:
        self._kind, self.source, self._page_chars = kind, source, page_chars
        self.spec = kind.signature.spec
        self.identity = f"{VERSION}+{sha256_hex(canonical_json([source.identity, page_chars]))[:8]}"

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    def over(self, source: Source) -> CorpusTool:
        """Return the same tool over other documents."""
        return CorpusTool(self._kind, source, self._page_chars)

    def misfit(self, arguments: Mapping[str, JsonValue]) -> str:
        """Return why `arguments` do not match the schema, or an empty string if they do."""
        return self._kind.signature.misfit(arguments)

    def open(self, seed: str) -> OpenTool:
        """Return this tool, opened for an episode.

        Raises:
            EnvironmentFailure: the index cannot be made or read.
        """
        return self._kind(self.source.index(), self._page_chars)


class Search:
    """The tool `search` in an episode."""

    signature: Signature

    def __init__(self, index: Index, page_chars: int) -> None:
        self._index = index

    def call(self, arguments: Mapping[str, JsonValue]) -> str:
        """Run a call."""
        return self.search(**self.signature.typed(arguments))

    def search(self, query: str, k: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = 5) -> str:
        """Find the k documents that fit a query best. Each result has the document's id, its title and an excerpt."""
        if len(query) > LONGEST_QUERY:
            raise ToolError(f"the query is longer than {LONGEST_QUERY} characters; give the words that matter")
        wanted = words(query)
        if not wanted:
            raise ToolError("the query has no words")
        hits = self._index.search(query, k)
        if not hits:
            return "No document has a word of the query."
        return "\n".join(
            f"[{hit.document.id}] {_line(hit.document.title)}: {excerpt(hit.document.text, wanted)}" for hit in hits
        )

    def close(self) -> None:
        """Nothing is held."""


class Read:
    """The tool `open` in an episode."""

    signature: Signature

    def __init__(self, index: Index, page_chars: int) -> None:
        self._index, self._page_chars = index, page_chars

    def call(self, arguments: Mapping[str, JsonValue]) -> str:
        """Run a call."""
        return self.open(**self.signature.typed(arguments))

    def open(self, id: str, page: Annotated[int, Field(ge=1)] = 1) -> str:
        """Read a document by its id. A long document has several pages."""
        document = self._index.document(id) or self._index.document(id.strip().removeprefix("[").removesuffix("]"))
        if document is None:
            raise ToolError(f"there is no document {id[:80]!r}; take an id from a result of search")
        pages = max(-(-len(document.text) // self._page_chars), 1)
        if page > pages:
            raise ToolError(f"document {document.id!r} has {pages} page{'' if pages == 1 else 's'}, not {page}")
        text = document.text[(page - 1) * self._page_chars : page * self._page_chars]
        of = f" (page {page} of {pages})" if pages > 1 else ""
        return f"[{document.id}] {_line(document.title)}{of}\n{text}"

    def close(self) -> None:
        """Nothing is held."""


Search.signature = Signature(Search.search, "search")
Read.signature = Signature(Read.open, "open")


def excerpt(text: str, wanted: list[str]) -> str:
    """Return the part of `text` that contains the most words of `wanted`, as one line; of equally good parts the first."""
    part = text[:_SCANNED_CHARS]
    sought = set(wanted)
    starts = [at for at, word in _placed(part) if word in sought]
    best, most, first = 0, 0, 0
    for last, at in enumerate(starts):
        while at - starts[first] > EXCERPT_CHARS // 2:
            first += 1
        if last - first >= most:
            best, most = starts[first], last - first + 1
    start = max(best - EXCERPT_CHARS // 4, 0)
    shown = _line(text[start : start + EXCERPT_CHARS])
    return f"{'...' if start else ''}{shown}{'...' if start + EXCERPT_CHARS < len(text) else ''}"


def _placed(text: str) -> list[tuple[int, str]]:
    """Return the words of a text with about where they begin: by pieces between spaces, since folding may change lengths."""
    found: list[tuple[int, str]] = []
    at = 0
    for piece in text.split(" "):
        found += [(at, word) for word in words(piece)]
        at += len(piece) + 1
    return found


def _line(text: str) -> str:
    return " ".join(text.split())
