"""The function that tells languages, on real sentences."""

import gzip
import importlib
import json
import sys
from pathlib import Path

import pytest
from needs import needs, require

from verigym.envs import EnvironmentFailure
from verigym.envs.language.identify import LANGUAGES, UNKNOWN, identify

THIRTY = "ar bg bn cs da de el en es fa fi fr gu he hi hu it ja ko mr nl pa pl pt ro ru sv ta te th tr uk ur vi zh".split()


@pytest.fixture(autouse=True)
def package():
    require("py3langid")


@needs("shared data")
def test_long_sentences_in_35_languages():
    path = Path(__file__).parents[4] / "shared/data/lang_id/sentences.jsonl.gz"
    rows = [json.loads(line) for line in gzip.open(path, "rt", encoding="utf-8")]
    rows = [row for row in rows if row["lang"] in THIRTY and len(row["text"]) >= 60]
    right = [identify(row["text"])[0] == row["lang"] for row in rows]
    assert len(rows) > 2000
    assert sum(right) / len(right) > 0.99


@pytest.mark.parametrize("text", ["", "   ", "1234 + 5 = ...", "$$%&", "\U0001f600", "\u200b"])
def test_without_letters_there_is_no_language(text):
    assert identify(text) == UNKNOWN


def test_a_sentence_is_surer_than_a_word():
    code, sure = identify("The river flows through the old town and on into the sea.")
    _, unsure = identify("Hello")
    assert code == "en" and 0.5 < sure <= 1.0 and unsure < 0.2


def test_every_code_can_be_returned():
    from py3langid import langid

    from verigym.envs.language.identify import MACRO

    labels = set(langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True).labels)
    assert {MACRO.get(label, label) for label in labels if len(MACRO.get(label, label)) == 2} == LANGUAGES


def test_any_text_gets_an_answer():
    for text in ("\ud800 a", "a\x00b", "a" * 100_000, "\u0300a"):
        code, sure = identify(text)
        assert code in LANGUAGES | {""} and 0.0 <= sure <= 1.0


def test_a_missing_package_is_our_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    fresh = importlib.util.module_from_spec(importlib.util.find_spec("verigym.envs.language.identify"))
    fresh.__spec__.loader.exec_module(fresh)
    with pytest.raises(EnvironmentFailure, match=r"verigym\[language\]"):
        fresh.identify("Where am I?")
