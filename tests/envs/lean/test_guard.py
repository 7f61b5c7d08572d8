"""What a slot may hold: the catalogue's cases, tricks with comments and strings, real proofs, any text."""

import json

import pytest
from cases import cases
from cpu_time import within
from hypothesis import given, settings
from hypothesis import strategies as st
from lean_cases import ROWS as CASES
from lean_cases import submission
from lean_texts import HOSTILE, NESTS, repeated
from needs import SHARED, needs

from verigym.envs.lean.completion import Refused, read_submission
from verigym.envs.lean.guard import BANNED, file_refusal, refusal
from verigym.envs.lean.task import LeanReference, challenge_file, solution_file


@cases("case", CASES, ids=[case["id"] for case in CASES])
def test_catalogue(case):
    """The column `guard` says what is refused without Lean: by the reader of completions, the slot's guard or the file's."""
    found = submission(case)
    if isinstance(found, Refused):
        assert case["guard"] == f"read:{found.reason}"
        return
    assert (refusal if case["mode"] == "slot" else file_refusal)(found) == case["guard"]
    reference = LeanReference(name=case["name"], statement=case["statement"], header=case["header"], mode=case["mode"])
    assert found in solution_file(reference, found) and "sorry" in challenge_file(reference)


def test_catalogue_is_whole():
    assert len({case["id"] for case in CASES}) == len(CASES)
    odd = {
        f"{group}{number}"
        for group, last in zip("ABCDEFG", (11, 9, 23, 13, 7, 10, 7), strict=True)
        for number in range(1, last + 1, 2)
    }
    # Every published case but those that are no submission: D15 is about the checker's settings, D17 has no source.
    assert odd | {"F2", "F4", "F6", "F8", "F10", "G2", "G4", "G6"} <= {case["id"].split("-")[0] for case in CASES}
    for case in CASES:
        assert set(case["needs"]) <= {"core", "std", "mathlib", "lean-import", "native", "cadical", "processes"} | {
            need for need in case["needs"] if need.startswith("lean>=")
        }
        assert all(part.split("/")[0] in ("ACCEPT", "REJECT", "LIMIT") for part in case["expected"].split("|"))


def test_honest_cases_pass_and_only_one_says_otherwise():
    honest = [case for case in CASES if case["expected"] == "ACCEPT"]
    assert len(honest) > 35
    assert [case["id"] for case in honest if case["guard"]] == ["F10"]


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        ("rfl theorem x : True := trivial", "command:theorem"),
        ("by\n  simp\n@[simp] theorem x : True := trivial", "command:@["),
        ("rfl\n/-- doc -/ theorem x : True := trivial", "command:/--"),
        ("1.theorem x : True := trivial", "command:theorem"),
        ("f ..theorem x : True := trivial", "command:theorem"),
        ("rfl noncomputable def x := 1", "command:noncomputable"),
        ("rfl\nopen Nat", "command:open"),
        ("rfl\nopen Nat\ntheorem x : True := trivial", "command:open"),
        ("rfl\nset_option maxHeartbeats 0", "command:set_option"),
        ("open Lean in rfl", "token:open Lean"),
        ("by open Nat Lean.Elab in rfl", "token:open Lean"),
        ("by open «Lean» in rfl", "token:open Lean"),
        ("by open private x in Nat in rfl", "token:open private"),
        ("by set_option «debug».skipKernelTC true in rfl", "token:set_option debug."),
        ("rfl#eval 1", "command:#eval"),
        ("rfl #print axioms x", "command:#print"),
        ("rfl end", "unbalanced:end"),
        ("by rfl)", "unbalanced:)"),
        ("by exact (rfl", "unbalanced:("),
        ("by exact (rfl]", "unbalanced:]"),
        ("rfl /- theorem", "unbalanced:comment"),
        ("rfl -- /-\n -/ theorem x : True := trivial", "command:theorem"),
        ("rfl /- /- -/ -/ theorem x : True := trivial", "command:theorem"),
        ('"/-" theorem x : True := trivial -- -/', "command:theorem"),
        ('"\\" theorem', "unbalanced:string"),
        ('r"\\" theorem x : True := trivial --"', "command:theorem"),
        ("'\"' theorem x : True := trivial --'\"'", "command:theorem"),
        ('s!"{a} {"}" theorem"} theorem x : True := trivial', "unbalanced:string"),
        ('s!"{end}"', "unbalanced:end"),
        ("/-/- -/ theorem x : True := trivial -- -/", "unbalanced:comment"),
        ("/--/ theorem x : True := trivial -- -/", "command:/--"),
        ("«x theorem", "unbalanced:name"),
        ("x.«end» theorem y : True := trivial", "command:theorem"),
        ("", "empty"),
        (" -- rfl\n/- rfl -/", "empty"),
    ],
)
def test_refused(slot, expected):
    assert refusal(slot) == expected


