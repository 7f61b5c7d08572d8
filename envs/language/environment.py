"""The `language` environment: the share of a completion that is written in the language asked for.

It is DeepSeek-R1's reward for language consistency (2501.12948v2, section 3.2.1): the share of the chain of thought in the
target language. The paper counts words (`unit: words`); the default here is letters. Code, mathematics and addresses are
removed, and the rest is cut into sentences. The script of a sentence gives its language; if several languages share the script,
a language identifier decides. Only the language is judged: fluent nonsense gets full marks.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.errors import EnvironmentFailure, did_you_mean
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.language.identify import installed
from verigym.envs.language.naming import name_language, name_languages
from verigym.envs.language.samples import SAMPLES
from verigym.envs.language.scripts import LATIN, SCRIPTS_OF, WRITTEN, only_script, runs, words
from verigym.envs.language.text import prose, sentences, without_accents

# No identifier tells these apart in single sentences: what one is written in may be called the other.
ALIKE = (frozenset({"bs", "hr", "sr"}), frozenset({"id", "ms"}), frozenset({"nb", "nn", "no"}))
_SPELT = {"nb": "no"}
_DENSE = frozenset({"Han", "Kana", "Hangul"})
_KANA_SHARE = 0.05
_LEAST_LETTERS = 8
_TO_NAME = "?"
_ACCENTS = 0.05
_UNACCENTED = frozenset(code for code, text in SAMPLES.items() if text.isascii())


class LanguageReference(Reference):
    """Which language is asked for."""

    language: str | None = None
    """ISO 639-1 code, such as 'fr'; None: the language that the prompt is written in."""

    @field_validator("language")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and _SPELT.get(value, value) not in SCRIPTS_OF:
            raise ValueError(f"no language that can be told is called {value!r}{did_you_mean(value, SCRIPTS_OF)}")
        return value


class LanguageOptions(Options):
    """Which part is judged, and how much text is needed."""

    scope: Literal["thinking", "answer", "all"] = "thinking"
    """Which text is judged: the text before the last `</think>` (all text if there is none), the text after it, or all."""
    least: int = Field(20, ge=1)
    """Minimum number of letters in the judged text. A text with fewer counts as no answer. A Chinese, Japanese or Korean
    letter counts twice."""
    unit: Literal["letters", "words"] = "letters"
    """Whether letters or words are counted. The paper counts words; in scripts without spaces the number of words is only an
    estimate."""
    mixed: float = Field(0.1, gt=0, lt=0.5, allow_inf_nan=False)
    """The score's component `mixed` is 1 if at least this share of the text is not in its most frequent language, else 0."""


class LanguageEnvironment(BaseEnvironment[LanguageReference, LanguageOptions]):
    """Rewards the language asked for."""

    name = "language"
    version = "4"
    reference_type = LanguageReference
    options_type = LanguageOptions
    expected_verdicts = ExpectedVerdicts(echo="free", garbage="free", hacks="free")

    def examples(self) -> Sequence[Prompt]:
        """Return sample tasks that name a language, and one that is to be answered in the prompt's language."""
        return (
            self.prompt("Explain in French why the sky is blue.", language="fr"),
            self.prompt("Explain in Chinese why the sky is blue.", language="zh"),
            self.prompt("Please explain to a child in a few sentences why the sky is blue."),
        )

    def check(self) -> None:
        """Raise EnvironmentFailure if the language identifier is not installed."""
        if not installed():
            name_language("a", LATIN)

    def prepare(self) -> None:
        """Load the identifier for the script that needs it most."""
        name_language("a", LATIN)

    def gold(self, prompt: Prompt) -> str | None:
        """Return a sentence in the target language, or None if the built-in sentences do not include this language."""
        return SAMPLES.get(self._target(prompt, self.reference(prompt)))

    def audit(self, prompt: Prompt) -> str | None:
        """Return a message if the reference names no language and the prompt's own cannot be identified; otherwise None."""
        try:
            self._target(prompt, self.reference(prompt))
        except EnvironmentFailure as failure:
            return failure.message
        return None

    def judge(self, prompt: Prompt, reference: LanguageReference, completion: Completion) -> Score:
        """Return a score whose reward is the fraction of letters, or of words, in the target language."""
        target = self._target(prompt, reference)
        by_language = shares(self._part(completion.text), target, self.options.least, unit=self.options.unit)
        if not by_language:
            if completion.cut_off:
                return Score.truncated(reason="cut off by the token limit with too little text to tell its language")
            return Score.no_answer(reason="too little text to tell its language")
        share = by_language.get(target, 0.0)
        named = ", ".join(f"{code or 'unknown'} {part:.0%}" for code, part in by_language.most_common(3))
        status = Status.CORRECT if share == 1 else Status.PARTIAL if share > 0 else Status.INCORRECT
        mixed = float(1 - max(by_language.values()) >= self.options.mixed)
        return Score(
            reward=share, status=status, components={"share": share, "mixed": mixed}, reason=f"{target} asked: {named}"
        )

    def _part(self, text: str) -> str:
        if self.options.scope == "all":
            return text
        answer = strip_thinking(text)
        if self.options.scope == "answer":
            return answer or ""
        return text if answer is None or len(answer) == len(text) else text[: len(text) - len(answer)]

    def _target(self, prompt: Prompt, reference: LanguageReference) -> str:
        if reference.language is not None:
            return _SPELT.get(reference.language, reference.language)
        request = next((m.content for m in reversed(prompt.messages) if m.role == "user"), prompt.text)
        target = language_of(request)
        if target is None:
            raise EnvironmentFailure(
                "gold_invalid",
                "the language of the prompt cannot be told; name it: env.prompt(..., language='fr'), or `--reference "
                "language=COLUMN` of verigym grade",
            )
        return target


