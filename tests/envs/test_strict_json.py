"""Strict JSON: the same texts are read and refused by every interpreter."""

from __future__ import annotations

import json

import pytest
from cpu_time import within

from verigym.envs import strict_json
from verigym.envs.strict_json import DEPTH, NotStrict


def test_depth_is_counted_to_the_level_and_not_inside_strings() -> None:
    deep = "[" * DEPTH + "]" * DEPTH
    assert json.dumps(strict_json.loads(deep)) == deep
    mixed = '{"a": ' * DEPTH + "1" + "}" * DEPTH
    assert strict_json.loads(mixed)
    for text in (f"[{deep}]", f'{{"b": {mixed}}}', "[" * 10**6, '["]",' * (DEPTH + 1)):
        with pytest.raises(NotStrict, match=f"nested deeper than {DEPTH} levels"):
            strict_json.loads(text)
    wide = json.dumps([[1], {"a": '[[[{{{\\"[' * 200}] * 200)
    assert strict_json.loads(wide) == json.loads(wide)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "key 'a' occurs twice"),
        ("[NaN]", "NaN is not JSON"),
        ("-Infinity", "-Infinity is not JSON"),
        ("[1e999]", "the number 1e999 is too large"),
    ],
)
def test_what_python_would_read_and_is_no_json(text: str, message: str) -> None:
    with pytest.raises(NotStrict, match=message):
        strict_json.loads(text)


def test_hostile_texts_take_linear_time() -> None:
    for _ in within(5):
        for text in ('"' + "\\" * 10**6, '"[' * 10**6, "[]" * 10**6, '"\\"[' * 10**6):
            with pytest.raises(ValueError):
                strict_json.loads(text)
