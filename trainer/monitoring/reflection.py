"""Counts of reflection phrases (self-checks, backtracking, new attempts) in completions, by a lexicon in several languages.

A phrase is no proof of reflection: a model can write "wait" and change nothing. Watch the trend of one model on the same
tasks, beside accuracy and length, as DeepSeek-R1 does (arXiv 2501.12948, figure 9). The lexicon and the matching are fixed, so
that figures are comparable. Texts are compared in NFKC and without case; phrases match whole words, or anywhere in languages
without spaces between words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

LEXICON: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "self_check": {
        "en": (
            "let me check",
            "let me double-check",
            "let me double check",
            "let me verify",
            "let's check",
            "let's verify",
            "double-check",
            "double check",
            "to verify",
            "checking:",
            "check:",
            "sanity check",
            "does this make sense",
            "does that make sense",
            "is this right",
            "is that right",
        ),
        "de": ("zur kontrolle", "zur probe", "probe:", "überprüfen wir", "prüfen wir", "stimmt das", "kontrollieren wir"),
        "fr": ("vérifions", "vérifier que", "pour vérifier", "vérification", "est-ce correct"),
        "es": ("verifiquemos", "comprobemos", "para verificar", "verificación", "es correcto esto"),
        "pt": ("vamos verificar", "verifiquemos", "para verificar", "verificação"),
        "it": ("verifichiamo", "controlliamo", "per verificare", "verifica:"),
        "ru": ("проверим", "давайте проверим", "проверка", "убедимся"),
        "zh": ("检查一下", "检查", "验证", "核对", "验算", "檢查", "驗證", "驗算"),
        "ja": ("確認する", "確認しよう", "確認します", "検算", "検証"),
        "ko": ("확인해 보", "확인해보", "검산", "검증"),
    },
    "backtrack": {
        "en": (
            "wait",
            "hold on",
            "hmm",
            "actually",
            "on second thought",
            "that's not right",
            "that is not right",
            "that's wrong",
            "that is wrong",
            "that can't be right",
            "i made a mistake",
            "i made an error",
            "scratch that",
            "let me reconsider",
            "let me rethink",
            "oops",
        ),
        "de": ("moment", "warte", "halt", "das stimmt nicht", "das ist falsch", "ich habe einen fehler gemacht", "eigentlich"),
        "fr": ("attends", "attendez", "en fait", "c'est faux", "ce n'est pas correct", "j'ai fait une erreur"),
        "es": ("espera", "un momento", "en realidad", "eso está mal", "no es correcto", "cometí un error"),
        "pt": ("espere", "espera", "na verdade", "isso está errado", "cometi um erro"),
        "it": ("aspetta", "un momento", "in realtà", "è sbagliato", "ho fatto un errore"),
        "ru": ("подождите", "подожди", "стоп", "на самом деле", "это неверно", "я ошибся", "я ошиблась"),
        "zh": ("等等", "等一下", "不对", "不對", "其实", "其實", "我错了", "我錯了", "重新考虑", "重新考慮"),
        "ja": ("待って", "ちょっと待", "いや、", "間違え", "間違い", "実は"),
        "ko": ("잠깐", "잠시만", "아니야", "틀렸", "실수"),
    },
    "retry": {
        "en": (
            "alternatively",
            "another approach",
            "another way",
            "a different approach",
            "let me try",
            "let's try",
            "try again",
            "start over",
            "instead, let",
        ),
        "de": ("alternativ", "ein anderer ansatz", "anders gerechnet", "versuchen wir", "noch einmal"),
        "fr": ("autre approche", "autre méthode", "essayons", "recommençons"),
        "es": ("otro enfoque", "otra manera", "otra forma", "intentemos", "probemos"),
        "pt": ("outra abordagem", "outra maneira", "vamos tentar"),
        "it": ("un altro approccio", "un altro modo", "proviamo"),
        "ru": ("другой способ", "другой подход", "попробуем", "ещё раз", "еще раз"),
        "zh": ("另一种方法", "另一種方法", "换一种", "換一種", "换个思路", "換個思路", "重新计算", "重新計算", "再试", "再試"),
        "ja": ("別の方法", "もう一度", "やり直"),
        "ko": ("다른 방법", "다시 해", "다시 계산"),
    },
}
"""Phrases by kind and language; every text is searched for the phrases of all languages."""

NO_SPACES = ("zh", "ja", "ko")


KINDS = tuple(LEXICON)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")


def _phrases(kind: str) -> dict[str, str]:
    """Return a regex for each phrase of `kind`, the longest first, so that a phrase within another counts once."""
    patterns = {}
    for language, phrases in LEXICON[kind].items():
        for phrase in map(_plain, phrases):
            start = "" if language in NO_SPACES else r"(?<!\w)"
            end = "" if language in NO_SPACES or not phrase[-1].isalnum() else r"(?!\w)"
            patterns[phrase] = start + re.escape(phrase) + end
    return dict(sorted(patterns.items(), key=lambda pair: (-len(pair[0]), pair[0])))


PATTERNS: Mapping[str, Mapping[str, str]] = {kind: _phrases(kind) for kind in KINDS}


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


def _count(kind: str, plain: str) -> int:
    # Searching for each phrase as plain text is a hundred times faster than one regex of all; few texts hold many.
    present = tuple(pattern for phrase, pattern in PATTERNS[kind].items() if phrase in plain)
    return len(_compiled(present).findall(plain)) if present else 0


@dataclass(frozen=True)
class Reflection:
    """The number of reflective phrases of each kind in a text."""

    self_check: int
    backtrack: int
    retry: int

    @property
    def total(self) -> int:
        """Return the number of phrases of all kinds."""
        return self.self_check + self.backtrack + self.retry


def reflection(text: str) -> Reflection:
    """Return the number of phrases of each kind in `text`, in any language; phrases of one kind do not overlap."""
    plain = _plain(text)
    return Reflection(**{kind: _count(kind, plain) for kind in KINDS})


def reflection_metrics(texts: Sequence[str]) -> dict[str, float]:
    """Return the share of `texts` with each kind of phrase, and the mean number of phrases per text; empty without texts."""
    if not texts:
        return {}
    counts = [reflection(text) for text in texts]
    shares = {f"reflection/{kind}": sum(getattr(one, kind) > 0 for one in counts) / len(counts) for kind in KINDS}
    return {**shares, "reflection/phrases": sum(one.total for one in counts) / len(counts)}


def length_growth(lengths: Sequence[float], first: Sequence[float]) -> float:
    """Return the mean of `lengths` divided by the mean of `first`; 1 means no change.

    Args:
        lengths: lengths of the present completions, in any unit.
        first: lengths of the completions to compare with, in the same unit.

    Raises:
        ValueError: one of the arguments is empty, or all of `first` are 0.
    """
    if not lengths or not sum(first):
        raise ValueError("length_growth needs lengths now, and lengths above 0 to compare with")
    return (sum(lengths) / len(lengths)) / (sum(first) / len(first))
