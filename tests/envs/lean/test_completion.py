"""What is read out of a completion."""

import pytest
from cpu_time import within
from hypothesis import given, settings
from lean_texts import HOSTILE, NESTS, repeated

from verigym.envs.lean.completion import Refused, expand_tabs, read_submission

STATEMENT = "theorem target (a b : Nat) : a + b = b + a"
HEADER = "import A\n\nopen Nat\n\ndef two : Nat := 2\n"


def fenced(code, tag="lean"):
    return f"Here it is.\n```{tag}\n{code}\n```\nDone."


def read(text, mode="slot", **options):
    return read_submission(text, mode, statement=STATEMENT, header=HEADER, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (fenced("by omega"), "by omega\n"),
        (fenced("by omega", "lean4"), "by omega\n"),
        (fenced("by omega", ""), "by omega\n"),
        (fenced("by simp") + fenced("by omega"), "by omega\n"),
        (fenced("by omega") + fenced("x = 1", "python"), "by omega\n"),
        (fenced("by omega") + "```lean\nby sim", "by omega\n"),
        ("<think>" + fenced("by sorry") + "</think>" + fenced("by omega"), "by omega\n"),
        (fenced("\ufeffby\r\n  omega\r"), "by\n  omega\n"),
        (fenced(STATEMENT + " := by omega"), " by omega\n"),
        (fenced("theorem target (a  b : Nat)/- x -/ :\n  a + b =\n b + a :=\n  by omega -- end"), "\n  by omega -- end\n"),
        (fenced("lemma target (a b : Nat) : a + b = b + a := by omega"), " by omega\n"),
        (fenced(HEADER + "/-- doc -/\n" + STATEMENT + " := by omega"), " by omega\n"),
        (fenced("import B\nset_option x true\nopen Real in\n" + STATEMENT + " := by omega"), " by omega\n"),
        (fenced("private " + STATEMENT + " := by omega"), " by omega\n"),
        (fenced(STATEMENT + " := by omega\ntheorem x : True := trivial"), " by omega\ntheorem x : True := trivial\n"),
        (fenced("have := " + STATEMENT), "have := " + STATEMENT + "\n"),
        (
            fenced("open Nat in set_option maxRecDepth 9 in add_comm a b"),
            "open Nat in set_option maxRecDepth 9 in add_comm a b\n",
        ),
    ],
)
def test_slot(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_code"),
        ("by omega", "no_code"),
        ("```lean\nby omega", "no_code"),
        ("<think>" + fenced("by omega"), "no_code"),
        (fenced(""), "no_code"),
        (fenced("-- nothing"), "empty"),
        (fenced("/-- by omega -/"), "empty"),
        (fenced("by \0"), "bad_text"),
        (fenced("by \ud800"), "bad_text"),
        (fenced("x" * 300_000), "too_long"),
        (fenced("theorem target (a b : Nat) : a + b = a + b := rfl"), "other_statement"),
        (fenced("theorem target : 1 = 1 := rfl"), "other_statement"),
        (fenced("theorem other (a b : Nat) : a + b = b + a := by omega"), "other_statement"),
        (fenced("/- " + STATEMENT + " := by omega -/ theorem target : 1 = 1 := rfl"), "other_statement"),
        (fenced("def two : Nat := 3\n" + STATEMENT + " := by omega"), "extra_declarations"),
        (fenced("theorem helper : 1 = 1 := rfl\n" + STATEMENT + " := by omega"), "extra_declarations"),
        (fenced("open Nat\nmacro_rules | `(x) => `(y)\n" + STATEMENT + " := by omega"), "extra_declarations"),
        (fenced(STATEMENT), "no_body"),
        (fenced(STATEMENT + "\n  | 0, b => by simp"), "no_body"),
        (fenced(STATEMENT + " ∧ True := by omega"), "no_body"),
        (fenced(STATEMENT + " := -- by omega"), "empty"),
    ],
)
def test_slot_refused(text, reason):
    found = read(text)
    assert isinstance(found, Refused) and found.reason == reason and found.detail


def test_without_a_statement_the_block_stays_as_it_is():
    whole = STATEMENT + " := by omega"
    assert read_submission(fenced(whole), "slot") == whole + "\n"
    assert read(fenced(whole), mode="file") == whole + "\n"
    assert read(fenced("by simp\n\n"), mode="file") == "by simp\n\n\n"


def test_unfenced_text_counts_where_it_is_asked_for():
    assert read("by omega", unfenced=True) == "by omega"
    assert read("So: " + fenced("by omega"), unfenced=True) == "by omega\n"
    assert read(" ", unfenced=True).reason == "no_code"


def test_size_is_counted_in_bytes():
    assert read(fenced("by simp [" + "ℝ" * 400 + "]"), max_kb=1).reason == "too_long"
    assert isinstance(read(fenced("by simp [" + "r" * 400 + "]"), max_kb=1), str)


def test_tabs_become_spaces_outside_strings_and_comments():
    assert expand_tabs('by\n\thave\tx := "\t"\n  \tsimp\t-- \t\n') == 'by\n    have    x := "\t"\n    simp    -- \t\n'
    assert expand_tabs("by\n\t\tsimp\t\n\t") == "by\n        simp    \n    "


@settings(max_examples=75, deadline=None)
@given(HOSTILE, HOSTILE)
def test_any_text_gives_a_submission_or_a_reason(before, inside):
    for text in (before, fenced(inside), before + fenced(STATEMENT + inside), fenced(inside + STATEMENT + " := by omega")):
        for mode in ("slot", "file"):
            for unfenced in (False, True):
                found = read(text, mode=mode, unfenced=unfenced)
                if not isinstance(found, Refused):
                    assert found.strip() and "\0" not in found
                    assert found.encode() and "\r\n" not in found


@pytest.mark.parametrize("piece", [*NESTS, "```\n", "```lean\nx\n", "<think>", "</think>", "\t", "\t\n"])
@pytest.mark.slow
def test_time_grows_with_the_length(piece):
    for _ in within(1):
        for text in (
            repeated(piece),
            fenced(repeated(piece)),
            fenced(STATEMENT + " := " + repeated(piece)),
            fenced("open " + repeated(piece)),
        ):
            read(text, unfenced=True)
