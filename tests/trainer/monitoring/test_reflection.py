"""The lexicon of reflection: whole words, any case, several languages, no phrase twice."""

from __future__ import annotations

import pytest

from verigym.trainer.monitoring.reflection import LEXICON, Reflection, length_growth, reflection, reflection_metrics


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The sum is 12.", (0, 0, 0)),
        ("Wait, that's not right. Let me check.", (1, 2, 0)),
        ("WAIT! Let me double-check this.", (1, 1, 0)),
        ("The waiter awaits; a sanity  check", (0, 0, 0)),
        ("Let\u2019s verify: 3*4=12. Alternatively, let's try 4*3.", (1, 0, 2)),
        ("Moment, das stimmt nicht. Überprüfen wir es. Versuchen wir etwas anderes.", (1, 2, 1)),
        ("等等,不对。让我检查一下。换个思路。", (1, 2, 1)),
        ("Подождите, я ошибся. Проверим ещё раз.", (1, 2, 1)),
        ("Attends, vérifions.", (1, 1, 0)),
        ("Espera, comprobemos.", (1, 1, 0)),
        ("待って、検算する。もう一度。", (1, 1, 1)),
    ],
)
def test_counts(text: str, found: tuple[int, int, int]) -> None:
    assert reflection(text) == Reflection(*found)


def test_every_phrase_is_found_as_its_own_kind() -> None:
    for kind, languages in LEXICON.items():
        for language, phrases in languages.items():
            for phrase in phrases:
                assert getattr(reflection(f"12 {phrase} 34"), kind) == 1, (kind, language, phrase)


def test_metrics_are_shares_of_texts() -> None:
    metrics = reflection_metrics(["wait wait", "let me check", "12", "13"])
    assert metrics == {
        "reflection/self_check": 0.25,
        "reflection/backtrack": 0.25,
        "reflection/retry": 0.0,
        "reflection/phrases": 0.75,
    }
    assert reflection_metrics([]) == {}


def test_growth_of_length() -> None:
    assert length_growth([30, 10], [10]) == 2
    assert length_growth([5], [5, 5]) == 1
    with pytest.raises(ValueError, match="above 0"):
        length_growth([1], [0])
