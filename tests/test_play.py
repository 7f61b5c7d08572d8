"""`verigym play`: an episode by hand, with a script and with a function; the episode that it saves is graded again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verigym.cli import app, main

TASK = ("--prompt", "What is 37*41?", "--reference", "answer=1517", "--tool", "calculator")
CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "37*41"}}</tool_call>'


def ask(messages: object) -> str:
    """The policy of a script: it calls once and then answers with what it has read."""
    last = list(messages)[-1]  # type: ignore[call-overload]
    return f"\\boxed{{{last.content}}}" if last.role == "tool" else CALL


@pytest.mark.slow
def test_a_script_plays_and_its_episode_is_graded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, out = tmp_path / "turns.json", tmp_path / "episodes.jsonl"
    script.write_text(json.dumps([f"I compute. {CALL}", r"\boxed{1517}"]))
    assert main(["play", "math", *TASK, "--script", str(script), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "[calculator] 1517\n[assistant] \\boxed{1517}\n" in shown and "correct: reward 1.0" in shown
    (row,) = map(json.loads, out.read_text().splitlines())
    assert row["answer"] == "1517" and [turn["role"] for turn in row["completion"]["turns"]] == [
        "assistant",
        "tool",
        "assistant",
    ]
    graded = tmp_path / "scores.jsonl"
    assert main(["grade", str(out), "--env", "math", "--out", str(graded)]) == 0
    assert json.loads(graded.read_text())["score"]["reward"] == 1.0


def test_a_function_plays(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    assert main(["play", "math", *TASK, "--script", "test_play:ask"]) == 0
    assert "ended by stop" in capsys.readouterr().out


def test_a_person_plays() -> None:
    by_hand = CliRunner().invoke(app, ["play", "math", *TASK], input=f"I compute.\n{CALL}\n.\n\\boxed{{1517}}")
    assert by_hand.exit_code == 0, by_hand.output
    assert "[calculator] 1517\n" in by_hand.stdout and "correct: reward 1.0" in by_hand.stdout
    assert CALL not in by_hand.stdout, "what one has typed is not shown again"


def test_an_episode_without_an_answer_ends_by_its_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "turns.json"
    script.write_text(json.dumps([CALL] * 3))
    assert main(["play", "math", *TASK, "--script", str(script), "--max-turns", "2"]) == 0
    assert "ended by turns" in (shown := capsys.readouterr().out) and "reward 0.0" in shown


def test_mistakes_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short, text = tmp_path / "short.json", tmp_path / "text.json"
    short.write_text(json.dumps([CALL]))
    text.write_text('"one"')
    for arguments, said in [
        ((*TASK, "--script", str(short)), "the turns are over before the episode is"),
        ((*TASK, "--script", str(text)), "expected a JSON list of texts, one for each turn"),
        ((*TASK, "--script", "no_such_module:policy"), "No module named 'no_such_module'"),
        (("--tool", "calculator"), "generates no tasks: give one with --prompt TEXT"),
        (("--reference", "answer=1"), "--reference is about a task of yours"),
        (("--prompt", "1+1?", "--reference", "answer=2"), "has no episodes (no `open`)"),
        ((*TASK, "--tool", "calculater"), "no tool 'calculater'; did you mean 'calculator'?"),
    ]:
        assert main(["play", "math", *arguments]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
