"""Where a statement ends: hand-written declarations, and every statement of the public data sets."""

import contextlib
import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
from cpu_time import within
from hypothesis import given, settings
from hypothesis import strategies as st
from lean_texts import HOSTILE, NESTS, repeated
from needs import SHARED, require
from pydantic import ValidationError

from verigym.envs import UsageError
from verigym.envs.contract.errors import explain
from verigym.envs.lean.statement import normal_form, qualified, split_statement
from verigym.envs.lean.task import LeanReference, challenge_file, solution_file


@pytest.mark.parametrize(
    ("text", "statement", "tail"),
    [
        ("theorem t : 1 = 1", "theorem t : 1 = 1", ""),
        ("theorem t : 1 = 1 :=", "theorem t : 1 = 1", ":="),
        ("theorem t : 1 = 1 := by\n", "theorem t : 1 = 1", ":= by\n"),
        ("theorem t : 1 = 1 := sorry", "theorem t : 1 = 1", ":= sorry"),
        ("theorem t : 1 = 1 :=\n  by -- here\n  sorry", "theorem t : 1 = 1", ":=\n  by -- here\n  sorry"),
        (
            "theorem t (x := 1) (h : x = 1 := by simp) : x = 1 := by",
            "theorem t (x := 1) (h : x = 1 := by simp) : x = 1",
            ":= by",
        ),
        ("theorem t {x : Nat} [h : F (n := 3)] : x = x :=", "theorem t {x : Nat} [h : F (n := 3)] : x = x", ":="),
        ("theorem t : let x := 2; x = 2 := by", "theorem t : let x := 2; x = 2", ":= by"),
        ("theorem t : let x := 2\n  let y := 3\n  x < y :=", "theorem t : let x := 2\n  let y := 3\n  x < y", ":="),
        ("theorem t : have h := trivial; True", "theorem t : have h := trivial; True", ""),
        ("theorem t : ∃ a, let ⟨p, q⟩ := a; p = q := by", "theorem t : ∃ a, let ⟨p, q⟩ := a; p = q", ":= by"),
        ("theorem t : ({ re := 1, im := 0 } : C).re = 1 := by", "theorem t : ({ re := 1, im := 0 } : C).re = 1", ":= by"),
        ('theorem t : ":=".length = 2 := by', 'theorem t : ":=".length = 2', ":= by"),
        ("theorem t /- := -/ : 1 = 1 -- :=\n := by", "theorem t /- := -/ : 1 = 1 -- :=", ":= by"),
        ("lemma t.{u} (α : Sort u) : True := by sorry", "lemma t.{u} (α : Sort u) : True", ":= by sorry"),
        ("noncomputable def t : Nat := sorry", "noncomputable def t : Nat", ":= sorry"),
        ("@[simp] private theorem t : 1 = 1 :=", "@[simp] private theorem t : 1 = 1", ":="),
        ("open Nat in\ntheorem t : 1 = 1 :=", "open Nat in\ntheorem t : 1 = 1", ":="),
        (
            "/-- doc := -/\nset_option a true in\ntheorem t : 1 = 1 :=",
            "/-- doc := -/\nset_option a true in\ntheorem t : 1 = 1",
            ":=",
        ),
        ("theorem t : open Nat in 1 = 1 := by", "theorem t : open Nat in 1 = 1", ":= by"),
    ],
)
def test_split(text, statement, tail):
    parts = split_statement(text)
    assert (parts.before, parts.statement, parts.name, parts.tail) == ("", statement, "t", tail)
    assert parts.open_ended
    reference = LeanReference(name="t", statement=parts.statement)
    assert normal_form(split_statement(challenge_file(reference)).statement) == normal_form(statement)


def test_declarations_before_the_last_are_header():
    others = "import A\n\ndef f : Nat := 2\n\n/-- theorem -/\n@[simp] theorem h : f = 2 := rfl\n\n"
    text = others + "open Nat in\ntheorem t : f = 2 := by sorry"
    parts = split_statement(text)
    assert parts.before == others
    assert parts.statement == "open Nat in\ntheorem t : f = 2"
    assert split_statement("def f : Nat → Nat\n| 0 => 1\n| n + 1 => f n\ntheorem t : f 0 = 1 :=").before.endswith("f n\n")


def test_a_proof_is_no_open_end():
    assert not split_statement("theorem t : 1 = 1 := rfl").open_ended
    assert not split_statement("theorem t : 1 = 1 := by sorry sorry").open_ended


@pytest.mark.parametrize(
    ("before", "name", "expected"),
    [
        ("namespace A\n", "t", "A.t"),
        ("namespace A namespace B end B section C", "t", "A.t"),
        ("namespace A.B\nnoncomputable section", "t", "A.B.t"),
        ("namespace A", "_root_.t", "t"),
        ("-- namespace A", "t", "t"),
        ("end", "t", "t"),
    ],
)
def test_namespaces_that_stay_open_belong_to_the_name(before, name, expected):
    assert qualified(before, name) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "declares no theorem"),
        ("-- theorem t", "declares no theorem"),
        ("example : 1 = 1 := rfl", "declares no theorem"),
        ("theorem (x) : 1 = 1", "has no name"),
        ("theorem t : 1 = 1 /- x", "never closes"),
    ],
)
def test_what_cannot_be_split_says_why(text, message):
    with pytest.raises(UsageError, match=message):
        split_statement(text)


