"""A corpus is checked row by row, ranked by BM25 with ties by id, and an index of a large one is kept on disk."""

from __future__ import annotations

import json
import math
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from needs import needs

from verigym import EnvironmentFailure, UsageError
from verigym.envs.retrieval import index as index_module
from verigym.envs.retrieval.corpus import CorpusFiles, Document, DocumentList, read_corpus
from verigym.envs.retrieval.index import Index, check_corpus, index_of, words

pytestmark = needs("bm25s")

ROWS = [
    {"id": "b", "title": "Bridges", "text": "The bridge over the Aare was built in 1844.", "url": "not read"},
    {"id": 7, "text": "A river has two banks."},
    {"id": "a", "title": "Rivers", "text": "The Aare is a river in Switzerland."},
]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def index(*texts: str) -> Index:
    return Index.of(DocumentList([Document(f"{number:03}", "", text) for number, text in enumerate(texts)]))


def found(one: Index, query: str, count: int = 5) -> list[str]:
    return [hit.document.id for hit in one.search(query, count)]


def test_rows_become_documents_in_the_order_of_their_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", [ROWS[0], "", *ROWS[1:]])
    documents = read_corpus(CorpusFiles.at(str(path)))
    assert list(documents.ids) == ["7", "a", "b"]
    assert documents.read(0) == Document("7", "", "A river has two banks.")
    assert [documents.read(place).title for place in (1, 2)] == ["Rivers", "Bridges"]


def test_a_folder_is_one_corpus(tmp_path: Path) -> None:
    write(tmp_path / "2.jsonl", ROWS[:1])
    write(tmp_path / "1.jsonl", ROWS[1:])
    (tmp_path / "notes.txt").write_text("no documents")
    corpus = CorpusFiles.at(str(tmp_path))
    documents = read_corpus(corpus)
    assert [documents.read(place).id for place in range(3)] == ["7", "a", "b"]
    again = write(tmp_path.parent / f"{tmp_path.name}-elsewhere.jsonl", [])
    again.unlink()
    assert CorpusFiles.at(str(tmp_path)).sha256 == corpus.sha256
    write(tmp_path / "3.jsonl", [{"id": "c", "text": "more"}])
    assert CorpusFiles.at(str(tmp_path)).sha256 != corpus.sha256


BAD = {
    '{"id": "c", "text": ': r"c.jsonl:2: no JSON \(EOF while parsing",
    "[1]": r"c.jsonl:2: expected an object; got \[1\]",
    '{"text": "t"}': "c.jsonl:2: field 'id' is missing",
    '{"id": "c"}': "c.jsonl:2: field 'text' is missing",
    '{"id": "c", "text": ""}': "c.jsonl:2: field 'text': .*at least 1 character",
    '{"id": "c", "text": 3}': "c.jsonl:2: field 'text': .*string.*got 3",
    '{"id": "c", "title": null, "text": "t"}': "c.jsonl:2: field 'title': .*got None",
    '{"id": true, "text": "t"}': "c.jsonl:2: field 'id': .*got True",
    '{"id": " c", "text": "t"}': "c.jsonl:2: field 'id': expected one line without space around it",
    '{"id": "c\\nd", "text": "t"}': "c.jsonl:2: field 'id': expected one line",
    '{"id": "c", "text": "\\ud800"}': "c.jsonl:2: no JSON",
    '{"id": "a", "text": "t"}': r"c.jsonl:2: the id 'a' is that of the document at .*c.jsonl:1; give each its own",
}


