"""Documents of a corpus: JSON Lines with `id`, `title` and `text`, in one file or in all `*.jsonl` files of a folder.

A corpus may be larger than memory: only the ids of documents and their positions in the files are kept in memory.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import weakref
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from verigym.envs.contract.errors import EnvironmentFailure, UsageError, explain, near_file
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.file_hash import file_sha256

SUFFIX = ".jsonl"
LONGEST_ID = 200


class Document(NamedTuple):
    """One document."""

    id: str
    title: str
    text: str


class Documents(Protocol):
    """Documents in the order of their ids."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids, ascending."""

    def read(self, place: int) -> Document:
        """Return the document at index `place`.

        Raises:
            EnvironmentFailure: the document can no longer be read.
        """


class DocumentList:
    """Documents in memory."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = sorted(documents)
        self.ids: Sequence[str] = [document.id for document in self._documents]

    def read(self, place: int) -> Document:
        """Return the document at this place."""
        return self._documents[place]


def _text_of_number(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Row(BaseModel):
    """A line of a file. Fields that are not listed are not read."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: Annotated[
        str, BeforeValidator(_text_of_number), Field(min_length=1, max_length=LONGEST_ID, pattern=r"^\S(?:[^\n\r]*\S)?$")
    ]
    title: str = ""
    text: str = Field(min_length=1)


class FileState(NamedTuple):
    """A file's path, with its size and modification time. If these are unchanged, the file's earlier hash is still valid."""

    path: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: str) -> FileState:
        """Return the present state of the file at `path`.

        Raises:
            OSError: the file does not exist.
        """
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)


class CorpusFiles(NamedTuple):
    """The files of a corpus, with the hash of what they hold."""

    path: str
    """As the user gave it."""
    files: tuple[FileState, ...]
    sha256: str

    @classmethod
    def at(cls, path: str) -> CorpusFiles:
        """Return the files of a corpus at `path`, which is a file or a folder.

        Raises:
            UsageError: there are no files, or one cannot be read.
        """
        states, hashes = [], []
        for name in _names(path):
            try:
                states.append(FileState.of(name))
                hashes.append(file_sha256(name))
            except OSError as error:
                raise UsageError(f"corpus {path}: {name} cannot be read ({error.strerror})") from None
        return cls(path, tuple(states), sha256_hex(canonical_json(hashes)))

    def refuse_changes(self) -> None:
        """Check that the files are still those that were hashed.

        Raises:
            EnvironmentFailure: a file has changed.
        """
        try:
            same = all(FileState.of(state.path) == state for state in self.files) or (
                CorpusFiles.at(self.path).sha256 == self.sha256
            )
        except (OSError, UsageError):
            same = False
        if not same:
            raise EnvironmentFailure(
                "unavailable", f"corpus {self.path}: its files have changed since the environment was made; make it again"
            )


def _names(path: str) -> list[str]:
    place = Path(path)
    if place.is_dir():
        names = sorted(str(one) for one in place.iterdir() if one.suffix == SUFFIX and one.is_file())
        if not names:
            raise UsageError(f"corpus {path}: the folder has no files *{SUFFIX}; put documents there, one JSON object a line")
        return names
    if not place.is_file():
        raise UsageError(f"corpus {path}: there is no such file or folder{near_file(path)}")
    return [path]


class StoredDocuments:
    """Documents that stay in their files. Only their ids and their positions in the files are in memory."""

    def __init__(self, corpus: CorpusFiles, ids: Sequence[str], places: array[int]) -> None:
        self._corpus = corpus
        self.ids = ids
        self.places = places
        """For each document three numbers: index of its file, offset of its line in bytes, length of the line in bytes."""
        self._lock = threading.Lock()
        self._descriptors: dict[int, int] = {}
        weakref.finalize(self, _close_all, self._descriptors)

    def read(self, place: int) -> Document:
        """Return the document at index `place`.

        Raises:
            EnvironmentFailure: the file has changed, or cannot be read.
        """
        file, start, length = self.places[3 * place : 3 * place + 3]
        row = None
        try:
            row = _Row.model_validate_json(os.pread(self._descriptor(file), length, start))
        except (OSError, ValueError):
            pass
        if row is None or row.id != self.ids[place]:
            path = self._corpus.files[file].path
            raise EnvironmentFailure(
                "unavailable", f"corpus {self._corpus.path}: {path} no longer holds document {self.ids[place]!r} where it did"
            )
        return Document(row.id, row.title, row.text)

    def _descriptor(self, file: int) -> int:
        with self._lock:
            if file not in self._descriptors:
                self._descriptors[file] = os.open(self._corpus.files[file].path, os.O_RDONLY | os.O_CLOEXEC)
            return self._descriptors[file]


def _close_all(descriptors: dict[int, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])


@functools.lru_cache(maxsize=8)
def read_corpus(corpus: CorpusFiles) -> StoredDocuments:
    """Read all documents of a corpus, once per process, and return their ids and positions.

    Raises:
        UsageError: a row is not a document, two documents have the same id (the message names file and line), or there are no
            documents.
    """
    ids: list[str] = []
    lines = array("q")
    places = array("q")
    for one, file, line, start, length in _rows(corpus):
        ids.append(one)
        lines.append(line)
        places.extend((file, start, length))
    if not ids:
        raise UsageError(f"corpus {corpus.path}: it holds no documents; put some there, one JSON object a line")
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for first, second in zip(order, order[1:], strict=False):
        if ids[first] == ids[second]:
            at, earlier = (f"{corpus.files[places[3 * one]].path}:{lines[one]}" for one in (second, first))
            raise UsageError(f"{at}: the id {ids[first]!r} is that of the document at {earlier}; give each its own")
    ordered = array("q", (number for one in order for number in places[3 * one : 3 * one + 3]))
    return StoredDocuments(corpus, [ids[one] for one in order], ordered)


def _rows(corpus: CorpusFiles) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the id of each document, its file's number, its line's number, and where that begins and how long it is."""
    for file, state in enumerate(corpus.files):
        start = 0
        with open(state.path, "rb") as stream:
            for line, raw in enumerate(stream, 1):
                if raw.strip():
                    yield _row(raw, f"{state.path}:{line}").id, file, line, start, len(raw)
                start += len(raw)


def _row(raw: bytes, place: str) -> _Row:
    try:
        return _Row.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            why = f"no JSON ({first['msg'].removeprefix('Invalid JSON: ')})"
        elif first["type"] == "model_type":
            why = f"expected an object; got {json.loads(raw)!r:.40}"
        elif first["type"] == "string_pattern_mismatch":
            why = f"field 'id': expected one line without space around it; got {first['input']!r:.60}"
        else:
            why = explain(error, _Row.model_fields)
        raise UsageError(f'{place}: {why}; a document is {{"id": ..., "title": ..., "text": ...}}') from None
