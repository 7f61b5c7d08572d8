"""Reading what Lean printed. Recorded output is marked as such; the rest is written after documentation."""

import json

import pytest
from cpu_time import within
from hypothesis import given, settings
from hypothesis import strategies as st
from lean_texts import repeated
from needs import SHARED, needs

from verigym.envs.lean.messages import Message, parse_messages

# Recorded: Lean 4.0.0-pre of 2021-06-06.
RECORDED = [
    ("Solution.lean:1:33: warning: declaration uses 'sorry'\n", [Message("warning", "declaration uses 'sorry'", 1, 33)]),
    (
        "S.lean:1:46: error: unknown identifier 'begin'\nS.lean:1:57: error: invalid 'end', insufficient scopes\n",
        [
            Message("error", "unknown identifier 'begin'", 1, 46),
            Message("error", "invalid 'end', insufficient scopes", 1, 57),
        ],
    ),
    (
        "{\"env\": 0}\n\n\nSolution.lean:2:33: error: failed to reduce to 'true'\n  false\n",
        [Message("info", '{"env": 0}'), Message("error", "failed to reduce to 'true'\n  false", 2, 33)],
    ),
    ("'target' does not depend on any axioms\n", [Message("info", "'target' does not depend on any axioms")]),
    ("", []),
    ("\n", []),
]

# Written by hand after the documentation of Lean.Message and the release notes of 4.22 and 4.28; not recorded.
WRITTEN = [
    ("A.lean:1:8: warning: declaration uses `sorry`", [Message("warning", "declaration uses `sorry`", 1, 8)]),
    (
        "A.lean:2:4: error(lean.unknownIdentifier): Unknown identifier `x`\n\nNote: more",
        [Message("error", "Unknown identifier `x`\n\nNote: more", 2, 4, "lean.unknownIdentifier")],
    ),
    ("A.lean:1:8-1:14: warning: unused variable `h`", [Message("warning", "unused variable `h`", 1, 8)]),
    ("/a b/C:1.lean:10:0: info: 3\r\n4\r\n", [Message("info", "3\n4", 10, 0)]),
    ("A.lean:1:0: information: 3", [Message("info", "3", 1, 0)]),
    ("A.lean:1:0: errors: 3", [Message("info", "A.lean:1:0: errors: 3")]),
]

# The shape of `lean --json`, from the fields of Lean.SerialMessage; not recorded.
JSON = {
    "caption": "",
    "data": "declaration uses `sorry`",
    "endPos": {"column": 14, "line": 1},
    "fileName": "A.lean",
    "isSilent": False,
    "keepFullRange": False,
    "kind": "hasSorry",
    "pos": {"column": 8, "line": 1},
    "severity": "warning",
}


@pytest.mark.parametrize(("output", "expected"), [*RECORDED, *WRITTEN])
def test_text(output, expected):
    assert list(parse_messages(output)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Message("warning", "declaration uses `sorry`", 1, 8, "hasSorry")),
        ({"kind": "[anonymous]", "severity": "information"}, Message("info", "declaration uses `sorry`", 1, 8)),
        (
            {"kind": "lean.unknownIdentifier._namedError", "severity": "error", "data": "a\nb\n"},
            Message("error", "a\nb", 1, 8, "lean.unknownIdentifier"),
        ),
        ({"caption": "case x"}, Message("warning", "case x:\ndeclaration uses `sorry`", 1, 8, "hasSorry")),
        ({"kind": None, "endPos": None, "pos": None}, Message("warning", "declaration uses `sorry`")),
        ({"pos": {"line": -1, "column": True}}, Message("warning", "declaration uses `sorry`", tag="hasSorry")),
    ],
)
def test_json(changes, expected):
    assert parse_messages(json.dumps(JSON | changes) + "\n") == (expected,)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(JSON | {"severity": "fatal"}),
        json.dumps(JSON | {"severity": ["error"]}),
        json.dumps(JSON | {"data": 3}),
        json.dumps(JSON)[:-1],
        "{}",
        '{"a":' * 100_000,
        '{"severity": ' + "9" * 10_000 + "}",
    ],
)
def test_other_json_is_text(line):
    assert parse_messages(line) == (Message("info", line),)


def test_forms_may_be_mixed():
    output = "started\n" + json.dumps(JSON) + "\nA.lean:1:2: error: x\n  y\n" + json.dumps(JSON | {"kind": ""}) + "\nlast\n"
    found = parse_messages(output)
    assert [(message.severity, message.text.split("\n")[0]) for message in found] == [
        ("info", "started"),
        ("warning", "declaration uses `sorry`"),
        ("error", "x"),
        ("warning", "declaration uses `sorry`"),
        ("info", "last"),
    ]


@needs("shared reference")
def test_every_recorded_transcript():
    path = SHARED / "reference/lean_transcripts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 23
    for row in rows:
        found = parse_messages(row["output"])
        # In these runs the exit code was 1 exactly where an error stands in the output.
        assert any(message.severity == "error" for message in found) == (row["exit_code"] != 0), row["id"]
        heads = sum(": error: " in line or ": warning: " in line for line in row["output"].splitlines())
        assert sum(message.severity != "info" for message in found) == heads
        assert all(message.line <= row["source"].count("\n") for message in found)
        assert "".join("".join(message.text for message in found).split()) in "".join(row["output"].split()) or heads


@settings(max_examples=75, deadline=None)
@given(
    st.lists(
        st.one_of(st.text(max_size=8), st.sampled_from(["a.lean:1:2: error: x", "\n", "{", json.dumps(JSON), ":1:", "(", ")"]))
    )
)
def test_any_output_is_read(parts):
    output = "".join(parts)
    found = parse_messages(output)
    assert bool(found) == bool(output.replace("\r\n", "\n").strip())


@pytest.mark.parametrize(
    "piece", ["1:", ":1", "{", '{"a":', ":1:1: error(", "a\n", ":1:1: err", "a:1:2: error: x\n", json.dumps(JSON) + "\n"]
)
def test_time_grows_with_the_length(piece):
    for _ in within(3.3):
        parse_messages(repeated(piece))