@cases(("row", "words"), BAD.items())
def test_a_bad_row_is_named_by_file_and_line(row: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", [{"id": "a", "text": "t"}, row])
    with pytest.raises(UsageError, match=words):
        read_corpus(CorpusFiles.at(str(path)))


def test_where_there_is_no_corpus(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", [""])
    with pytest.raises(UsageError, match="holds no documents"):
        read_corpus(CorpusFiles.at(str(tmp_path / "corpus.jsonl")))
    with pytest.raises(UsageError, match="no such file or folder; did you mean 'corpus.jsonl'"):
        CorpusFiles.at(str(tmp_path / "corpse.jsonl"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"has no files \*.jsonl"):
        CorpusFiles.at(str(tmp_path / "empty"))


def test_a_corpus_that_changes_is_our_failure(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", ROWS)
    corpus = CorpusFiles.at(str(path))
    documents = read_corpus(corpus)
    os.utime(path, ns=(1, 1))
    assert len(index_of(corpus)) == 3, "another time alone is no change"
    path.write_text("x" * path.stat().st_size)
    with pytest.raises(EnvironmentFailure, match="no longer holds document 'a' where it did"):
        documents.read(1)
    index_module._index_of.cache_clear()
    with pytest.raises(EnvironmentFailure, match="changed since the environment was made"):
        index_of(corpus)


def naive(texts: list[str], query: str) -> list[tuple[float, str]]:
    """BM25 as Lucene has it, in float64 and by loops."""
    rows = [words(text) for text in texts]
    mean = sum(map(len, rows)) / len(rows)
    ranked = []
    for number, row in enumerate(rows):
        score = 0.0
        for word in dict.fromkeys(words(query)):
            with_it = sum(word in other for other in rows)
            idf = math.log(1 + (len(rows) - with_it + 0.5) / (with_it + 0.5))
            count = row.count(word)
            score += idf * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(row) / mean))
        if score > 0:
            ranked.append((score, f"{number:03}"))
    return ranked


def test_scores_are_those_of_the_formula() -> None:
    rng = random.Random(0)
    for _ in range(20):
        texts = [" ".join(rng.choices("abcdefghij", k=rng.randint(1, 12))) for _ in range(30)]
        query = " ".join(rng.choices("abcdefghijk", k=3))
        expected = sorted(((-score, one) for score, one in naive(texts, query)))
        hits = index(*texts).search(query, 30)
        assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in expected], rel=1e-5)
        assert {hit.document.id for hit in hits} == {one for _, one in expected}


def test_equally_good_documents_are_ordered_by_id() -> None:
    one = index("sun", "moon", "sun", "star sun", "sun", "moon", "sun")
    assert found(one, "sun", 2) == ["000", "002"]
    assert found(one, "sun", 4) == ["000", "002", "004", "006"]
    assert found(one, "sun", 10) == ["000", "002", "004", "006", "003"]
    assert found(one, "sun sun sun", 10) == found(one, "sun", 10)
    assert found(one, "nothing like it") == []


@cases(
    ("text", "expected"),
    [
        ("The Aare, 1844!", ["the", "aare", "1844"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("\uff21\uff22 x_y", ["ab", "x", "y"]),
        ("\u6771\u4eac\u306f big", ["\u6771", "\u4eac", "\u306f", "big"]),
        ("\ud800 ... \x00", []),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_documents_without_a_word_are_there_and_never_found() -> None:
    one = index("...", "!!")
    assert (len(one), found(one, "a"), found(one, "")) == (2, [], [])
    assert one.document("001") == Document("001", "", "!!")
    assert one.document("002") is None


def test_the_index_of_a_large_corpus_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "LARGE_BYTES", 1)
    corpus = CorpusFiles.at(str(write(tmp_path / "corpus.jsonl", ROWS)))
    kept = tmp_path / "kept"
    first = index_of(corpus, str(kept))
    (made,) = [path for path in kept.iterdir() if path.is_dir()]
    assert made.name.startswith(corpus.sha256[:32])

    monkeypatch.setattr(Index, "of", lambda documents: pytest.fail("made again"))
    index_module._index_of.cache_clear()
    read_corpus.cache_clear()
    check_corpus(corpus, str(kept))
    again = index_of(corpus, str(kept))
    assert read_corpus.cache_info().currsize == 0, "neither checked nor read again"
    for query in ("river Aare", "bridge", "banks"):
        assert again.search(query, 3) == first.search(query, 3)
    assert again.document("7") == first.document("7")

    (made / "ids.json").write_text("[]")
    index_module._index_of.cache_clear()
    with pytest.raises(EnvironmentFailure, match="is damaged .* remove this folder"):
        index_of(corpus, str(kept))


def test_an_index_that_is_needed_at_once_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "LARGE_BYTES", 1)
    corpus = CorpusFiles.at(str(write(tmp_path / "corpus.jsonl", ROWS)))
    made = []
    keep = index_module._keep
    monkeypatch.setattr(index_module, "_keep", lambda *given: (made.append(1), keep(*given)))
    # As processes would: past the cache and the lock of this one.
    make = index_module._index_of.__wrapped__
    threads = [threading.Thread(target=make, args=(corpus, str(tmp_path / "kept"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len([path for path in (tmp_path / "kept").iterdir() if path.is_dir()]) == 1


def test_long_texts_take_linear_time() -> None:
    for text in ("a" * 400_000, "a " * 200_000, "\u6771" * 200_000, "." * 400_000):
        words(text)
        one = index(text, "b")
        one.search(text, 3)
