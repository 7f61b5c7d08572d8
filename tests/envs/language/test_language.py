import gzip
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from needs import require

from verigym.envs import Completion, Status, UsageError
from verigym.envs.language.environment import LanguageEnvironment, language_of, shares
from verigym.envs.language.samples import SAMPLES
from verigym.envs.language.scripts import only_script
from verigym.envs.language.text import letters, prose, without_accents

require("py3langid")
CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "language.jsonl").read_text().splitlines()]
FRENCH = SAMPLES["fr"]
INSERTED = (
    "$E = mc^2$", "\\[\\frac{\\text{the long way}}{2}\\]", "`the_name(of, it)`", "\n```python\nprint('hello world')\n```\n",
    "https://example.org/the/english/page", "\\begin{align}\\text{all of it}\\end{align}", "x=3",
)  # fmt: skip


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = LanguageEnvironment(scope=case["scope"])
    score = env.score(env.prompt(case["prompt"], language=case["language"]), case["completion"])
    assert score.status == case["status"], score.reason
    if score.reward is not None:
        assert case["low"] <= score.reward <= case["high"], score.reason
    if case["mixed"] is not None:
        assert score.components["mixed"] == case["mixed"]


@cases("code", SAMPLES)
def test_every_sample_is_in_its_language(code: str) -> None:
    env = LanguageEnvironment()
    prompt = env.prompt("q", language=code)
    assert env.score(prompt, env.gold(prompt) or "").status is Status.CORRECT


def test_unknown_languages_are_refused() -> None:
    with pytest.raises(UsageError, match="no language that can be told"):
        LanguageEnvironment().prompt("q", language="klingon")


def test_cut_off_with_too_little_text() -> None:
    env = LanguageEnvironment()
    assert env.score(env.prompt("q", language="fr"), Completion(text="Oui", finish_reason="length")).status is Status.TRUNCATED


