"""Figures that are suspicious come with texts to look at and the arguments that would help."""

import json

import pytest

from verigym import Completion, load
from verigym.cli import main
from verigym.datasets_cfg.golds import is_prose
from verigym.envs.option_trials import Trial, alternatives, as_arguments, best
from verigym.grade.out_file import sidecar
from verigym.grade.specimens import HashSample

STEPS = "She sells the remaining 9 eggs at the market for 2 dollars each.\nSo she makes 9 * 2 = 18 every day there.\n"


@pytest.fixture
def graded(tmp_path, capsys):
    def grade(rows, *arguments, env="math"):
        source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert main(["grade", str(source), "--env", env, "--out", str(out), "--workers", "0", "--overwrite", *arguments]) == 0
        return json.loads(sidecar(out, "summary.json").read_text())["hints"], capsys.readouterr().err

    return grade


def gsm8k(ending, gold, count=12):
    return [
        {"prompt": f"q{i}", "answer": gold % i, "completion": f"{STEPS}{ending % (i if i % 3 else 0)}"} for i in range(count)
    ]


def test_answers_behind_a_label_name_the_option_that_reads_them(graded):
    [hint], shown = graded(gsm8k("A: %d", "%d"))
    assert hint["kind"] == "no_answer" and "in 12 of 12 completions (no boxed answer)" in hint["message"]
    assert len(hint["examples"]) == 3 and all("A: " in example for example in hint["examples"])
    trials = {trial["arguments"]: (trial["read"], trial["right"]) for trial in hint["tried"]}
    assert trials["--option extract=label"] == (12, 9) and trials["--option extract=hash"] == (0, 0)
    assert "Of 12 of these texts, --option extract=label reads 12, and 9 are right; also tried: --option extract=last" in shown
    again, _ = graded(gsm8k("A: %d", "%d"), "--option", "extract=label")
    assert again == []


def test_whole_solutions_as_golds_are_told_of_and_the_two_remedies_work_together(graded):
    rows = gsm8k("A: %d", STEPS + "A: %d")
    (golds, unread), shown = graded(rows)
    assert golds["kind"] == "gold_text" and "12 of 12 completions" in golds["message"] and "#### 18" in golds["advice"]
    assert "--gold-extract label takes an answer out of 12 of these 12, here '0'" in golds["advice"]
    assert "--gold-extract last takes the last number" in golds["advice"]
    assert unread["kind"] == "no_answer" and "extract=label reads 12, and 9 are right" in unread["advice"]
    assert shown.index("the gold of 12") < shown.index("no answer was found")
    assert graded(rows, "--gold-extract", "label", "--option", "extract=label")[0] == []


def test_golds_without_any_mark_get_the_last_number(graded):
    rows = gsm8k("so \\boxed{%d}", STEPS + "That is what she makes: %d dollars")
    (golds, _), _ = graded(rows)
    assert "--gold-extract last takes the last number or formula out of 12 of these 12" in golds["advice"]
    assert graded(rows, "--gold-extract", "last")[0] == []


def test_golds_that_are_read_as_they_are_need_no_hint(graded):
    assert graded(gsm8k("so \\boxed{%d}", STEPS + "#### %d"))[0] == []


@pytest.mark.parametrize(
    ("gold", "prose"),
    [("18", False), (r"\frac{\text{rise}}{\text{run}}", False), ("the Tower of London", False), (STEPS, True)],
)
def test_what_is_prose(gold, prose):
    assert is_prose(gold) is prose


def test_texts_that_no_option_reads(graded):
    [hint], _ = graded([{"prompt": "q", "answer": "4", "completion": "I do not know"}] * 5)
    assert hint["advice"] == "No option of the environment reads these texts."


def test_nothing_right(graded):
    [hint], shown = graded([{"prompt": f"q{i}", "answer": "4", "completion": f"\\boxed{{{i + 10}}}"} for i in range(8)])
    assert hint["kind"] == "none_right" and "none of 8 completions is right, and all get 0" in shown
    assert "line 1: incorrect, answer '10', gold '4'" in hint["examples"][0] and "Is the gold in the column" in hint["advice"]


def test_all_rewards_equal(graded):
    [hint], _ = graded([{"prompt": f"q{i}", "answer": str(i), "completion": f"\\boxed{{{i}}}"} for i in range(8)])
    assert hint["kind"] == "equal_rewards" and "all 8 completions get the same reward, 1." in hint["message"]


def test_few_completions_and_ordinary_figures_are_not_suspicious(graded):
    assert graded([{"prompt": "q", "answer": "4", "completion": r"\boxed{5}"}] * 3)[0] == []
    rows = [{"prompt": f"q{i}", "answer": str(i % 2), "completion": r"\boxed{0}"} for i in range(20)]
    assert graded(rows)[0] == []


def test_bare_programs_name_fences_and_the_prefix(graded):
    tests = [{"type": "call", "function": "f", "args": [3], "expected": 6}]
    row = {"prompt": "q", "tests": tests, "prefix": "def f(n):\n", "completion": "    return 2 * n\n"}
    [hint], _ = graded([row] * 3, env="code")
    assert (
        hint["kind"] == "no_answer" and "extract=fenced_or_all --option continue_prefix=true reads 3, and 3" in hint["advice"]
    )


def test_a_resumed_run_gives_the_same_hints(graded, tmp_path):
    rows = gsm8k("A: %d", STEPS + "A: %d", count=100)
    whole, _ = graded(rows)
    out = tmp_path / "out.jsonl"
    out.write_bytes(out.read_bytes()[:9000])
    assert main(["grade", str(tmp_path / "in.jsonl"), "--env", "math", "--out", str(out), "--workers", "0"]) == 0
    assert json.loads(sidecar(out, "summary.json").read_text())["hints"] == whole


def test_specimens_are_spread_and_bounded():
    spread: HashSample[int] = HashSample(16)
    for value in range(10_000):
        spread.offer(value)
    assert len(spread.kept) == 16 and spread.kept == sorted(spread.kept)
    assert spread.kept[0] < 3000 and spread.kept[-1] > 7000 and len({value % 4 for value in spread.kept}) == 4


def test_the_more_trusted_of_two_ways_that_read_alike_is_proposed():
    trials = [
        Trial(change={"extract": "hash"}, texts=20, read=2, right=2),
        Trial(change={"extract": "label"}, texts=20, read=19, right=10),
        Trial(change={"extract": "last"}, texts=20, read=20, right=11),
    ]
    proposed = best(trials)
    assert proposed is not None and proposed.change == {"extract": "label"}
    assert best([]) is None and best([Trial(change={"extract": "a"}, texts=3, read=0, right=0)]) is None


def test_alternatives_are_given_as_the_command_line_takes_them():
    shown = [as_arguments(change) for change in alternatives(load("match"))]
    assert """--option answer_in='["label"]'""" in shown
    assert [as_arguments(change) for change in alternatives(load("math", extract="label"))][0] == "--option extract=boxed"
    assert list(alternatives(load("length"))) == []
    for change in alternatives(load("match")):
        assert load("match", **change).score(load("match").prompt("q", kind="exact", answer="a"), Completion(text="a")).scored


def test_trials_end_in_time(graded, monkeypatch):
    monkeypatch.setattr("verigym.envs.option_trials.ALL_TRIALS_S", -1)
    [hint], _ = graded(gsm8k("A: %d", "%d"))
    assert [trial["texts"] for trial in hint["tried"]] == [0] * 4
    assert hint["advice"].startswith("The time did not suffice to try --option extract=hash, --option extract=final")
