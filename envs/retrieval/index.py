"""BM25 over documents (Robertson and Zaragoza 2009), by the package bm25s; equal scores are ordered by id.

The index of a large corpus is stored on disk under the hash of the corpus, and every process that needs it memory-maps it.
"""

from __future__ import annotations

import bisect
import fcntl
import functools
import json
import logging
import os
import re
import shutil
import tempfile
import threading
import unicodedata
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.extras import install
from verigym.envs.retrieval.corpus import CorpusFiles, Document, Documents, StoredDocuments, read_corpus
from verigym.envs.user_tmp import own_folder

VERSION = "1"
"""Raised whenever rankings may change."""
LARGE_BYTES = 4 * 2**20
"""If the corpus files have at least this size, their index is stored on disk. For less, making it takes about a second."""
MOST_WORDS = 64
"""Words of a query that count."""

# Scripts that are written without spaces (Thai, Japanese, Chinese) count by the character.
_SINGLE = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]++")


def words(text: str) -> list[str]:
    """Return the words of `text`: runs of letters and digits, case-folded and in compatibility form (NFKC)."""
    return _WORD.findall((text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold())


@functools.cache
def library() -> Any:
    """Return the imported package bm25s.

    Raises:
        EnvironmentFailure: `unavailable`, because bm25s is not installed.
    """
    before = os.environ.get("DISABLE_TQDM")
    os.environ["DISABLE_TQDM"] = "1"  # its progress bars, shown or not, take semaphores that a killed worker leaves behind
    try:
        import bm25s
    except ImportError:
        raise EnvironmentFailure("unavailable", f"retrieval needs the package bm25s; {install('bm25s')}") from None
    finally:
        if before is None:
            del os.environ["DISABLE_TQDM"]
        else:
            os.environ["DISABLE_TQDM"] = before
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG, whatever the program around it wants
    return bm25s


class Hit(NamedTuple):
    """A document that was found."""

    document: Document
    score: float


class Index:
    """Ranked search over documents."""

    def __init__(self, documents: Documents, bm25: Any) -> None:
        self._documents = documents
        self._bm25 = bm25

    @classmethod
    def of(cls, documents: Documents) -> Index:
        """Return a new index of `documents`.

        Raises:
            EnvironmentFailure: bm25s is not installed, or a document cannot be read.
        """
        vocabulary: dict[str, int] = {}
        rows: list[array[int]] = []
        for place in range(len(documents.ids)):
            document = documents.read(place)
            row = words(f"{document.title} {document.text}")
            rows.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in row]))
        if not vocabulary:  # nothing will be found, and the library wants at least one
            vocabulary[""] = 0
            rows[0].append(0)
        bm25 = library().BM25(method="lucene", k1=1.5, b=0.75)
        bm25.index((rows, vocabulary), create_empty_token=False, show_progress=False)
        return cls(documents, bm25)

    def __len__(self) -> int:
        return len(self._documents.ids)

    def search(self, query: str, count: int) -> list[Hit]:
        """Return at most `count` documents that contain a word of `query`, best first and equally good ones sorted by id.

        Raises:
            EnvironmentFailure: a document can no longer be read.
        """
        import numpy as np

        known = [word for word in dict.fromkeys(words(query)) if word in self._bm25.vocab_dict][:MOST_WORDS]
        if not known:
            return []
        scores = self._bm25.get_scores(known)
        places = np.flatnonzero(scores > 0)
        if len(places) > count:  # all that are no worse than the last one wanted, then in the order of the ids
            least = np.partition(scores[places], len(places) - count)[len(places) - count]
            places = places[scores[places] >= least]
        order = places[np.argsort(-scores[places], kind="stable")][:count]
        return [Hit(self._documents.read(int(place)), float(scores[place])) for place in order]

    def document(self, one: str) -> Document | None:
        """Return the document whose id is `one`, or None if no document has this id.

        Raises:
            EnvironmentFailure: the document can no longer be read.
        """
        ids = self._documents.ids
        place = bisect.bisect_left(ids, one)
        return self._documents.read(place) if place < len(ids) and ids[place] == one else None


_making = threading.Lock()


def index_of(corpus: CorpusFiles, folder: str = "") -> Index:
    """Return the index of `corpus`. It is made once per process, or read from a folder in which a process has stored it.

    Args:
        corpus: files of the corpus.
        folder: folder in which large indexes are stored; empty for this user's temporary folder.

    Raises:
        EnvironmentFailure: the files have changed since they were hashed, bm25s is not installed, or the disk fails.
    """
    with _making:
        return _index_of(corpus, folder)


@functools.lru_cache(maxsize=8)
def _index_of(corpus: CorpusFiles, folder: str) -> Index:
    corpus.refuse_changes()
    if not _is_large(corpus):
        return Index.of(read_corpus(corpus))
    kept = _kept_at(corpus, folder)
    with _locked(kept):
        if not kept.is_dir():
            _keep(Index.of(read_corpus(corpus)), kept)
    return _load(corpus, kept)


def check_corpus(corpus: CorpusFiles, folder: str = "") -> None:
    """Check every row of `corpus`, unless an index of exactly these files is stored in `folder`.

    Raises:
        UsageError: see `read_corpus`.
    """
    try:
        known = _is_large(corpus) and _kept_at(corpus, folder).is_dir()
    except (EnvironmentFailure, OSError):  # said again, and as what it is, when an index is needed
        known = False
    if not known:
        read_corpus(corpus)


def _is_large(corpus: CorpusFiles) -> bool:
    return sum(state.size for state in corpus.files) >= LARGE_BYTES


def _kept_at(corpus: CorpusFiles, folder: str) -> Path:
    key = f"{corpus.sha256[:32]}-{VERSION}-{library().__version__}"
    return Path(folder or own_folder("retrieval")) / key


@contextmanager
def _locked(kept: Path) -> Iterator[None]:
    """Hold the index's lock: of several processes that need it at once, one makes it and the others wait."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{kept}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _keep(index: Index, kept: Path) -> None:
    """Write the index beside its place, and then put it there, so that it is whole or absent."""
    documents = index._documents
    assert isinstance(documents, StoredDocuments)
    beside = Path(tempfile.mkdtemp(prefix=f"{kept.name}.", dir=kept.parent))
    try:
        index._bm25.save(beside, show_progress=False)
        with (beside / "ids.json").open("w", encoding="ascii") as file:
            json.dump(list(documents.ids), file)
        with (beside / "places.bin").open("wb") as file:
            documents.places.tofile(file)
        beside.rename(kept)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _load(corpus: CorpusFiles, kept: Path) -> Index:
    try:
        ids = json.loads((kept / "ids.json").read_bytes())
        places = array("q")
        places.frombytes((kept / "places.bin").read_bytes())
        bm25 = library().BM25.load(kept, mmap=True, load_corpus=False, show_progress=False)
        if len(places) != 3 * len(ids) or bm25.scores["num_docs"] != len(ids):
            raise ValueError("its parts do not fit")
    except (OSError, ValueError, KeyError) as error:
        raise EnvironmentFailure(
            "unavailable", f"the index {kept} is damaged ({type(error).__name__}: {error}); remove this folder"
        ) from None
    return Index(StoredDocuments(corpus, ids, places), bm25)