@pytest.mark.parametrize(
    "text",
    [
        "$" * 50_000,
        "\\(" * 50_000,
        "`" * 50_001 + "a",
        "\\begin{a}" * 20_000,
        "a=" * 50_000,
        "<a" * 50_000,
        "$a b$" * 20_000,
        "`" + "a-" * 50_000 + "`",
        "\\text{" + "a " * 9 + "}" + "*_" * 50_000,
        "```\n" + "a b c " * 20_000,
        "_a/" * 40_000,
        "&#" * 50_000 + "&#1" * 20_000 + "&" + "a" * 50_000,
        "\\u" * 50_000 + "\\u{1" * 20_000,
        "<a = " * 20_000 + "<word> " * 20_000,
        "`word` " * 20_000 + "$\\text{word}$ " * 10_000,
        "\x02" * 50_000 + "\x02\x03 " * 20_000,
        "word@" * 20_000 + "a://" * 20_000,
    ],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    assert isinstance(prose(text), str)


def _sentences(shared_data: Path) -> dict[str, list[str]]:
    found = defaultdict(list)
    with gzip.open(shared_data / "lang_id" / "sentences.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if len(row["text"]) >= 60:
                found["no" if row["lang"] == "nb" else row["lang"]].append(row["text"])
    return {code: texts for code, texts in found.items() if code in SAMPLES}


def test_at_least_97_percent_of_sentences(shared_data: Path) -> None:
    env = LanguageEnvironment()
    right = total = languages = 0
    for code, texts in _sentences(shared_data).items():
        prompt = env.prompt("q", language=code)
        languages += 1
        for text in texts:
            total += 1
            right += (env.score(prompt, text).reward or 0) > 0.5
    assert languages >= 30
    assert right / total >= 0.97


def test_half_and_half(shared_data: Path) -> None:
    env = LanguageEnvironment()
    texts = _sentences(shared_data)
    off = []
    for number, one in enumerate(sorted(texts)):
        rng = random.Random(number)
        others = [code for code in sorted(texts) if code != one and {code, one} not in ({"hr", "sr"}, {"id", "ms"})]
        for other in rng.sample(others, 4):
            parts = []
            for code in (one, other):  # as much of each, in letters
                text = " ".join(rng.sample(texts[code], min(8, len(texts[code]))))
                parts.append(text[:350])
            reward = env.score(env.prompt("q", language=one), ".\n".join(parts)).reward
            assert reward is not None
            off.append(abs(reward - 0.5))
    assert sum(off) / len(off) < 0.05
    assert sum(value <= 0.1 for value in off) / len(off) >= 0.93


def test_latex_and_code_change_nothing(shared_data: Path) -> None:
    env = LanguageEnvironment()
    texts = _sentences(shared_data)
    for number, code in enumerate(("de", "en", "es", "fr", "pl", "ru", "hi", "zh", "ja", "vi", "fi", "tr")):
        sentences = [text.rstrip(".") + "." for text in texts[code][:6]] + [FRENCH if code != "fr" else SAMPLES["en"]]
        with_others = [f"{text} {INSERTED[(number + at) % len(INSERTED)]}" for at, text in enumerate(sentences)]
        prompt = env.prompt("q", language=code)
        plain, inserted = (env.score(prompt, " ".join(parts)).reward for parts in (sentences, with_others))
        assert plain is not None and inserted is not None
        assert abs(plain - inserted) <= 0.02, code


def test_many_sentences_are_named_as_each_alone(shared_data: Path) -> None:
    from verigym.envs.language.naming import name_language, name_languages

    for code, texts in sorted(_sentences(shared_data).items()):
        script = only_script(texts[0]) or "Latin"
        given = [*texts[:20], "", "1", "\ud800"]
        assert name_languages(given, script) == [name_language(text, script) for text in given], code
        assert name_languages(given[:1], script) == [name_language(given[0], script)]
        assert name_languages([given[0], given[1], given[0]], script) == [name_language(given[at], script) for at in (0, 1, 0)]
        long = " ".join(texts)[:2000]
        assert name_languages([long], script) == [name_language(long, script)]
    assert name_languages([], "Latin") == []


def test_all_places_at_once_find_what_a_walk_finds() -> None:
    from verigym.envs.language.identify import identifier
    from verigym.envs.language.naming import _features

    def walk(data: bytes) -> list[int]:
        state, found = 0, []
        for byte in data:
            state = model.tk_nextmove[model._rowbase[state] + byte]
            found.append(model.tk_output[state])
        return found

    model = identifier()
    pick = random.Random("bytes")
    texts = [text.encode() for text in SAMPLES.values()]
    texts += [b"", b"a", b"\xed\xa0\x80", "\u0f40\u1e00\U0001f600".encode() * 20]
    texts += [bytes(pick.choices(b"".join(texts), k=length)) for length in range(40)]
    found = _features(texts).tolist()
    for text in texts:
        assert found[: len(text)] == walk(text)
        assert found[len(text)] == -1
        del found[: len(text) + 1]
    assert found == []


def test_languages_leave_the_identifier_as_it_is() -> None:
    from verigym.envs.language.identify import LANGUAGES, identifier
    from verigym.envs.language.naming import name_languages

    name_languages(["\u041f\u0440\u0438\u0432\u0435\u0442", "a"], "Cyrillic")
    assert len(identifier().labels) >= len(LANGUAGES)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("a b, 1!", 2),
        ("\u00e9t\u00e9 \u2019\u00a0x", 4),
        ("\u0915\u093e\u3002\uff01", 2),
        ("\ud83d\ude00\0", 3),
        ("\t\x1f\u2003", 0),
    ],
)
def test_letters(text: str, count: int) -> None:
    assert letters(text) == count


def test_a_foreign_tail_of_a_long_text_is_seen() -> None:
    env = LanguageEnvironment()
    text = f"{SAMPLES['en']} " * 200 + f"{FRENCH} " * 200
    score = env.score(env.prompt("q", language="en"), text)
    share = len(SAMPLES["en"]) / (len(SAMPLES["en"]) + len(FRENCH))
    assert score.reward == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("code", ["fr", "de", "vi", "cs", "pl", "hu", "tr", "ro", "is", "lv", "yo"])
