import base64
import json
import pickle
import zlib

import pytest

from verigym.datasets_cfg.adapters import packed
from verigym.datasets_cfg.adapters.packed import read_pickled_text, unpack
from verigym.datasets_cfg.fields import FieldProblem


class Attack:
    def __reduce__(self):
        return exec, ("raise SystemExit('a data file was run')",)


def pack(value, protocol=4):
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("text", ["", "short", "ä€😀\ud800\n", "x" * 255, "y" * 256, "long " * 100_000])
def test_texts_come_out_as_they_went_in(text, protocol):
    assert unpack(pack(text, protocol), "c") == text
    assert unpack(pack({"input_output": text}, protocol), "c") == {"input_output": text}


@pytest.mark.parametrize(
    "value",
    [
        Attack(),
        [Attack()],
        {"a": Attack()},
        len,
        3,
        None,
        ["a"],
        ("a",),
        b"a",
        {1: "a"},
        {"a": 1},
        {"a": {"b": "c"}},
        {"a": "b", "c": "d"},
    ],
)
def test_a_pickle_of_anything_else_is_refused_and_never_run(value):
    with pytest.raises(FieldProblem, match="is a pickle of something other than text") as caught:
        unpack(pack(value), "private")
    assert caught.value.field == "private"


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])
def test_other_protocols_are_refused(protocol):
    with pytest.raises(FieldProblem, match="other than text"):
        unpack(pack("text", protocol), "c")


def test_every_cut_and_every_changed_byte_gives_text_or_a_refusal():
    data = pickle.dumps({"key": "value"}, 4)
    for end in range(len(data)):
        with pytest.raises(ValueError):
            read_pickled_text(data[:end])
    with pytest.raises(ValueError, match="1 bytes and 1 values are left"):
        read_pickled_text(data + b".")
    for place in range(len(data)):
        for byte in range(256):
            try:
                found = read_pickled_text(data[:place] + bytes([byte]) + data[place + 1 :])
            except ValueError:
                continue
            assert isinstance(found, str) or all(isinstance(text, str) for item in found.items() for text in item)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not base64!", "is not base64 over zlib"),
        (base64.b64encode(b"plain").decode(), "is not base64 over zlib"),
        (base64.b64encode(zlib.compress(b"x" * 999)[:-9]).decode(), "ends too early"),
    ],
)
def test_what_is_not_packed(text, message):
    with pytest.raises(FieldProblem, match=message):
        unpack(text, "c")


def test_a_bomb_stops_at_the_bound(monkeypatch):
    monkeypatch.setattr(packed, "MAX_UNPACKED_BYTES", 1 << 20)
    assert unpack(pack("x" * ((1 << 20) - 100)), "c")
    with pytest.raises(FieldProblem, match="unpacks to more than 1,048,576 bytes"):
        unpack(pack("x" * (64 << 20)), "c")


def test_the_published_payloads(shared_data):
    path = shared_data / "code_sandboxfusion_samples/code_eval_live_code_bench_v1.jsonl"
    payloads = [json.loads(line)["test"] for line in path.read_text(encoding="utf-8").splitlines()]
    found = [json.loads(unpack(payload, "test")["input_output"]) for payload in payloads]
    assert [(len(data["inputs"]), data["fn_name"]) for data in found] == [(5, None), (14, "countSeniors"), (15, None)]