@pytest.mark.parametrize(
    "slot",
    [
        "by exact h.end",
        "by exact (f x).end",
        "by exact Foo.theorem.instance h",
        "by exact theorem'",
        "by exact «theorem»",
        "by simp [theorem_of, «open», x.open]",
        "open scoped Real in open Nat (succ add) in open A hiding b c in open A renaming b → c, d -> e in rfl",
        "by simp [#[1, 2], #s, #(range n), f #univ]",
        "by exact ⟨fun ⦃x⦄ => x[0]'(by simp), ![1, 2], {x // x = 1}⟩",
        "by\n  simp? -- theorem\n  /- end /- #eval -/ -/",
        'by have : "theorem \\" end" = \'"\'.toString := by simp',
    ],
)
def test_passed(slot):
    assert refusal(slot) is None


def test_the_list_of_words_can_be_changed():
    assert refusal("by native_decide") == "token:native_decide"
    assert refusal("by native_decide", BANNED - {"native_decide"}) is None
    assert refusal("by exact sorry", BANNED | {"sorry"}) == "token:sorry"
    assert (
        refusal("by set_option maxHeartbeats 0 in rfl", BANNED | {"set_option maxHeartbeats"})
        == "token:set_option maxHeartbeats"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#eval 1", "metaprogram:#eval"),
        ("#eval! x", "metaprogram:#eval"),
        ('elab "x" : tactic => pure ()', "metaprogram:elab"),
        ("theorem t : 1 = 1 := by run_tac pure ()", "metaprogram:run_tac"),
        ("-- #eval\n/- elab -/\ntheorem elab' : 1 = 1 := rfl", None),
        ('def s := "#eval"\nmacro "m" : tactic => `(tactic| rfl)', None),
        ("-- nothing", "empty"),
    ],
)
def test_files(text, expected):
    assert file_refusal(text) == expected


@needs("shared data")
def test_real_proofs_pass():
    """The 67 proofs that come with miniF2F's validation split."""
    path = SHARED / "data/lean_minif2f/minif2f_valid_few_shot.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 67
    for row in rows:
        proof = "by\n" + row["formal_proof"]
        assert refusal(proof) is None, row["name"]
        statement = row["formal_statement"].rstrip().removesuffix(":= by")
        whole = f"```lean4\nimport Mathlib\n\n{row['informal_prefix']}{row['formal_statement']}{row['formal_proof']}\n```"
        read = read_submission(whole, "slot", statement=statement)
        assert isinstance(read, str) and read.split() == proof.split(), row["name"]


@settings(max_examples=100, deadline=None)
@given(HOSTILE)
def test_any_text_gets_an_answer(text):
    for answer in (refusal(text), file_refusal(text)):
        assert answer is None or ":" in answer or answer == "empty"


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["rfl", "by simp", "(f x)", '"a"', "1", "by\n  exact ⟨a, b⟩"]), st.text(" \n;,.", max_size=3))
def test_a_command_after_a_proof_is_found(proof, between):
    assert refusal(f"{proof}{between} theorem x : True := trivial") is not None


@pytest.mark.parametrize("piece", NESTS)
def test_time_grows_with_the_length(piece):
    for _ in within(0.7):
        refusal(repeated(piece))
        refusal("by simp [" + repeated(piece) + "]")
