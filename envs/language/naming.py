"""Language identification among the languages of one script.

This is more accurate and several times as fast as identification among all languages.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from verigym.envs.language.identify import MACRO, identifier
from verigym.envs.language.scripts import SCRIPTS_OF

_BREAK = b"\xff"  # no byte of UTF-8: it ends every n-gram
_SHORT = 500  # characters from which on it pays to set up arrays for one text


def name_language(text: str, script: str) -> str:
    """Return, as ISO 639-1 code, the most likely language of `text` among those written in `script`.

    Raises:
        EnvironmentFailure: `unavailable`, because py3langid is not installed.
    """
    label, _ = _narrowed(script).classify(text)
    return str(MACRO.get(label, label))


def name_languages(texts: Sequence[str], script: str) -> list[str]:
    """Return `name_language` of each of `texts`, computed together.

    Calling the identifier for each text would loop over its bytes and set up arrays again each time.

    Raises:
        EnvironmentFailure: `unavailable`, because py3langid is not installed.
    """
    if len(texts) < 2 and sum(map(len, texts)) < _SHORT:
        return [name_language(text, script) for text in texts]
    narrowed = _narrowed(script)
    import numpy

    encoded = [narrowed._encode(text) for text in texts]
    sizes = numpy.array([len(data) for data in encoded])
    feature_ids = _features(encoded)
    hits = numpy.flatnonzero(feature_ids >= 0)
    owner = numpy.repeat(numpy.arange(len(texts)), sizes + 1)
    keys, counts = numpy.unique(owner[hits] * len(narrowed.nb_ptc) + feature_ids[hits], return_counts=True)
    owners, features = numpy.divmod(keys, len(narrowed.nb_ptc))
    weights = numpy.log1p(counts.astype(numpy.float32))
    ends = numpy.searchsorted(owners, numpy.arange(len(texts)), side="right").tolist()
    scores = numpy.stack(
        [
            weights[start:end] @ narrowed.nb_ptc.take(features[start:end], axis=0) + narrowed.nb_pc
            for start, end in zip([0, *ends], ends, strict=False)
        ]
    )
    scale = (1 / numpy.sqrt(numpy.maximum(sizes, 1))).astype(numpy.float32)
    for one, other in narrowed._alias_pairs:  # columns of one label: their probabilities add up
        scores[:, one] = numpy.logaddexp(scores[:, one] * scale, scores[:, other] * scale) / scale
        scores[:, other] = -numpy.inf
    names: list[str] = []
    for text, start, end, column in zip(texts, [0, *ends], ends, scores.argmax(axis=1).tolist(), strict=False):
        code = narrowed.nb_classes[column]
        names.append(MACRO.get(code, code) if start < end else name_language(text, script))
    return names


class _Automaton(NamedTuple):
    """The identifier's automaton: after a byte it is in the state of the longest known n-gram that ends there."""

    following: Any
    """[rows * 256] The next state, by row and byte."""
    rows: Any
    """[states] Where the row of a state begins."""
    outputs: Any
    """[states] Which feature a state stands for, -1 for none."""
    pairs: Any
    """[256 * 256] The state after two bytes."""
    longest: int
    """Bytes of the longest n-gram: older ones have no say in the state."""


def _features(encoded: Sequence[bytes]) -> Any:
    """Return which feature ends at each byte of the texts, -1 for none; behind each text stands one more byte.

    The state after a byte is told by the last `longest` bytes alone, so all places take their few steps at the same time.
    """
    import numpy

    automaton = _automaton()
    before = automaton.longest - 1
    joined = _BREAK * before + _BREAK.join([*encoded, b""])
    data = numpy.frombuffer(joined, dtype=numpy.uint8).astype(numpy.intp)
    size = len(data) - before
    states = automaton.pairs.take((data[:size] << 8) + data[1 : size + 1])
    for step in range(2, automaton.longest):
        states = automaton.following.take(automaton.rows.take(states) + data[step : step + size])
    return automaton.outputs.take(states)


@functools.cache
def _automaton() -> _Automaton:
    model = identifier()
    import numpy

    following = numpy.asarray(model.tk_nextmove)
    rows = numpy.asarray(model._rowbase, dtype=numpy.intp)
    outputs = numpy.asarray(model.tk_output, dtype=numpy.intp)
    table = following.reshape(-1, 256)
    pairs = table[rows[table[rows[0] >> 8]] >> 8].reshape(-1)
    seen, reached, longest = numpy.zeros(len(rows), dtype=bool), numpy.zeros(1, dtype=numpy.intp), 0
    seen[0] = True
    while True:  # breadth first: a state is as deep as its n-gram is long
        after = numpy.zeros(len(rows), dtype=bool)
        after[table[numpy.unique(rows[reached] >> 8)]] = True
        reached = numpy.flatnonzero(after & ~seen)
        if not len(reached):
            return _Automaton(following, rows, outputs, pairs, max(longest, 2))
        seen[reached] = True
        longest += 1


@functools.cache
def _narrowed(script: str) -> Any:
    narrowed = copy.copy(identifier())
    import numpy

    wanted = {code for code, scripts in SCRIPTS_OF.items() if script in scripts}
    narrowed.set_languages([label for label in narrowed.labels if MACRO.get(label, label) in wanted])
    # Half precision in columns would be converted and gathered again for each sentence, which is most of the time.
    narrowed.nb_ptc = numpy.ascontiguousarray(narrowed.nb_ptc, dtype=numpy.float32)
    return narrowed
