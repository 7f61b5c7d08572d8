"""Language identification, with one identifier that all environments share.

The identifier is py3langid (naive Bayes over byte n-grams; Lui and Baldwin 2012): pure Python over numpy, 4 MB, deterministic,
in linear time. docs/constraints.md says how it was chosen.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.extras import install

PACKAGE = "py3langid"

# The identifier tells some varieties apart that ISO 639-1 does not, and writes Norwegian bokmål with the code of both.
MACRO = {"ary": "ar", "arz": "ar", "hbo": "he", "wuu": "zh", "yue": "zh", "sdh": "ku", "nb": "no"}

LANGUAGES = frozenset(
    "af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl nn no oc om "
    "or pa pl ps pt qu ro ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo wa xh "
    "yo zh zu".split()
)
"""ISO 639-1 codes that `identify` can return."""

UNKNOWN = ("", 0.0)


def installed() -> bool:
    """Return whether the identifier's package is there."""
    return importlib.util.find_spec(PACKAGE) is not None


def identify(text: str) -> tuple[str, float]:
    """Return the most likely language of `text` and its probability.

    Returns:
        An ISO 639-1 code and a probability from 0 to 1, or `("", 0.0)` for a text without letters or in none of the languages.
        One or two words get a code too, with a probability below about 0.2: the caller decides on a threshold.

    Raises:
        EnvironmentFailure: `unavailable`, because py3langid is not installed.
    """
    if not any(character.isalpha() for character in text):
        return UNKNOWN
    label, probability = identifier().classify(text)
    code = MACRO.get(label, label)
    return (code, float(probability)) if code in LANGUAGES else UNKNOWN


@functools.cache
def identifier() -> Any:
    """Return py3langid's identifier, loaded once per process. To restrict its languages, callers must work on a copy.

    Raises:
        EnvironmentFailure: `unavailable`, because py3langid is not installed.
    """
    try:
        from py3langid import langid
    except ImportError:
        raise EnvironmentFailure(
            "unavailable", f"language identification needs the package {PACKAGE}; {install(PACKAGE)}"
        ) from None
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