@functools.lru_cache(maxsize=4096)
def language_of(text: str, least: int = 20) -> str | None:
    """Return the language in which most of `text` is written, or None if it cannot be identified."""
    by_language = shares(text, None, least)
    code = by_language.most_common(1)[0][0] if by_language else ""
    return code if code in SCRIPTS_OF else None


def shares(text: str, target: str | None, least: int, *, unit: Literal["letters", "words"] = "letters") -> Counter[str]:
    """Return the fraction of the letters or words of `text` in each language; empty if `text` has fewer letters than `least`.

    The language is identified for each sentence, because no identifier works on single words. A sentence that mixes scripts is
    split by script first.

    Args:
        text: the text. Code and mathematics in it are not counted.
        target: the target language, or None. Languages that cannot be told apart from the target count as the target.
        least: minimum number of letters; a Chinese, Japanese or Korean letter counts twice.
        unit: whether the fractions are of letters or of words.
    """
    counted: defaultdict[str, float] = defaultdict(float)
    unnamed: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    enough = 0
    for (sentence, count), times in Counter(sentences(prose(text))).items():  # models repeat themselves
        alone = only_script(sentence)
        scripts = {alone: [sentence]} if alone else runs(sentence)
        for name, pieces in _kept(scripts).items():
            letters = count if alone else sum(map(len, pieces))
            enough += times * letters * (2 if name in _DENSE else 1)
            size = times * (letters if unit == "letters" else words(name, pieces, letters))
            code = _language(name, pieces, scripts, target)
            if code == _TO_NAME:
                unnamed[name].append((" ".join(pieces), size))
            elif code is not None:
                counted[code] += size
    for script, sized in unnamed.items():
        names = name_languages([text for text, _ in sized], script)
        if target is not None and script == LATIN:
            _doubt_accents(names, [text for text, _ in sized], target)
        for code, (_, size) in zip(names, sized, strict=True):
            counted[_near(code, target)] += size
    total = sum(counted.values())
    if enough < least or not total:
        return Counter()
    return Counter({code: size / total for code, size in counted.items()})


def _doubt_accents(names: list[str], texts: Sequence[str], target: str) -> None:
    """Rename the texts that owe the target's name to their accents: without them they are in a language that needs none."""
    doubted = [at for at, text in enumerate(texts) if _near(names[at], target) == target and _accented(text)]
    plain = name_languages([without_accents(texts[at]) for at in doubted], LATIN)
    for at, name in zip(doubted, plain, strict=True):
        if name in _UNACCENTED:
            names[at] = name


def _accented(text: str) -> bool:
    """Return whether so many letters have accents that these may decide the language."""
    return len(text.encode("utf-8", "surrogatepass")) - len(text) > _ACCENTS * len(text)


def _kept(scripts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out single letters, Latin or Greek, in a sentence of another script: they stand for variables."""
    if len(scripts) < 2:
        return scripts
    main = max(scripts, key=lambda name: sum(map(len, scripts[name])))
    kept = {
        name: [word for word in words if len(word) > 1] if name != main and name in (LATIN, "Greek") else words
        for name, words in scripts.items()
    }
    return {name: words for name, words in kept.items() if words}


def _language(script: str, words: list[str], scripts: dict[str, list[str]], target: str | None) -> str | None:
    """Return the language of a sentence's words in one script.

    '' stands for none we know, None for too few words to tell, `_TO_NAME` for one that the identifier must name.
    """
    if script in ("Han", "Kana"):
        return _east_asian(scripts)
    alone = WRITTEN.get(script, frozenset())
    if len(alone) == 1:
        return next(iter(alone))
    if target is not None and script not in SCRIPTS_OF[target]:
        return "" if len(scripts) > 1 and sum(map(len, words)) < _LEAST_LETTERS else _TO_NAME
    return None if sum(map(len, words)) < _LEAST_LETTERS else _TO_NAME


def _near(code: str, target: str | None) -> str:
    """Return the target for a language that is not told apart from it."""
    if target is not None and any(code in group and target in group for group in ALIKE):
        return target
    return code


def _east_asian(scripts: dict[str, list[str]]) -> str:
    """Tell Han characters by their company: kana is Japanese, Hangul Korean."""
    han, kana, hangul = (sum(map(len, scripts.get(name, ()))) for name in ("Han", "Kana", "Hangul"))
    if kana > _KANA_SHARE * (han + kana):
        return "ja"
    return "ko" if hangul > han else "zh"