def test_no_sentence_loses_its_language_without_accents(shared_data: Path, code: str) -> None:
    from verigym.envs.language.environment import _UNACCENTED
    from verigym.envs.language.naming import name_languages

    texts = [text for text in _sentences(shared_data).get(code, [SAMPLES.get(code, "")]) if only_script(text) == "Latin"]
    assert not _UNACCENTED & set(name_languages([without_accents(text) for text in texts], "Latin"))


def test_no_mark_of_what_was_removed_stays() -> None:
    text = r"\text{$a$ and `b`} <i t=$c$> \x02\x03\x04 &#2;&#3; $\text{\frac{a}{b}}$ \foo[$x$]{`y`} x=`z`" + "\x03\x02"
    assert not set("\x02\x03\x04") & set(prose(text))


def test_without_accents() -> None:
    assert without_accents("\u00c9t\u00e9 \u1ea5\u0111\u00f8\u0142\u0131e\u0301 \u043c\u044b \u00e6 \ud800") == (
        "Ete adolie \u043c\u044b \u00e6 \ud800"
    )


def test_what_is_removed_may_have_as_many_letters_as_the_prose() -> None:
    """Four words in each of many formulas: as many letters as the prose has are free, or 100; the rest is English."""
    hidden = "\n".join(f"${chunk}$" for chunk in ("the weather remains cold", "nobody wanted another winter") * 20)
    assert shares(FRENCH * 12 + hidden, "fr", 20)["fr"] == 1
    free, total = letters(FRENCH), letters(hidden)
    assert shares(FRENCH + hidden, "fr", 20)["fr"] == pytest.approx(free / (free + total - 100), abs=0.02)


def test_the_language_of_a_text() -> None:
    assert language_of(FRENCH) == "fr"
    assert language_of("2 + 2") is None


@pytest.mark.parametrize(
    ("text", "language", "letters_share", "words_share"),
    [
        # 55 letters in 18 words, and 99 in 9.
        (
            "The old man and his dog went up to the top of the big hill at noon today. "
            "Malheureusement les gouvernements européens contemporains reconnaissent insuffisamment cette responsabilité.",
            "en",
            55 / 154,
            18 / 27,
        ),
        # Sixteen Han characters are eight words by the convention, beside eight Latin ones.
        ("我们今天一起去公园散步然后回家吃 and then all of us went home again", "zh", 16 / 43, 8 / 16),
        ("Un texte tout entier en français, du premier mot jusqu'au dernier, sans rien d'autre.", "fr", 1.0, 1.0),
    ],
)
def test_a_share_of_letters_and_of_words(text: str, language: str, letters_share: float, words_share: float) -> None:
    for unit, expected in (("letters", letters_share), ("words", words_share)):
        env = LanguageEnvironment(unit=unit)
        score = env.score(env.prompt("q", language=language), text)
        assert score.reward == pytest.approx(expected, abs=1e-9), (unit, score.reason)


@pytest.mark.parametrize("sign", ["-", ",", "\u2014", ""])
def test_words_cannot_be_glued_into_one(sign: str) -> None:
    """Without any sign between them, 94 letters beside 20 French words count as five words, not as one."""
    english = (
        "the sky is blue because the molecules of air scatter short wavelengths more than long ones so we see the blue light"
    )
    french = (
        "Le ciel est bleu parce que les molécules de l'air diffusent davantage la lumière bleue que celle des autres couleurs. "
    )
    found = shares(french + sign.join(english.split()) + ".", "fr", 20, unit="words")
    spaced = shares(french + english + ".", "fr", 20, unit="words")
    assert found["fr"] == pytest.approx(spaced["fr"] if sign else 20 / 25, abs=1e-9)