@settings(max_examples=75, deadline=None)
@given(HOSTILE, st.sampled_from(["", "theorem t : ", "theorem t : 1 = 1 := "]))
def test_any_text_is_split_or_refused(text, front):
    try:
        parts = split_statement(front + text)
    except UsageError:
        return
    assert "".join((parts.before + parts.statement + parts.tail).split()) == "".join((front + text).split())


@pytest.mark.parametrize("piece", NESTS)
def test_time_grows_with_the_length(piece):
    for _ in within(0.7):
        for text in (repeated(piece) + "\ntheorem u : 1 = 1", "theorem u : 1 = 1\n" + repeated(piece)):
            with contextlib.suppress(UsageError):
                split_statement(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"statement": "theorem t : 1 = 1 := by sorry"}, "holds a body"),
        ({"statement": "theorem u : 1 = 1"}, "declares 'u', and name is 't'"),
        ({"statement": "theorem t : 1 = 1", "header": "namespace A"}, "declares 'A.t', and name is 't'"),
        ({"statement": "def f := 1 theorem t : 1 = 1"}, "begins with 'def f := 1'"),
        ({"statement": "theorem t : 1 = 1", "header": "/- x"}, "header opens"),
        ({"statement": "theorem t : '\0'"}, "NUL"),
        ({"statement": "theorem t : 1 = 1", "solution": " "}, "solution is empty"),
        ({"statement": "theorem t : 1 = 1", "limits": {"wall": 3}}, "limits.wall"),
    ],
)
def test_references_that_cannot_be_graded_are_refused(fields, message):
    with pytest.raises(ValidationError) as caught:
        LeanReference(name="t", **fields)
    assert message in explain(caught.value)


def test_files():
    reference = LeanReference(name="A.t", header="import X\nnamespace A\r\n", statement="theorem t : 1 = 1 -- so")
    assert challenge_file(reference) == "import X\nnamespace A\n\ntheorem t : 1 = 1 -- so\n:= by sorry\n"
    assert solution_file(reference, "by\n  rfl") == "import X\nnamespace A\n\ntheorem t : 1 = 1 -- so\n:=\nby\n  rfl\n"
    definition = LeanReference(name="f", statement="def f : Nat", mode="file")
    assert challenge_file(definition) == "def f : Nat := sorry\n"
    assert solution_file(definition, "anything") == "anything"


def shared():
    require("shared data")
    return SHARED / "data"


def statements(path):
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if member.name.count("/") == 2:
                    yield Path(member.name).stem, archive.extractfile(member).read().decode()
        return
    data = path.read_bytes()
    for line in io.StringIO((gzip.decompress(data) if path.suffix == ".gz" else data).decode()):
        row = json.loads(line)
        yield row["name"], row.get("header", "") + "\n" + row["formal_statement"]


@pytest.mark.parametrize(
    ("file", "rows", "tails", "inner", "defs"),
    [
        ("lean_minif2f/minif2f.jsonl.gz", 488, ["by"], 0, 0),
        ("lean_minif2f/minif2f_valid_few_shot.jsonl", 67, ["by"], 0, 0),
        ("lean_minif2f/nemo_gym_minif2f_test.jsonl.gz", 244, ["by"], 0, 0),
        ("lean_minif2f/yangky11_miniF2F_lean4_files.tar.gz", 488, ["by sorry"], 0, 0),
        ("lean_proofnet_putnam/proofnet.jsonl", 371, [""], 2, 14),
        ("lean_proofnet_putnam/putnambench_goedel.jsonl.gz", 644, ["by"], 22, 0),
    ],
)
def test_every_public_statement(file, rows, tails, inner, defs):
    found = [(name, split_statement(text)) for name, text in statements(shared() / file)]
    assert len(found) == rows
    assert all(parts.open_ended for _, parts in found)
    assert sorted({" ".join(parts.tail.removeprefix(":=").split()) for _, parts in found}) == tails
    assert sum(":=" in parts.statement for _, parts in found) == inner
    assert sum(parts.keyword == "def" for _, parts in found) == defs
    # Two rows of this carrier are named by a word of their comment and by a name with a colon.
    odd = sorted(name for name, parts in found if name != parts.name)
    assert odd == (["asserts", "putnam_1993_b5:"] if "putnambench" in file else [])
    for _, parts in found[::7]:
        reference = LeanReference(name=parts.name, statement=parts.statement, header=parts.before)
        again = split_statement(challenge_file(reference))
        assert again.name == parts.name and normal_form(again.statement) == normal_form(parts.statement)
