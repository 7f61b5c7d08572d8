"""The codec: exact values cross, nothing else does, and no encoding can hurt the one who reads it."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import itertools
import math
import time
import uuid

import numpy
import pytest
from cases import cases
from cpu_time import within
from hypothesis import given
from hypothesis import strategies as st

from verigym.sandbox.inside.wire import frames
from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import CannotCross, CodecError, encode

PLAIN = [
    None,
    True,
    0,
    -7,
    2**53,
    2**53 + 1,
    -(2**200),
    1.5,
    -0.0,
    1e300,
    "",
    "é\ud800\0",
    b"\0\xff",
    bytearray(b"ab"),
    1 + 2j,
    ...,
]
PLAIN += [(), (1, (2,)), [], [[1], "a"], set(), {1, "a"}, frozenset({(1, 2)}), {}, {(1, 2): [3], None: {1: 2}}, range(3, 9, 2)]
PLAIN += [
    collections.deque([1, [2]]),
    fractions.Fraction(-1, 3),
    decimal.Decimal("1.50"),
    decimal.Decimal("NaN"),
    int,
    len,
    sorted,
]
PLAIN += [
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC),
    datetime.date(2024, 1, 2),
    datetime.time(1, 2),
    complex("inf"),
]
PLAIN += [uuid.UUID(int=5), time.gmtime(0)]
PLAIN += [datetime.timedelta(-1, 2, 3), {1: 2}.keys(), {1: 2}.items()]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary()
    | st.complex_numbers()
    | st.fractions()
    | st.datetimes().map(lambda moment: moment.replace(fold=0))
    | st.timedeltas(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.integers() | st.text(), inner),
)


def cross(value):
    return decode(frames.parse(frames.pack({"v": encode(value)})[4:])["v"])


def exact(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(exact, a, b))
    if isinstance(a, dict):
        return exact(list(a.items()), list(b.items()))
    return repr(a) == repr(b)


@cases("value", PLAIN)
def test_plain_values_cross_exactly(value):
    made = cross(value)
    assert type(made) is type(value)
    assert made == value or repr(made) == repr(value)
    assert cross([value])[0] == value or value != value or repr(value) == repr(made)


@given(VALUES)
@pytest.mark.slow
def test_any_plain_value_crosses_exactly(value):
    assert exact(cross(value), value)


class Number(int):
    def __int__(self):
        return 99

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Text(str):
    def __str__(self):
        return "lie"


class Items(list):
    def __iter__(self):
        return iter("lie")

    def __len__(self):
        return 0


class Table(dict):
    def items(self):
        return [("lie", 1)]


class Level(enum.IntEnum):
    LOW = 3


class Name(enum.StrEnum):
    A = "a"


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Number(5), 5),
        (Text("a"), "a"),
        (Items([1]), [1]),
        (Table(a=1), {"a": 1}),
        (Level.LOW, 3),
        (Name.A, "a"),
        (Point(1, 2), (1, 2)),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.defaultdict(list, {1: [2]}), {1: [2]}),
        (numpy.int64(3), 3),
        (numpy.float32(1.5), 1.5),
        (numpy.bool_(True), True),
    ],
    ids=repr,
)
def test_subclasses_cross_as_the_value_their_base_has(value, plain):
    made = cross(value)
    assert exact(made, plain)


@pytest.mark.parametrize(
    "array", [numpy.zeros((0, 3)), numpy.arange(6).reshape(2, 3), numpy.array(["a", "bc"]), numpy.array(3.5)]
)
def test_arrays_cross(array):
    made = cross(array)
    assert (made.dtype, made.shape, made.tolist()) == (array.dtype, array.shape, array.tolist())


def test_iterators_are_read_to_their_end():
    for value in ((n for n in [1, 2]), iter([1, 2]), map(int, "12"), itertools.chain([1], [2]), reversed([2, 1])):
        made = cross(value)
        assert next(made) == 1
        assert list(made) == [2]
    assert list(cross({1: 2}.values())) == [2]


class Liar:
    @property
    def __class__(self):
        return int

    def __index__(self):
        return 6


def cyclic():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Liar(), "Liar"),
        (object(), "object"),
        (lambda: 1, "function"),
        (math, "module"),
        (Liar, "type"),
        ([{1: (Liar(),)}], "Liar"),
        (enum.Enum("E", "A").A, "E"),
        (cyclic(), "too deep"),
        (itertools.count(), "more than 2000000 values"),
        ("x" * (31 << 20), "bytes"),
        (["x" * (1 << 20)] * 40, "bytes"),
        ([[0] * 1_000_000] * 3, "values"),
        (b"x" * (25 << 20), "bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)
def test_what_cannot_cross_says_so(value, what):
    with pytest.raises(CannotCross, match=what):
        encode(value)


def nested(depth, tag=None):
    data = 1
    for _ in range(depth):
        data = [data] if tag is None else {tag: [data]}
    return data


@cases(
    "data",
    [
        2**53 + 1,
        {},
        {"t": [1], "s": [1]},
        {"x": 1},
        {"t": 1},
        {"t": {"t": []}},
        {"i": 5},
        {"i": "5"},
        {"i": "0x_5"},
        {"i": " 0x5"},
        {"i": "0x" + "g"},
        {"f": "infinity"},
        {"f": "1.5"},
        {"b": "€"},
        {"b": "a"},
        {"b": "YQ==\n"},
        {"c": [1, 2]},
        {"c": [1.0]},
        {"s": [[1]]},
        {"d": [[[1], 2]]},
        {"d": [[1]]},
        {"d": [[1, 2, 3]]},
        {"d": [[1, 2], [1, 3]]},
        {"d": {"a": 1}},
        {"frac": [1, 0]},
        {"frac": [1, {"i": hex(1 << 200_000)}]},
        {"uuid": -1},
        {"uuid": "x"},
        {"uuid": {"i": hex(1 << 200)}},
        {"when": [1, 2]},
        {"when": ["1"] * 9},
        {"dec": "x"},
        {"dec": "1e999999999"},
        {"dec": 1},
        {"dt": "2024"},
        {"date": "2024-13-01"},
        {"td": [10**10, 0, 0]},
        {"r": [1, 2, 0]},
        {"r": [1, 2]},
        {"r": [1.0, 2, 3]},
        {"el": 2},
        {"bi": "eval"},
        {"bi": "__import__"},
        {"bi": ["len"]},
        {"view": ["keys", [[1]]]},
        {"view": ["pop", []]},
        {"np": ["<i8", [3], [1]]},
        {"np": ["<i8", [-1, -1], [1]]},
        {"np": ["O8", [1], [1]]},
        {"np": ["<U999999999", [1], ["a"]]},
        {"np": ["<i8", [1], ["a"]]},
        {"np": [["a"], [1], [1]]},
        {"h": 1},
        nested(103),
        nested(103, "t"),
        nested(300),
    ],
    ids=repr,
)
def test_what_is_no_encoding_is_refused(data):
    with pytest.raises(CodecError):
        decode(data)


def test_floats_that_json_cannot_say_must_be_tagged():
    with pytest.raises(CodecError, match="finite"):
        decode(frames.parse(b'{"a":1e999}')["a"])


@pytest.mark.parametrize("tag", ["s", "d"])
def test_keys_made_to_collide_do_not_cost_the_square(tag):
    keys = [{"i": hex(index * (2**61 - 1))} if index else 0 for index in range(50_000)]
    data = {"s": keys} if tag == "s" else {"d": [[key, 0] for key in keys]}
    for _ in within(2):
        with pytest.raises(CodecError, match="one hash"):
            decode(data)
    assert len(cross({(-1 - a % 2, -1 - b % 2, a, b) for a in range(50) for b in range(50)})) == 2500


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from("i f t s fs d b ba c frac dec dt date time td r dq it el np bi view h zz".split()),
            inner,
            max_size=2,
        )
    ),
    max_leaves=20,
)


@given(JUNK)
def test_any_json_gives_plain_data_or_an_error_of_ours(data):
    try:
        value = decode(data)
    except CodecError:
        return
    assert type(value).__module__ in ("builtins", "collections", "datetime", "decimal", "fractions", "numpy")
